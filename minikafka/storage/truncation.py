"""Cutting a log: a follower's end, everything, or what DeleteRecords names.

After a truncation the log must never come back as it was before, or a follower would keep records
its leader does not have: so the cut is durable before the function returns.
"""

from typing import TYPE_CHECKING

from minikafka.storage.cut_marker import remember_cut
from minikafka.storage.errors import OffsetOutOfRange
from minikafka.storage.recovery import restore_producers, snapshot_path
from minikafka.storage.repair import quarantine_path
from minikafka.storage.segment import Segment

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState


def truncate_to(log: "LogState", offset: int) -> int:
    """See `Log.truncate_to`."""
    if offset >= log.log_end_offset:
        # Whoever led an epoch and wrote nothing in it has an entry that its successor may not know.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return log.log_end_offset
    now_ms = log.segments[-1].created_ms
    if offset < log.log_start_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return offset
    # From the end, so that a crash in between leaves a log without a gap.
    while log.segments[-1].base_offset > offset:
        _remove(log, log.segments.pop())
    last = log.segments[-1]
    last.truncate(offset)
    if last.next_offset < log.log_start_offset:  # the batch that was cut reached below the start
        truncate_fully_and_start_at(log, log.log_start_offset, now_ms)
        return log.log_end_offset
    _after_cut(log, last.next_offset, now_ms)
    return log.log_end_offset


def truncate_fully_and_start_at(log: "LogState", offset: int, now_ms: int) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    while log.segments:
        _remove(log, log.segments.pop())
    log.segments.append(Segment.create(log.files, log.directory, offset, now_ms=now_ms))
    log.log_start_offset = offset
    _drop_snapshots(log, log.snapshot_offsets)
    _forget_quarantine(log, -1)
    log.leader_epochs.truncate_from_start(offset)
    _after_cut(log, offset, now_ms)


def _remove(log: "LogState", segment: Segment) -> None:
    log.files.forget(segment.path)
    log.files.disk.remove(segment.path)
    segment.index.clear()


def _drop_snapshots(log: "LogState", offsets: list[int]) -> None:
    for offset in offsets:
        log.files.disk.remove(snapshot_path(log.directory, offset))
    log.snapshot_offsets = [offset for offset in log.snapshot_offsets if offset not in offsets]


def _forget_quarantine(log: "LogState", end_offset: int) -> None:
    """What was damaged above `end_offset` is gone; whatever comes there from a leader is intact."""
    for lost in log.quarantined:
        if lost.next_offset > end_offset:
            log.files.disk.remove(quarantine_path(log.directory, lost))
    log.quarantined = tuple(one for one in log.quarantined if one.next_offset <= end_offset)


def _after_cut(log: "LogState", end_offset: int, now_ms: int) -> None:
    """The log ends at `end_offset` now: nothing may remember more."""
    log.cut_count += 1
    log.log_end_offset = end_offset
    remember_cut(log, end_offset)
    log.recovery_point = min(log.recovery_point, end_offset)
    log.first_dirty_offset = min(log.first_dirty_offset, end_offset)
    log.high_watermark = log.high_watermark  # clamped by the assignment
    log.leader_epochs.truncate_from_end(end_offset)
    _forget_quarantine(log, end_offset)
    _drop_snapshots(log, [offset for offset in log.snapshot_offsets if offset > end_offset])
    restore_producers(
        log.files,
        log.directory,
        log.producer_state,
        log.segments,
        log.snapshot_offsets,
        end_offset=end_offset,
        now_ms=now_ms,
    )
    log.files.disk.sync_directory(log.directory)
    if all(segment.is_synced for segment in log.segments):
        log.recovery_point = end_offset


def advance_log_start_offset(log: "LogState", offset: int) -> int:
    """See `Log.advance_log_start_offset`."""
    if offset > log.high_watermark:
        raise OffsetOutOfRange(
            f"{log.directory}: cannot delete up to offset {offset}, the high watermark is "
            f"{log.high_watermark}"
        )
    if offset > log.log_start_offset:
        log.log_start_offset = offset
        log.leader_epochs.truncate_from_start(offset)
        log.producer_state.transactions.truncate_from_start(offset)
    return log.log_start_offset
