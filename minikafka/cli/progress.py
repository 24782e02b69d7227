"""A progress bar on stderr, for a person who has been waiting for a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from .output import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_PATIENCE_S: Final = 1.0


class Progress:
    """Shows nothing on a pipe, nothing for work that is quick, else a bar.

    Args:
        label: what is being done.
        total: how much there is to do, None when nobody knows.
    """

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._is_wanted = is_terminal(sys.stderr)
        self._show_from = time.monotonic() + _PATIENCE_S
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, text: str) -> None:
        """Say how much is done."""
        if not self._is_wanted:
            return
        if self._bar is None or self._task is None:
            if time.monotonic() < self._show_from:
                return
            self._start()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=done, text=text)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        known = [BarColumn(), DownloadColumn(), TimeRemainingColumn()]
        unknown = [SpinnerColumn(), DownloadColumn(), TimeElapsedColumn()]
        self._bar = Bar(
            TextColumn("{task.description}"),
            *(unknown if self._total is None else known),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._label, total=self._total, text="")
        self._bar.start()
