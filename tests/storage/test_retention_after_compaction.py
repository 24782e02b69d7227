"""cleanup.policy=compact,delete: what compaction leaves can still be deleted."""

from tests.storage.batches import NOW_MS, LogUnderTest, read_records

DAY_MS = 86_400_000


def compacted_log() -> LogUnderTest:
    """Closed segments, of which compaction empties the first ones."""
    under_test = LogUnderTest(
        segment_bytes=400,
        cleanup_compact=True,
        cleanup_delete=True,
        retention_ms=DAY_MS,
        min_cleanable_dirty_ratio=0.0,
    )
    log = under_test.log
    for number in range(9):
        under_test.append(f"{number:90}", key=f"key{number % 3}")
    log.roll(NOW_MS)
    log.flush()
    log.high_watermark = log.log_end_offset
    plan = log.plan_compaction(NOW_MS)
    assert plan is not None
    plan.run()
    assert log.complete_compaction(plan, NOW_MS)
    assert log.segments[0].size_bytes == 0
    assert [record.offset for record in read_records(log)] == [6, 7, 8]
    return under_test


def test_an_emptied_segment_does_not_stop_retention() -> None:
    log = compacted_log().log
    count = len(log.segments) - 1
    assert log.apply_retention(NOW_MS + 2 * DAY_MS) == count
    assert log.log_start_offset == log.log_end_offset == 9


def test_young_segments_stay_with_the_offsets_that_compaction_emptied() -> None:
    log = compacted_log().log
    assert log.apply_retention(NOW_MS + 1) == 0
    assert log.log_start_offset == 0
