"""The data directory: its owner, and opening everything in it."""

from pathlib import Path
from random import Random

import pytest

from minikafka.storage.checked_file import DamagedFile, encode_checked
from minikafka.storage.directory_meta import FORMAT_VERSION
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import DirectoryLocked, StorageError, WrongDataDirectory
from minikafka.storage.log_directory import LogDirectory
from minikafka.storage.memory_disk import MemoryDisk
from tests.storage.batches import NOW_MS, values_by_offset
from tests.storage.directories import CONFIG, ID, OTHER_ID, DirectoryUnderTest, all_of, append

# --- the owner ------------------------------------------------------------------------------------


def test_a_new_directory_gets_the_new_cluster_id() -> None:
    under_test = DirectoryUnderTest()
    assert under_test.directory.cluster_id == "new"
    under_test.directory.close()
    directory = LogDirectory.open(under_test.disk, "root", node_id=1, new_cluster_id="other")
    assert directory.cluster_id == "new"


def test_a_new_directory_of_a_known_cluster() -> None:
    disk = MemoryDisk(Random(1))
    directory = LogDirectory.open(disk, "root", node_id=1, new_cluster_id="new", cluster_id="known")
    assert directory.cluster_id == "known"


def test_a_closed_directory_holds_no_file_open() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 1)
    assert len(under_test.directory.files)
    under_test.directory.close()
    assert not len(under_test.directory.files)


@pytest.mark.parametrize(
    ("node_id", "cluster_id", "match"),
    [
        (2, None, "node 1 of cluster 'new', not to node 2"),
        (1, "other", "not to node 1 of cluster 'other'"),
    ],
)
def test_a_directory_of_another_owner_is_refused(
    node_id: int, cluster_id: str | None, match: str
) -> None:
    under_test = DirectoryUnderTest()
    under_test.directory.close()
    with pytest.raises(WrongDataDirectory, match=match):
        under_test.open(node_id=node_id, cluster_id=cluster_id)
    assert under_test.open().cluster_id == "new"  # the lock was released


def test_a_newer_format_is_refused() -> None:
    under_test = DirectoryUnderTest()
    under_test.directory.close()
    meta = encode_checked("data-directory", [FORMAT_VERSION + 1, "new", 1])
    under_test.disk.replace_file("root/meta", meta, sync=True)
    with pytest.raises(WrongDataDirectory, match=f"format version {FORMAT_VERSION + 1}"):
        under_test.open()


def test_a_directory_with_a_damaged_meta_file_is_not_new() -> None:
    under_test = DirectoryUnderTest()
    under_test.directory.close()
    under_test.disk.flip_bit("root/meta", 77)
    with pytest.raises(DamagedFile, match="root/meta"):
        under_test.open()


def test_only_one_broker_at_a_time() -> None:
    under_test = DirectoryUnderTest()
    with pytest.raises(DirectoryLocked):
        under_test.open()
    under_test.kill()


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_everything_survives(how: str) -> None:
    under_test = DirectoryUnderTest()
    for topic, partition in (("t", 0), ("t", 1), ("a-b.c_d", 12)):
        append(under_test.create(topic, partition), 10 + partition)
    directory = getattr(under_test, how)()
    assert set(directory.logs) == {("t", 0), ("t", 1), ("a-b.c_d", 12)}
    assert set(directory.topic_ids.values()) == {ID}
    for (_, partition), log in directory.logs.items():
        assert values_by_offset(log) == all_of(10 + partition)
    assert directory.was_clean_shutdown == (how == "restart")
    assert directory.offline == {}


def test_a_clean_stop_is_reported_once() -> None:
    under_test = DirectoryUnderTest()
    assert under_test.restart().was_clean_shutdown
    assert not under_test.kill().was_clean_shutdown


def test_on_a_real_disk(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    disk = RealDisk()
    for expected in (0, 25, 50):
        directory = LogDirectory.open(disk, path, node_id=1, new_cluster_id="new")
        directory.open_all(lambda topic: CONFIG, now_ms=NOW_MS)
        log = directory.create_log("t", ID, 0, CONFIG, now_ms=NOW_MS)
        assert values_by_offset(log) == all_of(expected)
        append(log, 25)
        log.apply_retention(NOW_MS)
        directory.close(clean=expected == 0)
    directory = LogDirectory.open(disk, path, node_id=1, new_cluster_id="new")
    directory.open_all(lambda topic: CONFIG, now_ms=NOW_MS)
    directory.delete_log("t", 0, unique_suffix="abc")
    assert directory.delete_pending() == 1
    assert directory.statistics().free_bytes > 0
    directory.close()


def test_one_damaged_partition_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    under_test = DirectoryUnderTest()
    for partition in range(3):
        append(under_test.create(partition=partition), 5)
    under_test.disk.flip_bit("root/t-1/partition.metadata", 60)
    directory = under_test.kill()
    assert set(directory.logs) == {("t", 0), ("t", 2)}
    assert isinstance(directory.offline["t", 1], DamagedFile)
    assert "partition t-1 is offline" in caplog.text
    with pytest.raises(DamagedFile):
        under_test.create(partition=1)
    with pytest.raises(KeyError, match="no partition t-1"):
        directory.reopen_log("t", 1, CONFIG, now_ms=NOW_MS)
    # Its records stay until the partition is deleted.
    assert under_test.disk.paths("t-1/00000000000000000000.log")
    directory.delete_log("t", 1, unique_suffix="x")
    append(under_test.create(partition=1, topic_id=OTHER_ID), 1)


@pytest.mark.parametrize("change", ["damage", "remove"])
def test_a_lost_topic_id_is_taken_from_the_metadata(change: str) -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 5)
    path = "root/t-0/partition.metadata"
    under_test.disk.crash()
    if change == "damage":
        under_test.disk.flip_bit(path, 60)
    else:
        under_test.disk.remove(path)
    directory = under_test.open(topic_id=ID)
    assert values_by_offset(directory.logs["t", 0]) == all_of(5)
    assert under_test.kill().topic_ids == {("t", 0): ID}


def test_a_lost_topic_id_can_be_supplied_later() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 5)
    under_test.disk.crash()
    under_test.disk.flip_bit("root/t-0/partition.metadata", 60)
    directory = under_test.open()
    directory.claim_offline("t", 0, ID)
    directory.claim_offline("t", 0, OTHER_ID)  # it has one by now
    directory.claim_offline("t", 1, ID)  # there is no such partition
    assert directory.topic_ids == {("t", 0): ID}
    log = directory.reopen_log("t", 0, CONFIG, now_ms=NOW_MS)
    assert values_by_offset(log) == all_of(5)
    assert directory.offline == {}
    assert under_test.kill().topic_ids == {("t", 0): ID}


def test_a_partition_of_another_owner_or_that_cannot_be_written_is_not_claimed() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(), 5)
    append(under_test.create(partition=1), 5)
    under_test.disk.rename("root/t-1", "root/t-7")
    under_test.disk.crash()
    under_test.disk.flip_bit("root/t-0/partition.metadata", 60)
    directory = under_test.open()
    under_test.disk.fail("pwritev")
    directory.claim_offline("t", 0, ID)
    directory.claim_offline("t", 7, ID)
    assert directory.topic_ids == {}
    assert set(directory.offline) == {("t", 0), ("t", 7)}


def test_a_partition_in_the_wrong_place_is_offline() -> None:
    under_test = DirectoryUnderTest()
    append(under_test.create(partition=1), 5)
    under_test.disk.rename("root/t-1", "root/t-7")
    directory = under_test.kill()
    assert "holds t-1; rename it back" in str(directory.offline["t", 7])


def test_an_unreadable_partition_is_offline_and_can_be_opened_later() -> None:
    under_test = DirectoryUnderTest()
    log = under_test.create()
    append(log, 10)
    log.advance_log_start_offset(4)
    log.flush()
    under_test.directory.prepare_checkpoint().run()
    under_test.disk.crash()
    under_test.disk.fail("open", "t-0/0000")
    directory = under_test.open()
    assert set(directory.offline) == {("t", 0)}
    with pytest.raises(StorageError):
        under_test.create()
    # Checkpoints written in the meantime keep its offsets.
    directory.prepare_checkpoint().run()
    under_test.disk.crash()
    under_test.disk.fail("open", "t-0/0000")
    directory = under_test.open()
    under_test.disk.heal()
    log = directory.reopen_log("t", 0, CONFIG, now_ms=NOW_MS)
    assert (log.log_start_offset, log.recovery_point) == (4, 10)
    assert directory.offline == {}
    assert directory.logs["t", 0] is log
    directory.prepare_checkpoint().run()
    assert under_test.kill().logs["t", 0].log_start_offset == 4


def test_a_partition_that_was_never_finished_is_removed() -> None:
    under_test = DirectoryUnderTest()
    under_test.create()
    under_test.disk.remove("root/t-0/partition.metadata")
    under_test.disk.make_directory("root/t-1")
    directory = under_test.kill()
    assert directory.logs == {}
    assert directory.offline == {}
    assert not under_test.disk.exists("root/t-0")


def test_other_names_are_left_alone() -> None:
    under_test = DirectoryUnderTest()
    for name in ("notes", "t-x", "-1", "x-"):
        under_test.disk.make_directory(f"root/{name}")
    directory = under_test.kill()
    assert directory.logs == {}
    assert directory.offline == {}
    assert under_test.disk.exists("root/t-x")
