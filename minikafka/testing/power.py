"""The loss of a broker's power: what it has written and not synced is gone.

A process that is killed loses nothing, because the operating system has what it has written. So a
broker of a test writes down what it has synced, in a file of entries of 17 bytes, beside its data:

    field
    8     the file, by its number (inode), which renaming does not change
    8     a size in bytes
    1     what happened: 0 synced up to this size; 1 cut to this size

After `lose_power` every file of the data directory has what was synced of it, and nothing behind
that. Names are kept as they were, as if a journaling file system had written them: a file that was
created and never synced is there, and empty. What was overwritten in place and not synced is kept,
too; brokers only do that to indexes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

SYNCED_VARIABLE: Final = "MINIKAFKA_TEST_SYNCED"
"""Tells a broker where to write down what it has synced."""

_ENTRY: Final = Struct("<QQB")
_SYNCED, _CUT = 0, 1


class SyncRecord:
    """Written by the broker's process.

    Args:
        path: of the file; it is made if there is none.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)

    def synced(self, inode: int, size_bytes: int) -> None:
        """Up to this size, a file is durable; 0 for a file that is new."""
        os.write(self._descriptor, _ENTRY.pack(inode, size_bytes, _SYNCED))

    def cut(self, inode: int, size_bytes: int) -> None:
        """A file was cut to this size; what was synced beyond it no longer counts."""
        os.write(self._descriptor, _ENTRY.pack(inode, size_bytes, _CUT))


def prepare(data_dir: Path, record: Path) -> None:
    """Before a broker starts: shorten its record, and take files that are new to it for synced."""
    known = _durable_sizes(record)
    entries: list[bytes] = []
    for path in _files(data_dir):
        status = path.stat()
        size = known.get(status.st_ino, status.st_size)
        entries.append(_ENTRY.pack(status.st_ino, size, _SYNCED))
    record.write_bytes(b"".join(entries))


def lose_power(data_dir: Path, record: Path) -> int:
    """After the broker's process was killed: cut what was not synced.

    Returns:
        How many bytes are gone.
    """
    known = _durable_sizes(record)
    lost_bytes = 0
    for path in _files(data_dir):
        status = path.stat()
        durable = known.get(status.st_ino, 0)
        if durable < status.st_size:
            os.truncate(path, durable)
            lost_bytes += status.st_size - durable
    return lost_bytes


def _durable_sizes(record: Path) -> dict[int, int]:
    """By inode. An entry that the end of the process has torn counts for nothing."""
    try:
        content = record.read_bytes()
    except FileNotFoundError:
        return {}
    found: dict[int, int] = {}
    whole = len(content) - len(content) % _ENTRY.size
    for inode, size_bytes, what in _ENTRY.iter_unpack(content[:whole]):
        found[inode] = size_bytes if what == _SYNCED else min(found.get(inode, 0), size_bytes)
    return found


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
