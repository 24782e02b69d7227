"""A cut below a recovery point: later batches there are not assumed to be synced."""

import pytest

from minikafka.storage.checkpoints import Checkpoint
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, value_at, values_by_offset
from tests.storage.directories import DirectoryUnderTest, append
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


def test_the_marker_stays_until_a_checkpoint_of_after_the_cut() -> None:
    under_test = cut_log()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    under_test.log.flush()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    under_test.checkpoint()
    assert under_test.names(".cut") == []
    assert under_test.log.cut_marker.offset is None


def test_a_shallower_cut_keeps_the_marker() -> None:
    under_test = cut_log()
    under_test.log.truncate_to(3)
    under_test.log.flush()
    assert under_test.names(".cut") == ["00000000000000000002.cut"]
    assert under_test.kill(recovery_point=4).log_end_offset == 3


def test_a_cut_above_what_the_last_checkpoint_claims_leaves_no_marker() -> None:
    under_test = cut_log()
    under_test.checkpoint()
    under_test.log.truncate_to(3)
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


# --- until a newer checkpoint is durable --------------------------------------------------------


def checkpointed_and_cut(*, log_start: int = 0, end_offset: int) -> DirectoryUnderTest:
    """Six records are checkpointed; then the log is cut, and others are synced behind the cut."""
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 6)
    log.advance_log_start_offset(log_start)
    log.flush()
    under_test.directory.write_checkpoint(sync=True)
    log.truncate_to(end_offset)
    for _ in range(4):
        batch = batch_of(f"w{log.log_end_offset:06d}", leader_epoch=1)
        log.append_as_leader(batch, leader_epoch=1, now_ms=NOW_MS)
    log.flush()
    return under_test


def crash(under_test: DirectoryUnderTest, *, power_loss: bool) -> Log:
    under_test.disk.crash(power_loss=power_loss)
    return under_test.open().logs["t", 0]


@pytest.mark.parametrize("power_loss", [False, True])
def test_an_old_start_of_the_log_is_never_believed(power_loss: bool) -> None:
    under_test = checkpointed_and_cut(log_start=5, end_offset=3)
    assert crash(under_test, power_loss=power_loss).log_start_offset == 3


@pytest.mark.parametrize("power_loss", [False, True])
def test_an_old_high_watermark_is_never_believed(power_loss: bool) -> None:
    under_test = checkpointed_and_cut(end_offset=3)
    assert crash(under_test, power_loss=power_loss).high_watermark == 3


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("sync", [False, True])
def test_a_new_checkpoint_is_believed(power_loss: bool, sync: bool) -> None:
    under_test = checkpointed_and_cut(log_start=5, end_offset=3)
    log = under_test.directory.logs["t", 0]
    log.high_watermark = 6
    log.advance_log_start_offset(4)
    under_test.directory.write_checkpoint(sync=sync)
    assert under_test.disk.paths(".cut") == []
    log = crash(under_test, power_loss=power_loss)
    assert (log.log_start_offset, log.high_watermark) == (4, 6)


@pytest.mark.parametrize("crashes_in", ["the files", "the marker"])
def test_a_crash_while_the_checkpoint_is_written(crashes_in: str) -> None:
    under_test = checkpointed_and_cut(log_start=5, end_offset=3)
    work = under_test.directory.prepare_checkpoint()
    if crashes_in == "the files":
        under_test.disk.fail("fsync", str(Checkpoint.LOG_START_OFFSET))
        with pytest.raises(OSError, match="fails on purpose"):
            work.run()
        under_test.disk.heal()
    else:
        work.run()
    assert crash(under_test, power_loss=True).log_start_offset == 3


def test_a_cut_while_the_checkpoint_is_written_keeps_its_marker() -> None:
    under_test = checkpointed_and_cut(end_offset=3)
    log = under_test.directory.logs["t", 0]
    log.high_watermark = 7
    work = under_test.directory.prepare_checkpoint()
    log.truncate_to(5)
    work.run()
    assert [*work.complete()] == [None]
    assert crash(under_test, power_loss=False).high_watermark == 3


def test_a_marker_that_cannot_be_removed_stays_until_the_next_checkpoint() -> None:
    under_test = checkpointed_and_cut(end_offset=3)
    under_test.disk.fail("remove", ".cut")
    under_test.directory.write_checkpoint()
    under_test.disk.heal()
    assert under_test.disk.paths(".cut") != []
    under_test.directory.write_checkpoint()
    assert under_test.disk.paths(".cut") == []


def test_the_marker_of_an_earlier_process_goes_with_the_first_checkpoint() -> None:
    under_test = checkpointed_and_cut(end_offset=3)
    crash(under_test, power_loss=False)
    assert under_test.disk.paths(".cut") != []
    under_test.directory.write_checkpoint()
    assert under_test.disk.paths(".cut") == []


def test_after_a_clean_stop_there_is_no_marker() -> None:
    under_test = checkpointed_and_cut(log_start=5, end_offset=3)
    under_test.directory.close()
    assert under_test.disk.paths(".cut") == []
