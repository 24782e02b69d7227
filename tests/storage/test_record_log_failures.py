"""The record log on a disk that fails: what may go on, what may not, and what is kept."""

from random import Random

import pytest

from minikafka.storage.record_log import RecordLog
from tests.storage.memory_disk import MemoryDisk

PATH = "d/metadata.log"


def new_disk(capacity_bytes: int | None = None) -> MemoryDisk:
    disk = MemoryDisk(Random(1), capacity_bytes=capacity_bytes)
    disk.make_directory("d")
    return disk


def records_of(disk: MemoryDisk) -> list[bytes]:
    return list(RecordLog.open(disk, PATH).records())


@pytest.mark.parametrize("sync", [True, False])
def test_on_a_full_disk_nothing_is_appended_and_with_room_it_goes_on(sync: bool) -> None:
    disk = new_disk(capacity_bytes=200)
    log = RecordLog.open(disk, PATH)
    log.append([b"first"], sync=sync)
    with pytest.raises(OSError, match="no space"):
        log.append([b"x" * 500], sync=sync)
    assert log.is_usable
    assert log.append([b"second"], sync=sync) == 1
    assert list(log.records()) == [b"first", b"second"]
    disk.crash()
    assert records_of(disk) == [b"first", b"second"]


@pytest.mark.parametrize("operation", ["fsync", "truncate"])
def test_when_nobody_knows_what_is_in_the_file_it_is_unusable(operation: str) -> None:
    disk = new_disk(capacity_bytes=200)
    log = RecordLog.open(disk, PATH)
    log.append([b"first"])
    disk.fail(operation, PATH)
    with pytest.raises(OSError, match=r"no space|on purpose"):
        log.append([b"x" * (500 if operation == "truncate" else 5)])
    assert not log.is_usable


@pytest.mark.parametrize("operation", ["create", "fsync", "rename", "sync_directory"])
def test_a_snapshot_that_fails_leaves_a_log_that_goes_on(operation: str) -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"a", b"b"])
    failures = iter([True])

    def once(current: str, _path: str) -> int | None:
        return 5 if current == operation and next(failures, False) else None

    disk.fault = once
    with pytest.raises(OSError, match="on purpose"):
        log.replace([b"ab"], first_index=1)
    assert log.is_usable
    log.append([b"c"])
    before = list(log.records())
    assert before in ([b"a", b"b", b"c"], [b"ab", b"c"])
    disk.crash(power_loss=True)
    assert records_of(disk) == before


def test_what_is_cut_off_is_kept_beside_it() -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    assert log.may_have_lost
    log.append([b"first"])
    size_bytes = disk.file_size(PATH)
    log.append([b"second"])
    assert not RecordLog.open(disk, PATH).may_have_lost
    damaged = disk.content(PATH)[size_bytes:]
    disk.flip_bit(PATH, 8 * (disk.file_size(PATH) - 1))
    reopened = RecordLog.open(disk, PATH)
    assert reopened.may_have_lost
    assert list(reopened.records()) == [b"first"]
    kept = disk.content(f"{PATH}.cut-at-{size_bytes}")
    assert len(kept) == len(damaged)
    assert kept[:-1] == damaged[:-1]
