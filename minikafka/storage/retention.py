"""Deleting old segments: by age, by size, and what lies before the log start offset.

Whole segments, the oldest first, and none that reaches past the high watermark (KAFKA-5634): what
the replicas have not agreed on is not old. Files are renamed `.deleted` and removed later, the
`.log` file first, so that a crash half-way leaves either the segment or nothing.
"""

import logging
from typing import TYPE_CHECKING

from minikafka.storage.append import roll, write_snapshot
from minikafka.storage.flushing import complete_flush, prepare_flush
from minikafka.storage.log_config import LogConfig
from minikafka.storage.recovery import DELETED_SUFFIX, snapshot_path
from minikafka.storage.segment import Segment

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState

logger = logging.getLogger(__name__)


def apply_retention(log: "LogState", now_ms: int) -> int:
    """See `Log.apply_retention`."""
    config = log.config
    log.producer_state.expire(now_ms=now_ms, expiration_ms=config.producer_id_expiration_ms)
    count = _count_expired(log, config, now_ms)
    if not count:
        return 0
    if count == len(log.segments):
        roll(log, log.log_end_offset, now_ms)  # the active segment goes too: there must be one
    _keep_producers(log)
    for segment in log.segments[:count]:
        _schedule_delete(log, segment, now_ms + config.file_delete_delay_ms)
    logger.info(
        "%s: deleted %d segments below offset %d",
        log.directory,
        count,
        log.segments[count].base_offset,
    )
    del log.segments[:count]
    start_offset = log.segments[0].base_offset
    if start_offset > log.log_start_offset:
        log.log_start_offset = start_offset
        log.high_watermark = log.high_watermark  # clamped by the assignment
        log.leader_epochs.truncate_from_start(start_offset)
        log.producer_state.transactions.truncate_from_start(start_offset)
    _drop_snapshots(log)
    return count


def _keep_producers(log: "LogState") -> None:
    """Make what is known of producers durable before the batches that it came from go.

    A snapshot is only worth something as long as the log reaches it, so the log is synced first.
    """
    if len(log.producer_state):
        work = prepare_flush(log)
        if work is not None:
            work.run()
            complete_flush(log, work)
        write_snapshot(log, log.log_end_offset, sync=True)


def _count_expired(log: "LogState", config: LogConfig, now_ms: int) -> int:
    """How many segments, from the oldest on, have to go."""
    size_over_bytes = log.size_bytes - config.retention_bytes
    count = 0
    active = log.segments[-1]
    for segment in log.segments:
        if segment.next_offset > log.high_watermark:
            break
        if segment is active and not segment.size_bytes:
            break  # a closed one may be empty, too: compaction left nothing of it
        is_before_start = segment.next_offset <= log.log_start_offset
        is_old = (
            config.cleanup_delete
            and config.retention_ms >= 0
            and now_ms - _last_timestamp(segment) > config.retention_ms
        )
        is_too_much = (
            config.cleanup_delete
            and config.retention_bytes >= 0
            and size_over_bytes >= segment.size_bytes
        )
        if not (is_before_start or is_old or is_too_much):
            break
        size_over_bytes -= segment.size_bytes
        count += 1
    return count


def _last_timestamp(segment: Segment) -> int:
    """Largest timestamp; for records without timestamps, when the file was written last."""
    max_timestamp = segment.max_timestamp()
    return max_timestamp if max_timestamp >= 0 else segment.file.modified_ms()


def _schedule_delete(log: "LogState", segment: Segment, due_ms: int) -> None:
    """Rename a segment's files; readers that have them open finish."""
    disk = log.files.disk
    segment.index.discard_tail()
    for path in (segment.path, segment.index.path):
        log.files.forget(path)
        if disk.exists(path):
            disk.rename(path, path + DELETED_SUFFIX)
            log.pending_deletes += ((due_ms, path + DELETED_SUFFIX),)


def _drop_snapshots(log: "LogState") -> None:
    """Remove producer snapshots that no truncation can need any more."""
    first_offset = log.segments[0].base_offset
    kept = [offset for offset in log.snapshot_offsets if offset >= first_offset]
    for offset in log.snapshot_offsets:
        if offset not in kept:
            log.files.disk.remove(snapshot_path(log.directory, offset))
    log.snapshot_offsets = kept


def delete_pending_files(log: "LogState", now_ms: int) -> int:
    """See `Log.delete_pending_files`."""
    due = [path for due_ms, path in log.pending_deletes if due_ms <= now_ms]
    for path in due:
        log.files.disk.remove(path)
    log.pending_deletes = tuple(
        (due_ms, path) for due_ms, path in log.pending_deletes if due_ms > now_ms
    )
    return len(due)
