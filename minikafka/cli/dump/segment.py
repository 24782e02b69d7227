"""The batches and records of a segment file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...protocol.records import (
    BATCH_HEADER_SIZE_BYTES,
    BatchHeader,
    CorruptBatchError,
    Record,
    decode_control_type,
    decode_records,
    parse_batch_header,
)
from ...protocol.records.batch import BATCH_LENGTH_MIN
from ...storage.disk import RealFile
from ...storage.file_names import INDEX_SUFFIX
from ...storage.scan import DamagedSegment, walk_intact
from ..output import json_bytes
from .entry import Entries, Entry, damage, open_for_reading
from .index import read_positions

_CONTROL_NAMES: Final = {0: "abort", 1: "commit"}
_OFFSETS_TOPIC_PREFIX: Final = "__consumer_offsets-"


def read_segment(path: str, *, with_records: bool) -> Entries:
    """Yield a ``batch`` for each batch, its ``record`` entries `with_records`, and ``damage``.

    The index beside the file helps to find the next batch after damage.

    Raises:
        OSError: the file cannot be read.
    """
    file = open_for_reading(path)
    size_bytes = file.size()
    next_offset = _offset_of_name(path)
    decode = _decode_group_entry if _is_offsets_topic(path) else None
    position = 0
    while position < size_bytes:
        try:
            for batch_position, header in walk_intact(file, position, size_bytes):
                yield _batch(batch_position, header)
                if header.base_offset < next_offset:
                    yield damage(
                        f"base offset {header.base_offset} instead of {next_offset} or more",
                        batch_position,
                        batch_position + header.size_bytes,
                    )
                next_offset = header.next_offset
                if with_records:
                    yield from _records(file, batch_position, header, decode)
                position = batch_position + header.size_bytes
            return
        except DamagedSegment as error:
            resumed = _resume_after(file, error.position, size_bytes, path)
            end = size_bytes if resumed is None else resumed
            reason = "a truncated batch" if error.is_torn and resumed is None else ""
            yield damage(reason or _reason(file, error), error.position, end)
            position = end


def _offset_of_name(path: str) -> int:
    """The base offset in the name of a segment; 0 for other names, whose files begin anywhere."""
    stem = Path(path).name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0


def _is_offsets_topic(path: str) -> bool:
    return Path(path).absolute().parent.name.startswith(_OFFSETS_TOPIC_PREFIX)


def _reason(file: RealFile, error: DamagedSegment) -> str:
    text = str(error).removeprefix(f"{file.path}: ")
    return text[0].lower() + text[1:]


def _resume_after(file: RealFile, position: int, size_bytes: int, path: str) -> int | None:
    """The position of an intact batch after a damaged one; None if none is found."""
    candidates: list[int] = []
    try:
        header = parse_batch_header(file.pread(position, BATCH_HEADER_SIZE_BYTES))
        candidates.append(position + header.size_bytes)
    except CorruptBatchError:
        length = int.from_bytes(file.pread(position + 8, 4), "big")
        if length >= BATCH_LENGTH_MIN:
            candidates.append(position + 12 + length)
    index_path = Path(path).with_suffix(INDEX_SUFFIX)
    candidates += [found for found in read_positions(index_path) if found > position]
    for candidate in candidates:
        if candidate < size_bytes and _is_intact(file, candidate, size_bytes):
            return candidate
    return None


def _is_intact(file: RealFile, position: int, size_bytes: int) -> bool:
    try:
        next(walk_intact(file, position, size_bytes))
    except DamagedSegment:
        return False
    return True


def _batch(position: int, header: BatchHeader) -> Entry:
    try:
        compression = header.compression.name.lower()
    except CorruptBatchError:
        compression = f"unknown ({header.attributes & 7})"
    entry: Entry = {
        "type": "batch",
        "position": position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.partition_leader_epoch,
        "compression": compression,
        "timestamp_type": "LogAppendTime" if header.has_log_append_time else "CreateTime",
        "base_timestamp_ms": header.base_timestamp,
        "max_timestamp_ms": header.max_timestamp,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": f"{header.crc:08x}",
    }
    if header.has_delete_horizon:
        entry["delete_horizon_ms"] = entry.pop("base_timestamp_ms")
    if header.producer_id >= 0:
        entry |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
        }
    return entry


def _records(file: RealFile, position: int, header: BatchHeader, decode: Any) -> Iterator[Entry]:
    batch = file.pread(position, header.size_bytes)
    records: Sequence[Record]
    try:
        records = decode_records(batch)
    except CorruptBatchError as error:
        yield damage(
            f"the CRC is correct, but the records cannot be decoded: {error}",
            position,
            position + header.size_bytes,
        )
        return
    for record in records:
        entry: Entry = {
            "type": "record",
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": [{"key": key, "value": json_bytes(value)} for key, value in record.headers],
        }
        if header.is_control:
            entry["control"] = _control_name(record)
        elif decode is not None and record.key is not None:
            entry["decoded"] = decode(record.key, record.value)
        yield entry


def _control_name(record: Record) -> str:
    try:
        _, number = decode_control_type(record.key)
    except CorruptBatchError:
        return "unreadable"
    return _CONTROL_NAMES.get(number, f"type {number}")


def _decode_group_entry(key: bytes, value: bytes | None) -> Any:
    from ...coordinator.group.classic.records import GroupEntry
    from ...coordinator.group.decoding import UnknownKind, decode_entry
    from ...coordinator.group.records import OffsetEntry
    from ...protocol.exceptions import MalformedMessageError

    try:
        found = decode_entry(key, value)
    except MalformedMessageError as error:
        return {"kind": "unreadable", "reason": str(error)}
    match found:
        case OffsetEntry():
            committed = None if found.committed is None else found.committed._asdict()
            return {"kind": "offset", **found.key._asdict(), "committed": committed}
        case GroupEntry(group_id, stored):
            entry: Entry = {"kind": "group", "group_id": group_id, "deleted": stored is None}
            if stored is not None:
                entry |= {
                    "generation": stored.generation,
                    "protocol": stored.protocol,
                    "members": [member.member_id for member in stored.members],
                }
            return entry
        case UnknownKind(key_version):
            return {"kind": "unknown", "key_version": key_version}
        case _:
            return {"kind": type(found).__name__, "record": repr(found)}
