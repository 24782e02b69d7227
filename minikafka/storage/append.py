"""How batches get into a log: check, stamp, write, and only then remember.

The order is the point. `_write` is the only place where bytes are written, and offset, epochs,
index and producer state change after it returned: a write that fails leaves the log as it was
(KAFKA-6683), offline (KAFKA-10778), and its file cut back to what was acknowledged.
"""

import logging
from typing import TYPE_CHECKING

from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES, BatchHeader, rewrite_header
from minikafka.protocol.records.control import (
    ControlType,
    TransactionMarker,
    encode_control_batch,
)
from minikafka.storage.disk import Buffer
from minikafka.storage.errors import (
    FencedLeaderEpoch,
    InvalidRecord,
    RecordListTooLarge,
    StorageError,
    UnexpectedAppendOffset,
)
from minikafka.storage.flushing import write_epochs
from minikafka.storage.index import ENTRY_SIZE_BYTES, RELATIVE_OFFSET_MAX
from minikafka.storage.log_config import LogConfig
from minikafka.storage.markers import read_marker
from minikafka.storage.recovery import snapshot_path
from minikafka.storage.results import AppendResult
from minikafka.storage.segment import Segment
from minikafka.storage.validation import split_batches, validate_batch, validate_client_batches

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState

logger = logging.getLogger(__name__)


def append_as_leader(
    log: "LogState",
    records: Buffer,
    leader_epoch: int,
    now_ms: int,
    from_client: bool,
    request_version: int,
) -> AppendResult:
    """See `Log.append_as_leader`."""
    if log.is_offline is not None:
        raise log.is_offline
    if leader_epoch < log.leader_epochs.latest_epoch:
        raise FencedLeaderEpoch(
            f"{log.directory}: an append as leader of epoch {leader_epoch}, but epoch "
            f"{log.leader_epochs.latest_epoch} has begun"
        )
    config = log.config
    if from_client:
        batches = validate_client_batches(
            records, config, now_ms=now_ms, request_version=request_version
        )
    else:
        batches = split_batches(records)
        for _, header in batches:
            validate_batch(header)
    if len(records) > config.segment_bytes:
        raise RecordListTooLarge(
            f"an append of {len(records)} bytes; segment.bytes is {config.segment_bytes}"
        )
    append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else None
    duplicate = _find_duplicate(log, batches, now_ms)
    if duplicate is not None:
        return duplicate
    for _, header in batches:
        if header.producer_id >= 0 and not header.is_control:
            log.producer_state.check_transaction(header)
    view = memoryview(records)
    buffers: list[Buffer] = []
    stamped: list[BatchHeader] = []
    base_offset = offset = log.log_end_offset
    for position, header in batches:
        buffers += (
            rewrite_header(
                records,
                position,
                header,
                base_offset=offset,
                partition_leader_epoch=leader_epoch,
                log_append_time_ms=append_time_ms,
            ),
            view[position + BATCH_HEADER_SIZE_BYTES : position + header.size_bytes],
        )
        fields = (offset, header[1], leader_epoch, *header[3:])
        written = BatchHeader._make(fields)
        if append_time_ms is not None:
            written = written._replace(max_timestamp=append_time_ms)
        stamped.append(written)
        offset = written.next_offset
    markers = [read_marker(records, at, one) if one.is_control else None for at, one in batches]
    _write(log, buffers, len(records), stamped, markers, now_ms)
    return AppendResult(
        base_offset,
        offset - 1,
        -1 if append_time_ms is None else append_time_ms,
        log.log_start_offset,
        is_duplicate=False,
    )


def _find_duplicate(
    log: "LogState", batches: list[tuple[int, BatchHeader]], now_ms: int
) -> AppendResult | None:
    """The answer to a retry; None when the batches are new."""
    config = log.config
    for _, header in batches:
        if header.producer_id < 0 or header.base_sequence < 0:
            continue  # no producer, or a coordinator that writes in its name
        duplicate = log.producer_state.check(
            header, now_ms=now_ms, expiration_ms=config.producer_id_expiration_ms
        )
        if duplicate is None:
            continue
        if len(batches) > 1:
            raise InvalidRecord("a retried batch among others in one append")
        return AppendResult(
            duplicate.base_offset,
            duplicate.last_offset,
            duplicate.timestamp if config.message_timestamp_type == "LogAppendTime" else -1,
            log.log_start_offset,
            is_duplicate=True,
        )
    return None


def append_marker(
    log: "LogState",
    control_type: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    transaction_version: int,
    leader_epoch: int,
    now_ms: int,
) -> AppendResult | None:
    """See `Log.append_marker`."""
    if not log.producer_state.check_marker(
        producer_id, producer_epoch, coordinator_epoch, transaction_version
    ):
        return None
    batch = encode_control_batch(
        control_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=now_ms,
    )
    return append_as_leader(log, batch, leader_epoch, now_ms, False, 0)


def append_as_follower(log: "LogState", records: Buffer, now_ms: int) -> AppendResult:
    """See `Log.append_as_follower`."""
    if log.is_offline is not None:
        raise log.is_offline
    # What a leader has taken has to be taken, in however many batches; the fetch is bounded.
    batches = split_batches(records, batches_max=len(records))
    offset = log.log_end_offset
    epoch = log.leader_epochs.latest_epoch
    for _, header in batches:
        if header.base_offset < offset or header.last_offset_delta < 0:
            raise UnexpectedAppendOffset(
                f"{log.directory}: batch with offsets {header.base_offset} to "
                f"{header.last_offset} where offset {offset} is next"
            )
        if header.partition_leader_epoch < epoch:
            raise UnexpectedAppendOffset(
                f"{log.directory}: batch at offset {header.base_offset} has leader epoch "
                f"{header.partition_leader_epoch}, the one before it has {epoch}"
            )
        offset = header.next_offset
        epoch = header.partition_leader_epoch
    # The leader's segments may be larger than ours: then it takes several writes, each a whole one.
    view = memoryview(records)
    start = 0
    headers: list[BatchHeader] = []
    markers: list[TransactionMarker | None] = []
    for position, header in batches:
        if headers and position + header.size_bytes - start > log.config.segment_bytes:
            _write(log, [view[start:position]], position - start, headers, markers, now_ms)
            start, headers, markers = position, [], []
        headers.append(header)
        markers.append(read_marker(records, position, header) if header.is_control else None)
    _write(log, [view[start:]], len(records) - start, headers, markers, now_ms)
    base_offset = batches[0][1].base_offset
    return AppendResult(base_offset, offset - 1, -1, log.log_start_offset, is_duplicate=False)


def _write(
    log: "LogState",
    buffers: list[Buffer],
    size_bytes: int,
    batches: list[BatchHeader],
    markers: list[TransactionMarker | None],
    now_ms: int,
) -> None:
    """Write stamped batches, then remember what they (and the markers in them) change."""
    config = log.config
    segment = log.segments[-1]
    try:
        if segment.size_bytes and roll_is_due(segment, config, size_bytes, batches, now_ms):
            roll(log, batches[0].base_offset, now_ms)
            segment = log.segments[-1]
        _persist_epochs(log, batches)
        segment.append(
            buffers, size_bytes, batches, index_interval_bytes=config.index_interval_bytes
        )
    except (OSError, StorageError) as error:
        _cut_failed_append(log, segment)
        raise log.refuse(error) from error
    log.log_end_offset = batches[-1].next_offset
    if log.unflushed_since_ms < 0:
        log.unflushed_since_ms = now_ms
    for header, marker in zip(batches, markers, strict=True):
        if header.producer_id >= 0:
            log.producer_state.update(header, header.base_offset, now_ms=now_ms, marker=marker)


def _persist_epochs(log: "LogState", batches: list[BatchHeader]) -> None:
    """Put new leader epochs into their file before a batch that carries them is written.

    So recovery knows every epoch there can be, and a flipped bit in one is noticed. It happens once
    per epoch and is not synced. Raises OSError.
    """
    epochs = log.leader_epochs
    if batches[-1].partition_leader_epoch > epochs.latest_epoch:
        for header in batches:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
    if epochs.is_dirty:
        write_epochs(log)


def _cut_failed_append(log: "LogState", segment: Segment) -> None:
    """Remove what a failed write may have left, so that a restart finds an intact log."""
    try:
        segment.discard_past_end()
    except OSError as error:
        logger.error("%s: a failed append could not be cut off: %s", log.directory, error)


def roll_is_due(
    segment: Segment,
    config: LogConfig,
    size_bytes: int,
    batches: list[BatchHeader],
    now_ms: int,
) -> bool:
    """Whether `size_bytes` of batches belong into a new segment."""
    last = batches[-1]
    return (
        segment.size_bytes + size_bytes > config.segment_bytes
        or last.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        or segment.age_ms(last.max_timestamp, now_ms) > config.segment_ms
        or segment.index.entry_count * ENTRY_SIZE_BYTES >= config.segment_index_bytes
    )


def roll(log: "LogState", base_offset: int, now_ms: int) -> None:
    """Close the active segment and begin one at `base_offset`. Raises OSError."""
    closed = log.segments[-1]
    closed.index.write_tail()
    write_snapshot(log, base_offset)
    segment = Segment.create(log.files, log.directory, base_offset, now_ms=now_ms)
    closed.next_offset = base_offset
    log.segments.append(segment)
    if log.directory not in log.unsynced_directories:
        log.unsynced_directories += (log.directory,)


def write_snapshot(log: "LogState", offset: int, *, sync: bool = False) -> None:
    """Write the producers as of `offset`, the end of the log; again when it must be durable.

    Raises OSError.
    """
    is_new = offset not in log.snapshot_offsets
    if is_new or sync:
        path = snapshot_path(log.directory, offset)
        log.files.disk.replace_file(path, log.producer_state.encode(offset), sync=sync)
    if is_new:
        log.snapshot_offsets.append(offset)
