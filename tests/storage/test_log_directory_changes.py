"""The data directory at work: creating, deleting, checkpoints, failing, closing."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from minikafka.storage import log_directory
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import StorageError
from minikafka.storage.log_directory import LogDirectory
from tests.storage.batches import NOW_MS, batch_of, values_by_offset
from tests.storage.directories import CONFIG, ID, OTHER_ID, DirectoryUnderTest, all_of, append

# --- creating and deleting ------------------------------------------------------------------------


def test_creating_a_partition_again_returns_it() -> None:
    under_test = DirectoryUnderTest()
    log = under_test.create()
    assert under_test.create() is log
    with pytest.raises(StorageError, match="another topic of that name"):
        under_test.create(topic_id=OTHER_ID)


def test_on_a_full_disk_a_partition_can_be_created_later() -> None:
    under_test = DirectoryUnderTest()
    under_test.disk.fail("create", "t-0")
    with pytest.raises(StorageError, match="cannot be created"):
        under_test.create()
    under_test.disk.heal()
    append(under_test.create(topic_id=OTHER_ID), 3)
    assert under_test.kill().topic_ids == {("t", 0): OTHER_ID}


def test_a_recreated_topic_is_another_topic() -> None:
    """KIP-516: the new one inherits no checkpoint and no file from the old one."""
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 20)
    log.advance_log_start_offset(15)
    under_test.directory.prepare_checkpoint().run()
    under_test.directory.delete_log("t", 0, unique_suffix="abc")
    with pytest.raises(StorageError, match="is closed"):
        append(log, 1)
    log = under_test.create(topic_id=OTHER_ID)
    append(log, 3)
    assert values_by_offset(log) == all_of(3)
    directory = under_test.kill()
    assert values_by_offset(directory.logs["t", 0]) == all_of(3)
    assert under_test.disk.exists("root/t-0.abc-delete")
    assert directory.delete_pending() == 1
    assert directory.delete_pending() == 0
    assert not under_test.disk.exists("root/t-0.abc-delete")


def test_a_partition_that_is_set_aside_keeps_its_files() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 5)
    path = under_test.directory.set_aside_log("t", 0, unique_suffix="abc")
    assert path == "root/t-0.abc-stray"
    assert under_test.disk.file_size(f"{path}/00000000000000000000.log") > 0
    assert values_by_offset(under_test.create(topic_id=OTHER_ID)) == {}
    directory = under_test.kill()
    assert directory.topic_ids == {("t", 0): OTHER_ID}
    assert directory.delete_pending() == 0
    assert under_test.disk.exists(path)


def test_long_topic_names_can_be_deleted() -> None:
    under_test = DirectoryUnderTest()
    under_test.create("x" * 249)
    under_test.directory.delete_log("x" * 249, 0, unique_suffix="f" * 32)
    (name,) = (name for name in under_test.disk.list_directory("root") if "delete" in name)
    assert len(name) <= 255


def test_deleting_an_unknown_partition() -> None:
    with pytest.raises(KeyError, match="no partition t-0"):
        DirectoryUnderTest().directory.delete_log("t", 0, unique_suffix="abc")


def test_a_partition_that_cannot_be_deleted_is_offline() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 3)
    under_test.disk.fail("rename", "t-0")
    with pytest.raises(StorageError, match="cannot be renamed"):
        under_test.directory.delete_log("t", 0, unique_suffix="abc")
    under_test.disk.heal()
    assert set(under_test.directory.offline) == {("t", 0)}
    under_test.directory.delete_log("t", 0, unique_suffix="abc")
    assert under_test.directory.delete_pending() == 1


def test_removing_is_retried_after_an_error() -> None:
    under_test = DirectoryUnderTest()
    for partition in range(2):
        under_test.create(partition=partition)
        under_test.directory.delete_log("t", partition, unique_suffix="abc")
    under_test.disk.fail("remove", "t-1")
    with pytest.raises(OSError, match="on purpose"):
        under_test.directory.delete_pending()
    under_test.disk.heal()
    assert under_test.directory.delete_pending() == 1


def test_a_deleted_topic_does_not_come_back_with_a_power_failure() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 3)
    under_test.directory.logs["t", 0].flush()
    under_test.directory.delete_log("t", 0, unique_suffix="abc")
    under_test.directory.delete_pending()
    under_test.disk.crash(power_loss=True)
    assert under_test.open().logs == {}


# --- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_survive() -> None:
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 20)
    log.flush()
    append(log, 2)
    log.high_watermark = 21
    log.advance_log_start_offset(4)
    under_test.directory.prepare_checkpoint(sync=True).run()
    log = under_test.kill().logs["t", 0]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 21, 22)
    assert log.recovery_point == 20


@pytest.mark.parametrize("kind", ["recovery-point", "log-start", "replication", "cleaner"])
def test_a_damaged_checkpoint_loses_no_records(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 20)
    under_test.directory.close()
    under_test.disk.flip_bit(f"root/{kind}-offset-checkpoint", 50)
    assert values_by_offset(under_test.open().logs["t", 0]) == all_of(20)
    assert "continuing without this checkpoint" in caplog.text


def test_a_flushed_log_survives_a_power_failure_whatever_else_is_lost() -> None:
    for seed in range(30):
        under_test = DirectoryUnderTest()
        under_test.disk.random = Random(seed)
        log = under_test.create()
        append(log, 7)
        log.flush()
        append(log, 3)
        under_test.disk.crash(power_loss=True)
        log = under_test.open().logs["t", 0]
        assert log.log_end_offset >= 7
        assert values_by_offset(log).items() >= all_of(7).items()


def test_statistics() -> None:
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 3)
    statistics = under_test.directory.statistics()
    assert statistics.size_bytes_by_partition == {("t", 0): log.size_bytes}
    assert statistics.free_bytes > 0


# --- offline while running ------------------------------------------------------------------------


def test_reopening_after_a_disk_error() -> None:
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 10)
    log.advance_log_start_offset(2)
    under_test.disk.fail("pwritev", "t-0")
    with pytest.raises(StorageError):
        append(log, 1)
    under_test.disk.heal()
    again = under_test.directory.reopen_log("t", 0, CONFIG, now_ms=NOW_MS)
    assert again is not log
    assert again.log_start_offset == 2
    append(again, 1)
    assert again.log_end_offset == 11


def test_reopening_sets_damage_aside() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 20)
    directory = under_test.restart()
    under_test.disk.flip_bit("root/t-0/00000000000000000000.log", 75 * 8)
    with pytest.raises(StorageError):
        values_by_offset(directory.logs["t", 0])
    log = directory.reopen_log("t", 0, CONFIG, now_ms=NOW_MS)
    assert set(values_by_offset(log)) == set(range(20)) - {0}
    assert log.quarantined == ((0, 1),)


# --- closing --------------------------------------------------------------------------------------


def broken(under_test: DirectoryUnderTest) -> None:
    under_test.disk.fail("pwritev", "t-0")
    with pytest.raises(StorageError):
        append(under_test.directory.logs["t", 0], 1)
    under_test.disk.heal()


def fsync_fails(under_test: DirectoryUnderTest) -> None:
    under_test.disk.fail("fsync", "t-0")


@pytest.mark.parametrize("harm", [broken, fsync_fails])
def test_no_clean_marker_when_a_log_could_not_be_closed(
    harm: Callable[[DirectoryUnderTest], None],
) -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 5)
    append(under_test.create(partition=1), 5)
    harm(under_test)
    under_test.directory.close()
    under_test.disk.heal()
    directory = under_test.open()
    assert not directory.was_clean_shutdown
    assert directory.logs["t", 1].recovery_point == 5
    assert values_by_offset(directory.logs["t", 0]) == all_of(5)


def test_closing_can_be_ended_early(caplog: pytest.LogCaptureFixture) -> None:
    under_test = DirectoryUnderTest()
    for partition in range(3):
        append(under_test.create(partition=partition), 5)
    answers = iter([True, False])
    under_test.directory.close(may_go_on=lambda: next(answers))
    assert "out of time" in caplog.text
    directory = under_test.open()
    assert not directory.was_clean_shutdown
    assert [directory.logs["t", i].recovery_point for i in range(3)] == [5, 0, 0]
    assert all(values_by_offset(log) == all_of(5) for log in directory.logs.values())


def test_closing_without_syncing() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 5)
    under_test.directory.close(clean=False)
    directory = under_test.open()
    assert not directory.was_clean_shutdown
    assert values_by_offset(directory.logs["t", 0]) == all_of(5)


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    directory = LogDirectory.open(
        RealDisk(), str(tmp_path), node_id=1, new_cluster_id="new", open_files_max=5
    )
    directory.open_all(lambda topic: CONFIG, now_ms=NOW_MS)
    for partition in range(50):
        log = directory.create_log("t", ID, partition, CONFIG, now_ms=NOW_MS)
        append(log, 5)
    assert len(directory.files) <= 5
    assert all(values_by_offset(log) == all_of(5) for log in directory.logs.values())
    assert len(directory.files) <= 5
    directory.close()


def test_a_directory_that_cannot_be_removed_does_not_block_the_others() -> None:
    under_test = DirectoryUnderTest()
    for partition in range(3):
        under_test.create(partition=partition)
        under_test.directory.delete_log("t", partition, unique_suffix="abc")
    under_test.disk.fail("remove", "t-0")
    with pytest.raises(OSError, match="on purpose"):
        under_test.directory.delete_pending()
    assert under_test.disk.exists("root/t-0.abc-delete")
    assert not under_test.disk.exists("root/t-2.abc-delete")
    under_test.disk.heal()
    assert under_test.directory.delete_pending() == 1


def test_a_deleted_directory_may_be_missing_already(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"x")
    for _ in range(2):
        disk.remove_directory(str(tmp_path / "there"))
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_partition_that_returns_does_not_get_its_old_checkpoints(is_restarted: bool) -> None:
    """A replica was moved away and back: the checkpoints describe its old log."""
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 5)
    log.flush()
    under_test.directory.prepare_checkpoint().run()
    under_test.directory.delete_log("t", 0, unique_suffix="x")
    if is_restarted:
        under_test.kill()
    log = under_test.create()
    for offset in range(5):
        batch = batch_of("other", base_offset=offset, leader_epoch=3)
        log.append_as_follower(batch, now_ms=NOW_MS)
    log = under_test.kill().logs["t", 0]
    assert (log.high_watermark, log.log_end_offset, log.recovery_point) == (0, 5, 0)
    assert log.expected_end_offset == 0


def test_remembered_deleted_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_directory, "DELETED_PARTITIONS_MAX", 1)
    under_test = DirectoryUnderTest()
    for topic, topic_id in (("a", OTHER_ID), ("b", ID)):
        append(under_test.create(topic, topic_id=topic_id), 1)
    under_test.directory.prepare_checkpoint().run()
    for topic in ("a", "b"):
        under_test.directory.delete_log(topic, 0, unique_suffix=topic)
    assert under_test.directory.statistics().size_bytes_by_partition == {}
    before = under_test.disk.content("root/replication-offset-checkpoint")
    under_test.create("a", topic_id=OTHER_ID)
    assert under_test.disk.content("root/replication-offset-checkpoint") == before
    under_test.create("b")
    assert under_test.disk.content("root/replication-offset-checkpoint") != before
