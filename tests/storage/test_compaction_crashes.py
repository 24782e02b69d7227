"""Compaction interrupted: crashes, power failures, damage, truncation, retention, cancellation."""

import errno
from random import Random

import pytest

from minikafka.storage.compaction import CompactionCancelled, CompactionPlan
from minikafka.storage.errors import StorageError
from minikafka.storage.scan import DamagedSegment
from tests.storage.batches import NOW_MS, LogUnderTest, read_records
from tests.storage.compacted import close_segment, compacted_log, plan_of, put, table


def prepared() -> tuple[LogUnderTest, dict[bytes | None, bytes | None], set[int]]:
    under_test = compacted_log(index_interval_bytes=100)
    for number in range(30):
        put(under_test, (f"key{number % 4}", f"value-{number}"))
    close_segment(under_test)
    put(under_test, ("active", "x"))
    under_test.log.flush()
    records = read_records(under_test.log)
    return under_test, table(records), {record.offset for record in records}


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("failing_at", range(0, 90, 2))
def test_a_crash_anywhere_leaves_the_old_or_the_new(failing_at: int, power_loss: bool) -> None:
    under_test, expected, offsets = prepared()
    under_test.disk.random = Random(failing_at)
    operations = 0

    def fault(operation: str, path: str) -> int | None:
        nonlocal operations
        operations += operation in {"open", "create", "pwritev", "fsync", "rename", "remove"}
        return errno.EIO if operations > failing_at else None

    under_test.disk.fault = fault
    plan = plan_of(under_test)
    try:
        plan.run()
        under_test.log.complete_compaction(plan, NOW_MS)
    except (OSError, StorageError):
        assert operations > failing_at
    under_test.disk.crash(power_loss=power_loss)
    log = under_test.open(recovery_point=31)
    assert (log.log_start_offset, log.log_end_offset) == (0, 31)
    assert table(read_records(log)) == expected
    assert {record.offset for record in read_records(log)} <= offsets
    assert log.quarantined == ()
    assert under_test.names(".cleaned") == under_test.names(".swap") == []


def test_retention_may_come_first() -> None:
    under_test, expected, _ = prepared()
    plan = plan_of(under_test)
    plan.run()
    under_test.log.high_watermark = 31
    under_test.log.advance_log_start_offset(10)
    under_test.log.apply_retention(NOW_MS)
    assert not under_test.log.complete_compaction(plan, NOW_MS)
    assert under_test.names(".cleaned") == []
    assert table(read_records(under_test.log)) == expected


def test_a_truncation_may_come_first() -> None:
    """New records in the segment that was cut must not be swapped away."""
    under_test, _, _ = prepared()
    plan = plan_of(under_test)
    plan.run()
    under_test.log.truncate_to(plan.segments[-1].next_offset - 1)
    put(under_test, ("new", "x"))
    under_test.log.roll(NOW_MS)
    put(under_test, ("newer", "x"))
    assert under_test.log.segments[: len(plan.segments)] == plan.segments
    assert not under_test.log.complete_compaction(plan, NOW_MS)
    latest = table(read_records(under_test.log))
    assert (latest[b"new"], latest[b"newer"]) == (b"x", b"x")


def test_appends_continue_during_a_compaction() -> None:
    under_test, _, _ = prepared()
    plan = plan_of(under_test)
    put(under_test, ("key0", "newer"))
    plan.run()
    under_test.log.roll(NOW_MS)
    put(under_test, ("key1", "newer"))
    assert under_test.log.complete_compaction(plan, NOW_MS)
    latest = table(read_records(under_test.log))
    assert (latest[b"key0"], latest[b"key1"]) == (b"newer", b"newer")


def test_a_plan_that_did_not_run_changes_nothing() -> None:
    under_test, expected, _ = prepared()
    assert not under_test.log.complete_compaction(plan_of(under_test), NOW_MS)
    assert table(read_records(under_test.log)) == expected


def test_damage_stops_only_the_compaction() -> None:
    under_test, _, _ = prepared()
    under_test.disk.flip_bit(under_test.disk.paths(".log")[1], 600)
    plan = plan_of(under_test)
    with pytest.raises(DamagedSegment):
        plan.run()
    assert not under_test.log.complete_compaction(plan, NOW_MS)
    assert under_test.log.is_offline is None


# --- cancelled ----------------------------------------------------------------------------------


def log_to_cancel() -> tuple[LogUnderTest, CompactionPlan]:
    under_test = compacted_log(min_cleanable_dirty_ratio=0.0)
    for number in range(9):
        under_test.append(f"{number:90}", key=f"key{number % 3}")
    close_segment(under_test)
    return under_test, plan_of(under_test)


@pytest.mark.parametrize("batches_before", [0, 1, 9, 12])
def test_a_compaction_can_be_cancelled_at_every_batch(
    batches_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_test, plan = log_to_cancel()
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


def test_a_compaction_can_be_cancelled_before_it_runs() -> None:
    _, plan = log_to_cancel()
    plan.cancel()
    with pytest.raises(CompactionCancelled):
        plan.run()
