"""Finding records by their timestamp: ListOffsets with a time, and the largest one (KIP-734).

Segment, index and batch header narrow the search down to one batch; only that one is decoded.
"""

from typing import TYPE_CHECKING

from minikafka.protocol.records.batch import BatchHeader, crc_is_valid
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import Record, decode_records
from minikafka.storage.results import TimestampOffset
from minikafka.storage.scan import DamagedSegment, walk_headers
from minikafka.storage.segment import Segment

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState


def offset_for_timestamp(log: "LogState", timestamp: int) -> TimestampOffset | None:
    """See `Log.offset_for_timestamp`."""
    for segment in log.segments:
        if segment.next_offset <= log.log_start_offset or segment.max_timestamp() < timestamp:
            continue
        from_offset = max(log.log_start_offset, segment.base_offset)
        while True:
            found = segment.find_timestamp(timestamp, from_offset)
            if found is None:
                break
            record = _first_record(segment, *found, timestamp, log.log_start_offset)
            if record is not None:
                return record
            from_offset = found[1].next_offset
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, from_offset: int
) -> TimestampOffset | None:
    """First record of a batch at or after an offset with a timestamp >= the given one."""
    if header.has_log_append_time and header.base_offset >= from_offset:
        return TimestampOffset(
            header.max_timestamp, header.base_offset, header.partition_leader_epoch
        )
    records = _decode(segment, position, header)
    if records is None:  # all that is known is in the header
        offset = max(header.base_offset, from_offset)
        return TimestampOffset(header.max_timestamp, offset, header.partition_leader_epoch)
    for record in records:
        if record.timestamp >= timestamp and record.offset >= from_offset:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _decode(segment: Segment, position: int, header: BatchHeader) -> list[Record] | None:
    """Records of a batch; None when its producer sent nonsense, with which the disk is fine."""
    batch = segment.file.pread(position, header.size_bytes)
    if len(batch) < header.size_bytes or not crc_is_valid(batch, 0, header):
        raise DamagedSegment(
            f"{segment.path}: the batch at {position} (base offset {header.base_offset}, "
            f"{header.size_bytes} bytes) has a wrong CRC",
            segment.path,
            position,
        )
    try:
        return decode_records(batch)
    except CorruptBatchError:
        return None


def max_timestamp(log: "LogState") -> TimestampOffset | None:
    """See `Log.max_timestamp`."""
    start_offset = log.log_start_offset
    largest = -1
    for segment in log.segments:
        if segment.base_offset >= start_offset:
            largest = max(largest, segment.max_timestamp())
        elif segment.next_offset > start_offset:
            largest = max(largest, _largest_from(segment, start_offset))
    return offset_for_timestamp(log, largest) if largest >= 0 else None


def _largest_from(segment: Segment, start_offset: int) -> int:
    """Largest timestamp of a segment's records at or after an offset in the middle of it."""
    largest = -1
    found = segment.find(start_offset)
    if found is None:
        return largest
    for position, header in walk_headers(segment.file, found[0], segment.size_bytes):
        records = None
        if header.base_offset < start_offset and not header.has_log_append_time:
            records = _decode(segment, position, header)
        if records is None:
            largest = max(largest, header.max_timestamp)
        else:
            left = (record.timestamp for record in records if record.offset >= start_offset)
            largest = max(largest, *left)
    return largest
