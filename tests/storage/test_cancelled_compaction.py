"""A compaction that is not wanted any more ends soon and leaves nothing."""

import pytest

from minikafka.storage.cleaner import CompactionCancelled
from minikafka.storage.compaction import CompactionPlan
from tests.storage.batches import NOW_MS, LogUnderTest, read_records


def log_to_compact() -> tuple[LogUnderTest, CompactionPlan]:
    under_test = LogUnderTest(
        segment_bytes=400, cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0.0
    )
    for number in range(9):
        under_test.append(f"{number:90}", key=f"key{number % 3}")
    under_test.log.flush()
    under_test.log.high_watermark = under_test.log.log_end_offset
    plan = under_test.log.plan_compaction(NOW_MS)
    assert plan is not None
    return under_test, plan


@pytest.mark.parametrize("batches_before", [0, 1, 9, 12])
def test_it_can_be_cancelled_at_every_batch(
    batches_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_test, plan = log_to_compact()
    asked = iter([False] * batches_before)
    monkeypatch.setattr(
        CompactionPlan, "is_cancelled", property(lambda _: next(asked, True)), raising=False
    )
    with pytest.raises(CompactionCancelled):
        plan.run()
    monkeypatch.undo()
    assert not under_test.log.complete_compaction(plan, NOW_MS)
    assert len(read_records(under_test.log)) == 9
    under_test.kill()
    assert under_test.names(".cleaned") == []
    assert len(read_records(under_test.log)) == 9


def test_cancel_before_it_runs() -> None:
    _, plan = log_to_compact()
    plan.cancel()
    with pytest.raises(CompactionCancelled):
        plan.run()


def test_without_a_cancellation_it_compacts() -> None:
    under_test, plan = log_to_compact()
    plan.run()
    assert under_test.log.complete_compaction(plan, NOW_MS)
    assert len(read_records(under_test.log)) < 9
