"""The entries of a segment's indexes, compared with the segment beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final

from ...protocol.records import BATCH_HEADER_SIZE_BYTES, CorruptBatchError, parse_batch_header
from ...storage.aborted_index import ENTRY as ABORTED_ENTRY
from ...storage.disk import RealFile
from ...storage.file_names import LOG_SUFFIX
from ...storage.index import OFFSET_ENTRY, TIMESTAMP_ENTRY
from .entry import SMALL_FILE_SIZE_BYTES_MAX, Entries, Entry, damage, open_for_reading

_OUT_OF_ORDER: Final = "this entry is not above the one before it"


def _stored(path: str, entry: Struct) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The position and the fields of each entry.

    Kafka makes the file of its active segment larger than its entries; so zeros end them.
    """
    file = open_for_reading(path)
    content = file.pread(0, min(file.size(), SMALL_FILE_SIZE_BYTES_MAX))
    content = content[: len(content) // entry.size * entry.size]
    for at, fields in enumerate(entry.iter_unpack(content)):
        if at and not any(fields):
            return
        yield at * entry.size, fields


def _incomplete(path: str, entry: Struct) -> Iterator[Entry]:
    size_bytes = Path(path).stat().st_size
    if size_bytes % entry.size:
        yield damage("an incomplete entry", size_bytes - size_bytes % entry.size, size_bytes)


def _base_offset(path: str) -> int:
    name = Path(path).name.partition(".")[0]
    return int(name) if name.isdecimal() else 0


def read_positions(path: Path) -> list[int]:
    """The positions of batches in an offset index; none if there is no index."""
    if not path.exists():
        return []
    return [fields[1] for _, fields in _stored(str(path), OFFSET_ENTRY)]


def read_index(path: str) -> Entries:
    """Yield an ``index_entry`` for each entry of an offset index, and ``damage``.

    An entry is damaged if it is not above the one before it, if it does not point at the batch that
    ends with its offset (if the segment exists), or if it is incomplete, at the end.

    Raises:
        OSError: the file cannot be read.
    """
    segment_path = Path(path).with_suffix(LOG_SUFFIX)
    segment = open_for_reading(str(segment_path)) if segment_path.exists() else None
    previous = (-1, -1)
    for at, (relative_offset, position) in _stored(path, OFFSET_ENTRY):
        end = at + OFFSET_ENTRY.size
        offset = _base_offset(path) + relative_offset
        yield {"type": "index_entry", "at": at, "offset": offset, "position": position}
        if relative_offset <= previous[0] or position <= previous[1]:
            yield damage(_OUT_OF_ORDER, at, end)
        previous = (relative_offset, position)
        found = None if segment is None else _last_offset_at(segment, position)
        if segment is not None and found != offset:
            actual = "no batch" if found is None else f"the batch that ends with offset {found}"
            yield damage(f"the segment has {actual} at position {position}", at, end)
    yield from _incomplete(path, OFFSET_ENTRY)


def _last_offset_at(segment: RealFile, position: int) -> int | None:
    try:
        return parse_batch_header(segment.pread(position, BATCH_HEADER_SIZE_BYTES)).last_offset
    except CorruptBatchError:
        return None


def read_time_index(path: str) -> Entries:
    """Yield a ``time_index_entry`` for each entry of a time index, and ``damage``.

    Raises:
        OSError: the file cannot be read.
    """
    previous = (-1, -1)
    for at, (timestamp_ms, relative_offset) in _stored(path, TIMESTAMP_ENTRY):
        yield {
            "type": "time_index_entry",
            "at": at,
            "timestamp_ms": timestamp_ms,
            "offset": _base_offset(path) + relative_offset,
        }
        if timestamp_ms <= previous[0] or relative_offset <= previous[1]:
            yield damage(_OUT_OF_ORDER, at, at + TIMESTAMP_ENTRY.size)
        previous = (timestamp_ms, relative_offset)
    yield from _incomplete(path, TIMESTAMP_ENTRY)


def read_transaction_index(path: str) -> Entries:
    """Yield an ``aborted_transaction`` for each entry of a transaction index, and ``damage``.

    Raises:
        OSError: the file cannot be read.
    """
    previous = -1
    for at, fields in _stored(path, ABORTED_ENTRY):
        version, producer_id, first_offset, last_offset, last_stable_offset = fields
        if version:
            end = at + ABORTED_ENTRY.size
            yield damage(f"an entry of version {version}; only 0 is known", at, end)
            continue
        yield {
            "type": "aborted_transaction",
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }
        if not first_offset <= last_offset or last_offset <= previous:
            yield damage(_OUT_OF_ORDER, at, at + ABORTED_ENTRY.size)
        previous = last_offset
    yield from _incomplete(path, ABORTED_ENTRY)
