"""What commands print: JSON for programs, aligned columns for pipes, tables for terminals."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from .failure import printable

if TYPE_CHECKING:
    from rich.table import Table

Cell = str | int | float | None
_GAP: Final = "  "
_NOTHING: Final = "-"
_NO_TIMESTAMP: Final = -1
_EPOCH: Final = datetime(1970, 1, 1)  # UTC


def print_json(document: object) -> None:
    """Print one JSON document, in one line."""
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
    """Print rows: a coloured table on a terminal, aligned columns elsewhere; numbers to the right.

    Args:
        columns: headings.
        rows: cells; None is shown as a dash.
        title: a line above.
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
    """Which columns hold numbers."""
    return [
        any(isinstance(row[index], int | float) for row in rows)
        and all(row[index] is None or isinstance(row[index], int | float) for row in rows)
        for index in range(len(columns))
    ]


def terminal_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = ""
) -> Table:
    """A table for a terminal; see `print_table`."""
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
    """Whether a person reads (or writes) there."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def note(message: str) -> None:
    """Say something on stderr that is neither output nor an error."""
    click.echo(printable(message), err=True)


def iso_time(timestamp_ms: int) -> str:
    """UTC time with milliseconds, ``2013-01-01T10:00:00.000Z``.

    A dash for -1, which is Kafka's "no timestamp"; the number itself if no calendar has it.
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
