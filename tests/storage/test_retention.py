"""Deleting old segments: age, size, log start, the high watermark, crashes half-way."""

import errno
from typing import Any

import pytest

from minikafka.storage.errors import OffsetOutOfRange, StorageError
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, read_records, values_by_offset
from tests.storage.compacted import close_segment, compact, compacted_log

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def log_of_segments(count: int, *, age_step_ms: int = 0, **settings: Any) -> LogUnderTest:
    """`count` closed segments of two records each, the first the oldest, and one open segment."""
    under_test = LogUnderTest(**settings)
    for number in range(count + 1):
        timestamp = NOW_MS - (count - number) * age_step_ms
        under_test.append("a", timestamp=timestamp)
        under_test.append("b", timestamp=timestamp - 5)
        if number < count:
            under_test.log.roll(NOW_MS)
    under_test.log.high_watermark = under_test.log.log_end_offset
    return under_test


def bases(under_test: LogUnderTest) -> list[int]:
    return [segment.base_offset for segment in under_test.log.segments]


def test_by_age() -> None:
    under_test = log_of_segments(5, age_step_ms=HOUR_MS, retention_ms=3 * HOUR_MS)
    assert under_test.log.apply_retention(NOW_MS) == 2
    assert bases(under_test) == [4, 6, 8, 10]
    assert under_test.log.log_start_offset == 4
    assert min(values_by_offset(under_test.log)) == 4
    with pytest.raises(OffsetOutOfRange):
        under_test.log.read(3, size_bytes_max=100, upper_bound_offset=12)
    assert under_test.log.apply_retention(NOW_MS) == 0


def test_age_is_the_newest_record_of_the_segment() -> None:
    under_test = LogUnderTest(retention_ms=HOUR_MS)
    under_test.append("old", timestamp=NOW_MS - DAY_MS)
    under_test.append("new", timestamp=NOW_MS)
    under_test.append("old", timestamp=NOW_MS - DAY_MS)
    under_test.log.roll(NOW_MS)
    under_test.log.high_watermark = 3
    assert under_test.log.apply_retention(NOW_MS + HOUR_MS) == 0
    assert under_test.log.apply_retention(NOW_MS + HOUR_MS + 1) == 1


def test_an_old_active_segment_is_deleted() -> None:
    under_test = log_of_segments(1, retention_ms=HOUR_MS)
    assert under_test.log.apply_retention(NOW_MS + DAY_MS) == 2
    log = under_test.log
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (4, 4, 0)
    assert under_test.append("next") == 4


def test_an_empty_log_stays() -> None:
    under_test = LogUnderTest(retention_ms=0)
    assert under_test.log.apply_retention(NOW_MS + DAY_MS) == 0
    assert bases(under_test) == [0]


def test_without_timestamps_the_age_is_that_of_the_file() -> None:
    under_test = LogUnderTest(retention_ms=HOUR_MS)
    under_test.disk.now_ms = NOW_MS - HOUR_MS
    under_test.append("a", timestamp=-1)
    under_test.log.roll(NOW_MS)
    under_test.log.high_watermark = 1
    assert under_test.log.apply_retention(NOW_MS) == 0
    assert under_test.log.apply_retention(NOW_MS + 1) == 1


def test_by_size() -> None:
    under_test = log_of_segments(5)
    segment_bytes = under_test.log.segments[0].size_bytes
    under_test.log.config = LogUnderTest(retention_bytes=3 * segment_bytes).config
    assert under_test.log.apply_retention(NOW_MS) == 3
    under_test.log.config = LogUnderTest(retention_bytes=2 * segment_bytes + 1).config
    assert under_test.log.apply_retention(NOW_MS) == 0
    assert under_test.log.size_bytes == 3 * segment_bytes


def test_unlimited() -> None:
    under_test = log_of_segments(3, age_step_ms=DAY_MS, retention_ms=-1, retention_bytes=-1)
    assert under_test.log.apply_retention(NOW_MS + 1000 * DAY_MS) == 0


def test_a_compacted_topic_keeps_old_records() -> None:
    under_test = log_of_segments(
        3, age_step_ms=DAY_MS, retention_ms=1, cleanup_delete=False, cleanup_compact=True
    )
    assert under_test.log.apply_retention(NOW_MS) == 0
    under_test.log.advance_log_start_offset(5)
    assert under_test.log.apply_retention(NOW_MS) == 2
    assert under_test.log.log_start_offset == 5


def test_never_past_the_high_watermark() -> None:
    """KAFKA-5634."""
    under_test = log_of_segments(5, retention_ms=0)
    under_test.log.high_watermark = 5
    assert under_test.log.apply_retention(NOW_MS + DAY_MS) == 2
    assert under_test.log.log_start_offset == 4
    under_test.log.high_watermark = 5
    assert under_test.log.apply_retention(NOW_MS + DAY_MS) == 0


def test_delete_records() -> None:
    under_test = log_of_segments(3)
    log = under_test.log
    log.high_watermark = 7
    with pytest.raises(OffsetOutOfRange, match="the high watermark is 7"):
        log.advance_log_start_offset(8)
    assert log.advance_log_start_offset(5) == 5
    assert log.advance_log_start_offset(2) == 5
    assert sorted(values_by_offset(log)) == [5, 6, 7]
    assert log.apply_retention(NOW_MS) == 2
    assert log.log_start_offset == 5
    assert bases(under_test) == [4, 6]


def test_the_high_watermark_follows_the_log_start() -> None:
    under_test = log_of_segments(3, retention_ms=0)
    under_test.log.high_watermark = 4
    under_test.log.apply_retention(NOW_MS + DAY_MS)
    assert under_test.log.log_start_offset == under_test.log.high_watermark == 4


def test_files_are_removed_after_a_while() -> None:
    under_test = log_of_segments(2, retention_ms=0, file_delete_delay_ms=1000)
    under_test.log.high_watermark = 4
    under_test.log.segments[0].index.write_tail()
    under_test.log.apply_retention(NOW_MS + DAY_MS)
    assert len(under_test.names(".deleted")) == 2
    assert under_test.log.delete_pending_files(NOW_MS + DAY_MS + 999) == 0
    assert under_test.log.delete_pending_files(NOW_MS + DAY_MS + 1000) == 2
    assert under_test.names(".deleted") == []
    assert under_test.log.delete_pending_files(NOW_MS + DAY_MS * 2) == 0


def test_snapshots_of_deleted_segments_are_removed_but_producers_stay() -> None:
    under_test = LogUnderTest(retention_ms=0)
    for sequence in range(4):
        under_test.append("a", producer=(1, 0, sequence))
        under_test.log.roll(NOW_MS)
    under_test.log.high_watermark = 4
    under_test.log.apply_retention(NOW_MS + 1)
    assert under_test.names(".snapshot") == ["00000000000000000004.snapshot"]
    log = under_test.kill(log_start_offset=4)
    batch = batch_of("a", producer=(1, 0, 3))
    result = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert result.is_duplicate
    assert result.base_offset == 3


def test_producers_of_a_synced_log_stay() -> None:
    under_test = LogUnderTest(segment_bytes=100, retention_bytes=0)
    for sequence in range(3):
        under_test.append("a", producer=(1, 0, sequence))
    under_test.log.high_watermark = 3
    under_test.log.flush()
    assert under_test.log.apply_retention(NOW_MS)
    under_test.disk.crash(power_loss=True)
    under_test.open(log_start_offset=under_test.log.log_start_offset)
    retried = under_test.log.append_as_leader(
        batch_of("a", producer=(1, 0, 2)), leader_epoch=0, now_ms=NOW_MS
    )
    assert retried.is_duplicate


def test_idle_producers_expire() -> None:
    under_test = LogUnderTest(producer_id_expiration_ms=HOUR_MS)
    under_test.append("a", producer=(1, 0, 0))
    under_test.log.apply_retention(NOW_MS + HOUR_MS - 1)
    assert len(under_test.log.producer_state) == 1
    under_test.log.apply_retention(NOW_MS + HOUR_MS)
    assert len(under_test.log.producer_state) == 0


@pytest.mark.parametrize("failing_at", range(10))
def test_a_crash_half_way_leaves_whole_segments(failing_at: int) -> None:
    under_test = log_of_segments(3, retention_ms=0, index_interval_bytes=1)
    under_test.log.high_watermark = 6
    renames = 0

    def fault(operation: str, path: str) -> int | None:
        nonlocal renames
        renames += operation == "rename"
        return errno.EIO if operation == "rename" and renames > failing_at else None

    under_test.disk.fault = fault
    try:
        under_test.log.apply_retention(NOW_MS + DAY_MS)
    except StorageError:
        assert renames == failing_at + 1
    log = under_test.kill()
    first = log.segments[0].base_offset
    # Of each segment the log is renamed first, then its two indexes.
    assert first == min(2 * ((failing_at + 2) // 3), 6)
    assert sorted(values_by_offset(log)) == list(range(first, 8))
    assert under_test.names(".deleted") == []


def test_max_timestamps_are_found_again_after_a_restart() -> None:
    under_test = log_of_segments(
        4, age_step_ms=HOUR_MS, retention_ms=2 * HOUR_MS, index_interval_bytes=1
    )
    under_test.restart()
    under_test.log.high_watermark = under_test.log.log_end_offset
    assert under_test.log.apply_retention(NOW_MS) == 2


# --- cleanup.policy=compact,delete ----------------------------------------------------------------


def log_with_emptied_segments() -> LogUnderTest:
    under_test = compacted_log(
        cleanup_delete=True, retention_ms=DAY_MS, min_cleanable_dirty_ratio=0.0
    )
    for number in range(9):
        under_test.append(f"{number:90}", key=f"key{number % 3}")
    close_segment(under_test)
    compact(under_test)
    assert under_test.log.segments[0].size_bytes == 0
    assert [record.offset for record in read_records(under_test.log)] == [6, 7, 8]
    return under_test


def test_a_segment_that_compaction_emptied_does_not_stop_retention() -> None:
    log = log_with_emptied_segments().log
    count = len(log.segments) - 1
    assert log.apply_retention(NOW_MS + 2 * DAY_MS) == count
    assert log.log_start_offset == log.log_end_offset == 9


def test_young_segments_keep_the_offsets_that_compaction_emptied() -> None:
    log = log_with_emptied_segments().log
    assert log.apply_retention(NOW_MS + 1) == 0
    assert log.log_start_offset == 0
