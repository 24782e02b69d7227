"""The entries of a segment's sparse index, compared with the segment beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ...protocol.crc import crc32c
from ...protocol.records import BATCH_HEADER_SIZE_BYTES, CorruptBatchError, parse_batch_header
from ...storage.disk import RealFile
from ...storage.file_names import LOG_SUFFIX
from ...storage.index import ENTRY_SIZE_BYTES, IndexEntry
from .entry import SMALL_FILE_SIZE_BYTES_MAX, Entries, damage, open_for_reading

# The format of minikafka.storage.index, which repairs damage instead of showing it.
_ENTRY: Final = Struct(">IIqI")
_CHECKED_SIZE_BYTES: Final = 16


class _Stored(NamedTuple):
    """One entry of the file, and whether its CRC is correct."""

    at: int
    entry: IndexEntry
    is_intact: bool


def _stored(path: str) -> Iterator[_Stored]:
    file = open_for_reading(path)
    content = file.pread(0, min(file.size(), SMALL_FILE_SIZE_BYTES_MAX))
    for at in range(0, len(content) - ENTRY_SIZE_BYTES + 1, ENTRY_SIZE_BYTES):
        *fields, crc = _ENTRY.unpack_from(content, at)
        is_intact = crc32c(content, at, at + _CHECKED_SIZE_BYTES) == crc
        yield _Stored(at, IndexEntry(*fields), is_intact)


def read_positions(path: Path) -> list[int]:
    """The positions of batches in intact entries of an index; none if there is no index."""
    if not path.exists():
        return []
    return [stored.entry.position for stored in _stored(str(path)) if stored.is_intact]


def read_index(path: str) -> Entries:
    """Yield an ``index_entry`` for each entry, and ``damage``.

    An entry is damaged if its CRC is wrong, if it is not above the one before it, if it does not
    point at the batch it names (if the segment exists), or if it is incomplete, at the end.

    Raises:
        OSError: the file cannot be read.
    """
    name = Path(path).name.partition(".")[0]
    base_offset = int(name) if name.isdecimal() else 0
    segment_path = Path(path).with_suffix(LOG_SUFFIX)
    segment = open_for_reading(str(segment_path)) if segment_path.exists() else None
    previous = IndexEntry(-1, -1, -1)
    end = 0
    for at, entry, is_intact in _stored(path):
        end = at + ENTRY_SIZE_BYTES
        if not is_intact:
            yield damage("the CRC of this entry does not match", at, end)
            continue
        offset = base_offset + entry.relative_offset
        yield {
            "type": "index_entry",
            "at": at,
            "offset": offset,
            "position": entry.position,
            "max_timestamp_before_ms": entry.max_timestamp_before,
        }
        if (
            entry.relative_offset <= previous.relative_offset
            or entry.position <= previous.position
            or entry.max_timestamp_before < previous.max_timestamp_before
        ):
            yield damage("this entry is not above the one before it", at, end)
        previous = entry
        found = None if segment is None else _base_offset_at(segment, entry.position)
        if segment is not None and found != offset:
            actual = "no batch" if found is None else f"the batch with offset {found}"
            yield damage(f"the segment has {actual} at position {entry.position}", at, end)
    size_bytes = Path(path).stat().st_size
    if end < size_bytes:
        yield damage("an incomplete entry", end, size_bytes)


def _base_offset_at(segment: RealFile, position: int) -> int | None:
    try:
        return parse_batch_header(segment.pread(position, BATCH_HEADER_SIZE_BYTES)).base_offset
    except CorruptBatchError:
        return None
