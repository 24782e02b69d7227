"""The project's own files, as the rules see them, and how a rule is written.

A rule is a function from one file to what it finds there. It carries an example it must object to
and one it must accept, so that a rule that has stopped working is noticed.
"""

import ast
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """One file of the project. `path` is relative to the project's root, with forward slashes."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    def is_under(self, *folders: str) -> bool:
        return any(self.path.startswith(f"{folder}/") for folder in folders)


@dataclass(frozen=True)
class Finding:
    """What a rule objects to; `line` counts from one."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


# Yields (line number, message).
Check = Callable[[Source], Iterable[tuple[int, str]]]


@dataclass(frozen=True)
class Rule:
    """A named check, the files it applies to, and the examples that prove it."""

    name: str
    check: Check
    applies: Callable[[Source], bool]
    objects_to: tuple[Source, ...]
    accepts: tuple[Source, ...]
    # path -> why this file may break the rule
    allowed: dict[str, str] = field(default_factory=dict)

    def findings(self, source: Source) -> Iterator[Finding]:
        if self.applies(source):
            for line, message in self.check(source):
                yield Finding(source.path, line, message)


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for a chain of attributes; a part that is no name is `?`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def read_project() -> list[Source]:
    """Return every tracked text file that exists in the working tree: all but the images."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    names = [name for name in names if not name.endswith(".png")]
    return [Source(name, (ROOT / name).read_text(encoding="utf-8")) for name in names]


RULES: list[Rule] = []


def rule(
    *,
    applies: Callable[[Source], bool],
    objects_to: dict[str, str],
    accepts: dict[str, str],
    allowed: dict[str, str] | None = None,
) -> Callable[[Check], Check]:
    """Register a check. The examples map a path to a text."""

    def register(check: Check) -> Check:
        RULES.append(
            Rule(
                name=getattr(check, "__name__", repr(check)),
                check=check,
                applies=applies,
                objects_to=tuple(Source(path, text) for path, text in objects_to.items()),
                accepts=tuple(Source(path, text) for path, text in accepts.items()),
                allowed=allowed or {},
            )
        )
        return check

    return register
