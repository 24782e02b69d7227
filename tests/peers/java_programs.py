"""Java programs that run beside a test, which may kill them and start them again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.peers.java_runtime import java_command

_SHOWN_CHARACTERS = 6_000


def write_properties(path: Path, settings: Mapping[str, object]) -> str:
    """Write a file of Java's settings; returns its path for a command line."""
    lines = [f"{name}={value}\n" for name, value in settings.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


class JavaProgram:
    """A class of `java_runtime.class_path` in a process of its own, while it is entered.

    Args:
        log_path: gets what it writes.
        main_class: what to run.
        arguments: of the program.
    """

    def __init__(self, log_path: Path, main_class: str, *arguments: str) -> None:
        self.log_path = log_path
        self._command = java_command(main_class, *arguments, log_level="info")

    def start(self) -> None:
        """Start it (again)."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def check_runs(self) -> None:
        """Fail with the end of its log if it has ended by itself."""
        code = self._process.poll()
        assert code is None, f"it ended with {code}:\n{self.log_end()}"

    def log_end(self) -> str:
        """The last of what it has written."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return text[-_SHOWN_CHARACTERS:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
