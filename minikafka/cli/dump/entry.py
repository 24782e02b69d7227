"""The entries that readers yield, and how they open files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from ...storage.disk import RealFile

Entry = dict[str, Any]
Entries = Iterator[Entry]

SMALL_FILE_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Limit for files that are read as a whole: indexes and checked files."""


def open_for_reading(path: str) -> RealFile:
    """Open a file read-only. Raises OSError."""
    return RealFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def damage(reason: str, position: int | None = None, end: int | None = None) -> Entry:
    """An entry for damage, between two positions in the file if these are known."""
    entry: Entry = {"type": "damage", "reason": reason}
    if position is not None:
        entry["position"] = position
    if end is not None:
        entry["size_bytes"] = end - (position or 0)
    return entry
