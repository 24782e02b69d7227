"""A cut below a recovery point: what is written there afterwards is not taken for synced."""

import pytest

from minikafka.storage.errors import StorageError
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, value_at, values_by_offset


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


def test_it_is_checked_after_a_power_failure() -> None:
    """The checkpoint says that all four are on the disk, and there are bytes for as many."""
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


def test_what_was_cut_is_not_missing() -> None:
    under_test = LogUnderTest()
    under_test.append_many(4)
    under_test.log.flush()
    under_test.log.truncate_to(2)
    log = under_test.kill(recovery_point=4, high_watermark=1)
    assert log.expected_end_offset == 2
    assert log.skip_lost(leader_epoch=0, now_ms=NOW_MS) == 0


def test_what_is_written_behind_a_cut_is_not_taken_for_committed() -> None:
    """An unclean leader lacks what was committed: the checkpoint speaks of other records."""
    under_test = LogUnderTest()
    under_test.append_many(4)
    under_test.log.high_watermark = 3
    under_test.log.truncate_to(1)
    under_test.append_many(3)
    log = under_test.kill(high_watermark=3)
    assert (log.high_watermark, log.log_end_offset, log.expected_end_offset) == (1, 4, 1)


def test_the_marker_goes_when_everything_is_synced_again() -> None:
    under_test = cut_log()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    under_test.log.flush()
    assert under_test.names(".cut") == []
    assert under_test.log.cut_offset is None


def test_it_stays_as_long_as_a_checkpoint_may_claim_more() -> None:
    under_test = cut_log()
    under_test.log.truncate_to(3)
    under_test.log.flush()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    assert under_test.kill(recovery_point=4).log_end_offset == 3
    under_test.append("last", leader_epoch=1)
    under_test.log.flush()
    assert under_test.names(".cut") == []


def test_a_deeper_cut_has_the_last_word() -> None:
    under_test = cut_log()
    under_test.log.truncate_to(1)
    assert under_test.names(".cut") == ["00000000000000000001.cut"]


def test_of_several_markers_the_deepest_counts() -> None:
    """The process was killed between making one and removing the other."""
    under_test = cut_log()
    under_test.disk.open(under_test.path("00000000000000000003.cut"), create=True)
    log = under_test.kill(recovery_point=4)
    assert (log.cut_offset, log.recovery_point) == (2, 2)


def test_a_cut_above_everything_synced_leaves_nothing() -> None:
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
