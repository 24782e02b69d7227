"""What commands print: JSON for programs, aligned columns for pipes, tables for terminals.

Also what goes to stderr beside errors: notes, and a progress bar for a person who is waiting.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import click

from .failure import CommandFailed, printable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.table import Table

Cell = str | int | float | None
_GAP: Final = "  "
_NOTHING: Final = "-"
_NO_TIMESTAMP: Final = -1
_EPOCH: Final = datetime(1970, 1, 1)  # UTC
_PROGRESS_AFTER_S: Final = 1.0


@contextmanager
def reader_may_leave() -> Generator[None]:
    """End quietly when the reader of our stdout has left, as in ``minikafka ... | head``.

    Raises:
        CommandFailed: stdout cannot be written to for another reason.
    """
    try:
        yield
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise cannot_write(error) from None


def _discard_stdout() -> None:
    # The interpreter flushes stdout once more when it exits; that must not fail.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def cannot_write(error: OSError) -> CommandFailed:
    """The error for a stdout that refuses writes, such as a file on a full disk."""
    return CommandFailed(f"cannot write to stdout: {error.strerror or error}")


def print_json(document: object) -> None:
    """Print one JSON document on one line."""
    click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def json_bytes(octets: bytes | None) -> str | dict[str, str] | None:
    """Bytes for JSON: text if they are UTF-8, else ``{"base64": "..."}``; null stays null."""
    if octets is None:
        return None
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets).decode()}


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = "") -> None:
    """Print a coloured table on a terminal, aligned columns elsewhere.

    Numbers are right-aligned, and None is shown as a dash.
    """
    if is_terminal(sys.stdout):
        from rich.console import Console

        Console().print(terminal_table(columns, rows, title))
        return
    cells, is_number = _texts(rows), _numbers(columns, rows)
    if title:
        click.echo(printable(title))
    heads = [column.upper() for column in columns]
    widths = [
        max(map(len, (head, *(row[index] for row in cells)))) for index, head in enumerate(heads)
    ]
    for line in (heads, *cells):
        aligned = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_number, strict=True)
        ]
        click.echo(_GAP.join(aligned).rstrip())


def _texts(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    return [[_NOTHING if cell is None else printable(str(cell)) for cell in row] for row in rows]


def _numbers(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Which columns contain only numbers."""
    return [
        any(isinstance(row[index], int | float) for row in rows)
        and all(row[index] is None or isinstance(row[index], int | float) for row in rows)
        for index in range(len(columns))
    ]


def terminal_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = ""
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(printable(title), "bold") if title else None,
        title_justify="left",
        header_style="cyan",
    )
    for column, right in zip(columns, _numbers(columns, rows), strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in _texts(rows):
        table.add_row(*map(Text, row))
    return table


def is_terminal(stream: Any) -> bool:
    """Whether a person is at the other end; False for a closed stream, or None."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def note(message: str) -> None:
    """Print a line to stderr that is neither output nor an error."""
    click.echo(printable(message), err=True)


def iso_time(timestamp_ms: int) -> str:
    """UTC time with milliseconds, ``2013-01-01T10:00:00.000Z``.

    A dash for -1, Kafka's "no timestamp"; the number itself if it is outside of the calendar.
    """
    if timestamp_ms == _NO_TIMESTAMP:
        return _NOTHING
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds") + "Z"


def count_of(number: int, noun: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Progress:
    """A progress bar on stderr; nothing on a pipe, or for work that takes less than a second.

    Args:
        label: what is being done.
        total: how much there is to do, None if unknown.
        is_bytes: it is counted in bytes; else in pieces.
    """

    def __init__(self, label: str, total: int | None, *, is_bytes: bool = True) -> None:
        self._label = label
        self._total = total
        self._is_bytes = is_bytes
        self._is_wanted = is_terminal(sys.stderr)
        self._show_from = time.monotonic() + _PROGRESS_AFTER_S
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
            MofNCompleteColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        count = DownloadColumn() if self._is_bytes else MofNCompleteColumn()
        known = [BarColumn(), count, TimeRemainingColumn()]
        unknown = [SpinnerColumn(), count, TimeElapsedColumn()]
        self._bar = Bar(
            TextColumn("{task.description}"),
            *(unknown if self._total is None else known),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._label, total=self._total, text="")
        self._bar.start()
