"""The frames of a record log, and the metadata records in them.

``quorum.log`` contains entries: the epoch of a controller, and the records it decided on together.
The first entry is a snapshot of everything before it (`minikafka.consensus.durable`). Brokers of
the time before the quorum kept records without epochs, in ``metadata.log``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final, cast

from ...consensus.snapshot import decode_snapshot
from ...metadata.records import SECRETS, UnknownMetadataRecordError, decode_record
from ...metadata.settings import HIDDEN
from ...protocol.crc import crc32c, extend_crc32c
from ...storage.checked_file import unpack
from ...storage.disk import RealFile
from ...storage.record_log import FRAME_SIZE_BYTES_MAX
from ..output import json_bytes
from .entry import Entries, Entry, damage, open_for_reading

# The format of minikafka.storage.record_log, which cuts off damage instead of showing it.
MAGIC: Final = b"mkRL"
_HEADER: Final = Struct(">4sIIIQQQ")
_CHECKED_AT: Final = 8
_SEARCH_CHUNK_SIZE_BYTES: Final = 1024 * 1024
_EPOCH_SIZE_BYTES: Final = 8
_SYNCED: Final = Struct(">QQ")
_SYNCED_CRC_SIZE_BYTES: Final = 4
_SYNCED_SIZE_BYTES: Final = 20


def read_record_log(path: str, *, with_records: bool, is_quorum: bool) -> Entries:
    """Yield a ``frame`` for each append, its records `with_records`, and ``damage``.

    In the log of a quorum (`is_quorum`), each record is an entry that contains records.

    Raises:
        OSError: the file cannot be read.
    """
    file = open_for_reading(path)
    size_bytes = file.size()
    position = 0
    next_index: int | None = None
    while position < size_bytes:
        frame = _read_frame(file, position, size_bytes)
        if frame is None:
            end = _next_frame(file, position + 1, size_bytes)
            yield damage("no intact frame begins here", position, end)
            position, next_index = end, None
            continue
        entry, payload = frame
        yield entry
        end = position + entry["size_bytes"]
        if next_index not in {None, entry["first_index"]}:
            yield damage(f"first index {entry['first_index']} instead of {next_index}", position)
        next_index = entry["first_index"] + entry["record_count"]
        if with_records:
            yield from _records(entry, payload, position, end, is_quorum=is_quorum)
        position = end


def _read_frame(file: RealFile, position: int, size_bytes: int) -> tuple[Entry, bytes] | None:
    header = file.pread(position, _HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, crc, length, count, first_index, own_position, synced = _HEADER.unpack(header)
    end = position + _HEADER.size + length
    if magic != MAGIC or own_position != position:
        return None
    if length > FRAME_SIZE_BYTES_MAX or end > size_bytes:
        return None
    payload = file.pread(position + _HEADER.size, length)
    if extend_crc32c(crc32c(header, _CHECKED_AT), payload) != crc:
        return None
    entry: Entry = {
        "type": "frame",
        "position": position,
        "size_bytes": end - position,
        "first_index": first_index,
        "record_count": count,
        "synced_up_to": synced,
    }
    return entry, payload


def _next_frame(file: RealFile, position: int, size_bytes: int) -> int:
    """Where the next intact frame begins, or the end of the file."""
    while position < size_bytes:
        chunk = file.pread(position, _SEARCH_CHUNK_SIZE_BYTES + len(MAGIC) - 1)
        found = chunk.find(MAGIC)
        while found >= 0:
            if _read_frame(file, position + found, size_bytes) is not None:
                return position + found
            found = chunk.find(MAGIC, found + 1)
        position += _SEARCH_CHUNK_SIZE_BYTES
    return size_bytes


def _records(
    entry: Entry, payload: bytes, position: int, end: int, *, is_quorum: bool
) -> Iterator[Entry]:
    try:
        records = cast("Sequence[bytes]", unpack(payload))
    except ValueError as error:
        yield damage(f"the CRC is correct, but the records cannot be read: {error}", position, end)
        return
    for index, record in enumerate(records, start=entry["first_index"]):
        if is_quorum:
            yield from _quorum_entry(index, record, is_snapshot=position == 0)
        else:
            yield {"type": "metadata_record", "index": index, **_metadata_record(record)}


def _quorum_entry(index: int, record: bytes, *, is_snapshot: bool) -> Iterator[Entry]:
    epoch, payload = int.from_bytes(record[:_EPOCH_SIZE_BYTES], "big"), record[_EPOCH_SIZE_BYTES:]
    kind = "snapshot" if is_snapshot else "decision" if payload else "new controller"
    yield {"type": "metadata_entry", "index": index, "epoch": epoch, "kind": kind}
    try:
        decisions = decode_snapshot(payload) if is_snapshot else [payload] * bool(payload)
        records = [packed for one in decisions for packed in cast("list[bytes]", unpack(one))]
    except (ValueError, TypeError) as error:
        yield damage(f"the CRC is correct, but entry {index} cannot be read: {error}")
        return
    for packed in records:
        yield {"type": "metadata_record", "index": index, **_metadata_record(packed)}


def _metadata_record(record: Any) -> dict[str, Any]:
    try:
        decoded = decode_record(record)
    except UnknownMetadataRecordError:
        return {"kind": "unknown", "content": json_bytes(record)}
    secrets = SECRETS.get(type(decoded), ())
    fields = {
        name: HIDDEN if name in secrets else value.hex() if isinstance(value, bytes) else value
        for name, value in decoded._asdict().items()
    }
    return {"kind": type(decoded).__name__, "fields": fields}


def read_synced(path: Path) -> Entry:
    """The content of ``quorum-synced``, or ``damage``, which is harmless in this file."""
    content = path.read_bytes()[: _SYNCED_SIZE_BYTES + 1]
    body = content[_SYNCED_CRC_SIZE_BYTES:]
    if len(content) != _SYNCED_SIZE_BYTES or crc32c(body) != int.from_bytes(
        content[:_SYNCED_CRC_SIZE_BYTES], "big"
    ):
        return damage("the CRC does not match the content", 0, len(content))
    end, commit_index = _SYNCED.unpack(body)
    return {"type": "quorum_synced", "synced_up_to": end, "committed_up_to": commit_index}
