"""A cut below a recovery point: later batches there are not assumed to be synced."""

import pytest

from minikafka.storage.errors import StorageError
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, value_at, values_by_offset
from tests.storage.transactional import ABORT, TransactionalLog, read_committed


def cut_log(seed: int = 1, *, end_offset: int = 2) -> LogUnderTest:
    """Four records are synced and checkpointed; then the log is cut, and others are appended."""
    under_test = LogUnderTest(seed=seed)
    under_test.append_many(4)
    under_test.log.flush()
    under_test.log.truncate_to(end_offset)
    for offset in range(end_offset, 4):
        batch = batch_of(f"w{offset:06d}", base_offset=offset, leader_epoch=1)
        under_test.log.append_as_follower(batch, now_ms=NOW_MS)
    return under_test


def test_batches_after_a_cut_are_checked_after_a_power_failure() -> None:
    """The checkpoint claims four durable records, and the file is large enough for four."""
    ends: set[int] = set()
    for seed in range(60):
        under_test = cut_log(seed)
        under_test.disk.crash(power_loss=True)
        log = under_test.open(recovery_point=4)
        found = values_by_offset(log)
        assert log.is_offline is None
        assert list(found) == list(range(log.log_end_offset))
        expected = {0: value_at(0), 1: value_at(1), 2: "w000002", 3: "w000003"}
        assert found.items() <= expected.items()
        assert log.recovery_point <= 2
        ends.add(log.log_end_offset)
    assert ends == {2, 3, 4}


def test_cut_records_are_not_expected() -> None:
    under_test = LogUnderTest()
    under_test.append_many(4)
    under_test.log.flush()
    under_test.log.truncate_to(2)
    log = under_test.kill(recovery_point=4, high_watermark=1)
    assert log.expected_end_offset == 2
    assert log.skip_lost(leader_epoch=0, now_ms=NOW_MS) == 0


def test_batches_after_a_cut_are_not_assumed_to_be_committed() -> None:
    """After an unclean election, the checkpoint's committed records are other ones."""
    under_test = LogUnderTest()
    under_test.append_many(4)
    under_test.log.high_watermark = 3
    under_test.log.truncate_to(1)
    under_test.append_many(3)
    log = under_test.kill(high_watermark=3)
    assert (log.high_watermark, log.log_end_offset, log.expected_end_offset) == (1, 4, 1)


def test_the_marker_is_removed_when_everything_is_synced() -> None:
    under_test = cut_log()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    under_test.log.flush()
    assert under_test.names(".cut") == []
    assert under_test.log.cut_marker.offset is None


def test_the_marker_stays_while_a_checkpoint_may_claim_more() -> None:
    under_test = cut_log()
    under_test.log.truncate_to(3)
    under_test.log.flush()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    assert under_test.kill(recovery_point=4).log_end_offset == 3
    under_test.append("last", leader_epoch=1)
    under_test.log.flush()
    assert under_test.names(".cut") == []


def test_a_deeper_cut_moves_the_marker() -> None:
    under_test = cut_log()
    under_test.log.truncate_to(1)
    assert under_test.names(".cut") == ["00000000000000000001.cut"]


def test_the_deepest_of_several_markers_counts() -> None:
    """The process was killed between making one and removing the other."""
    under_test = cut_log()
    under_test.disk.open(under_test.path("00000000000000000003.cut"), create=True)
    log = under_test.kill(recovery_point=4)
    assert (log.cut_marker.offset, log.recovery_point) == (2, 2)


def test_a_cut_above_everything_synced_leaves_no_marker() -> None:
    under_test = LogUnderTest()
    under_test.append_many(4)
    under_test.log.truncate_to(2)
    assert under_test.names(".cut") == []


def test_a_marker_that_cannot_be_made_takes_the_log_offline() -> None:
    under_test = LogUnderTest()
    under_test.append_many(4)
    under_test.log.flush()
    under_test.disk.fail("create", ".cut")
    with pytest.raises(StorageError):
        under_test.log.truncate_to(2)
    assert under_test.log.is_offline is not None


@pytest.mark.parametrize("end_offset", [4, 7])
def test_a_log_that_was_emptied_does_not_start_where_it_did_before(end_offset: int) -> None:
    """Its new leader had lost records: those that follow may be committed below the old start."""
    under_test = LogUnderTest()
    under_test.append_many(6)
    under_test.log.flush()
    under_test.log.high_watermark = 6
    under_test.log.advance_log_start_offset(5)
    under_test.log.truncate_to(3)
    under_test.append_many(end_offset - 3)
    log = under_test.kill(recovery_point=6, high_watermark=6, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (3, end_offset)


def test_records_deleted_after_a_cut_stay_deleted() -> None:
    under_test = cut_log()
    under_test.log.high_watermark = 4
    under_test.log.advance_log_start_offset(3)
    assert under_test.kill(recovery_point=4, log_start_offset=3).log_start_offset == 3


def test_transactions_aborted_after_a_cut_stay_aborted() -> None:
    """The checkpoint says that these offsets are compacted, which was true of the cut records."""
    under_test = TransactionalLog(cleanup_compact=True)
    under_test.append_many(4)
    under_test.log.flush()
    under_test.replicate()
    under_test.log.truncate_to(1)
    under_test.write(7, "aborted")
    under_test.end(7, ABORT)
    log = under_test.kill(recovery_point=4, high_watermark=4, first_dirty_offset=4)
    assert log.first_dirty_offset == 1
    under_test.replicate()
    assert read_committed(log) == [value_at(0)]
