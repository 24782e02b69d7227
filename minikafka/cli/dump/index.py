"""The entries of a segment's sparse index, compared with the segment beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ...protocol.crc import crc32c
from ...protocol.records import BATCH_HEADER_SIZE_BYTES, CorruptBatchError, parse_batch_header
from ...storage.disk import RealFile
from ...storage.index import ENTRY_SIZE_BYTES, IndexEntry
from ...storage.segment_file import LOG_SUFFIX
from .entry import SMALL_FILE_SIZE_BYTES_MAX, Entries, damage, open_for_reading

# As minikafka.storage.index describes it; that module repairs what it finds, this one shows it.
_ENTRY: Final = Struct(">IIqI")
_CHECKED_SIZE_BYTES: Final = 16


class _Stored(NamedTuple):
    """One entry of the file, and whether its CRC is right."""

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
    """Where batches begin, as far as an index can be believed; none if there is no index."""
    if not path.exists():
        return []
    return [stored.entry.position for stored in _stored(str(path)) if stored.is_intact]


def read_index(path: str) -> Entries:
    """Yield an ``index_entry`` for each entry, and ``damage``.

    Damage is an entry with a wrong CRC, one that does not rise, one that points at something else
    than the batch it names (if the segment is there), and an incomplete one at the end.

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
            yield damage("this entry does not come after the one before it", at, end)
        previous = entry
        found = None if segment is None else _base_offset_at(segment, entry.position)
        if segment is not None and found != offset:
            there = "no batch" if found is None else f"the batch with offset {found}"
            yield damage(f"the segment has {there} at position {entry.position}", at, end)
    size_bytes = Path(path).stat().st_size
    if end < size_bytes:
        yield damage("an incomplete entry", end, size_bytes)


def _base_offset_at(segment: RealFile, position: int) -> int | None:
    try:
        return parse_batch_header(segment.pread(position, BATCH_HEADER_SIZE_BYTES)).base_offset
    except CorruptBatchError:
        return None
