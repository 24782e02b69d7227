"""Python source that is written and compiled at run time."""

from __future__ import annotations

from typing import Any


class SourceWriter:
    """Lines of source with indentation, and the objects that the source refers to by name."""

    def __init__(self, title: str) -> None:
        self._title = title
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._counts: dict[str, int] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        """A variable name that this source has not used yet."""
        number = self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def name(self, prefix: str, value: Any) -> str:
        """Make an object reachable from the source; returns its name there."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def finish(self, name: str, parameters: str) -> Any:
        """Compile the lines as the body of a function."""
        source = f"def {name}({parameters}):\n" + "\n".join(self.lines)
        exec(compile(source, f"<{self._title} {name}>", "exec"), self.names)
        return self.names[name]
