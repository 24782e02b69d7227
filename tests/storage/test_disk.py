"""The real disk, the cache of open files, and the disk in memory, which behaves the same."""

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from minikafka.storage.disk import Disk, FileCache, FileSlice, RealDisk
from minikafka.storage.errors import DirectoryLocked
from minikafka.storage.memory_disk import MemoryDisk


@pytest.fixture(params=["real", "memory"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    disk = MemoryDisk(Random(1))
    disk.make_directory("root")
    return disk, "root"


def test_writes_are_read_back(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"hello ", bytearray(b"big "), memoryview(b"world")], 3)
    assert file.pread(0, 100) == b"\0\0\0hello big world"
    assert file.pread(9, 3) == b"big"
    assert file.size() == disk.file_size(f"{root}/a") == 18
    file.truncate(5)
    file.fsync()
    assert disk.read_file(f"{root}/a", size_bytes_max=100) == b"\0\0\0he"
    assert disk.read_file(f"{root}/a", size_bytes_max=4) == b"\0\0\0h"
    assert file.pread(10, 5) == b""


def test_more_buffers_than_one_system_call_takes(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    buffers = [f"{i:04d}".encode() for i in range(1500)] + [b""]
    file = disk.open(f"{root}/a", create=True)
    file.pwritev(buffers, 0)
    assert file.pread(0, 10_000) == b"".join(buffers)


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large writes may be short: the kernel returns how much it wrote."""
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real_pwrite(fd, b"abc", at))
    monkeypatch.setattr(os, "pwrite", lambda fd, view, at: real_pwrite(fd, bytes(view[:2]), at))
    file.pwritev([b"ab", b"cdefgh", b"ij"], 0)
    assert file.pread(0, 100) == b"abcdefghij"


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.pwritev([b"0123456789"], 0)
    real_pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_pread(fd, min(size, 4), at))
    assert file.pread(0, 10) == b"0123456789"
    assert file.pread(3, 100) == b"3456789"


def test_opening_a_missing_file(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/no-directory/a", create=True)
    with pytest.raises(FileNotFoundError):
        disk.list_directory(f"{root}/no-directory")
    disk.remove(f"{root}/missing")
    assert not disk.exists(f"{root}/missing")


def test_names(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.make_directory(f"{root}/x/y")
    disk.make_directory(f"{root}/x/y")
    for name in ("b", "a"):
        disk.open(f"{root}/x/y/{name}", create=True)
    assert disk.list_directory(f"{root}/x/y") == ["a", "b"]
    disk.rename(f"{root}/x/y/a", f"{root}/x/y/b")
    disk.rename(f"{root}/x/y", f"{root}/x/z")
    disk.sync_directory(f"{root}/x")
    assert disk.list_directory(f"{root}/x") == ["z"]
    assert disk.list_directory(f"{root}/x/z") == ["b"]
    disk.remove_directory(f"{root}/x/z")
    assert disk.list_directory(f"{root}/x") == []


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_as_a_whole(disk_and_root: tuple[Disk, str], sync: bool) -> None:
    disk, root = disk_and_root
    disk.replace_file(f"{root}/a", b"a long first content", sync=sync)
    disk.replace_file(f"{root}/a", b"second", sync=sync)
    assert disk.read_file(f"{root}/a", size_bytes_max=100) == b"second"
    assert disk.list_directory(root) == ["a"]


def test_a_replacement_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()
    path = str(tmp_path / "a")
    disk.replace_file(path, b"old", sync=False)

    def no_space(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "on purpose")

    monkeypatch.setattr(os, "pwritev", no_space)
    with pytest.raises(OSError, match="on purpose"):
        disk.replace_file(path, b"new", sync=False)
    assert disk.list_directory(str(tmp_path)) == ["a"]
    assert disk.read_file(path, size_bytes_max=10) == b"old"


def test_a_closed_file_refuses(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    file = disk.open(f"{root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the two disks word it differently
        file.pread(0, 1)
    assert caught.value.errno == errno.EBADF


def test_a_locked_directory_names_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = RealDisk().lock(path)
    with pytest.raises(DirectoryLocked, match=str(os.getpid())):
        RealDisk().lock(path)
    lock.release()
    lock.release()
    RealDisk().lock(path).release()


HOLD_A_LOCK = """
import sys
from minikafka.storage.disk import RealDisk
lock = RealDisk().lock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLD_A_LOCK,
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryLocked, match=str(holder.pid)):
            RealDisk().lock(path)
    finally:
        holder.kill()
        holder.communicate()
    RealDisk().lock(path).release()


def test_memory_locks(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(DirectoryLocked, match="locked by the process"):
        disk.lock(f"{root}/.lock")
    lock.release()
    disk.lock(f"{root}/.lock").release()
    assert disk.free_bytes(root) > 0


def test_times_and_descriptors(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    os.utime(tmp_path / "a", (1_000, 1_234.5))
    assert file.modified_ms() == 1_234_500
    assert os.fstat(file.fileno()).st_size == 0


# --- the cache of open files ----------------------------------------------------------------------


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_cache_keeps_few_files_open(tmp_path: Path) -> None:
    before = open_descriptors()
    files = FileCache(RealDisk(), 3)
    for number in range(20):
        files.open(str(tmp_path / str(number)), create=True)
    assert len(files) == 3
    assert open_descriptors() == before + 3
    files.forget_directory(str(tmp_path / "other"))
    assert len(files) == 3
    files.forget_directory(str(tmp_path))
    assert len(files) == 0
    assert open_descriptors() == before


def test_the_most_recently_used_file_stays_open(tmp_path: Path) -> None:
    files = FileCache(RealDisk(), 2)
    first = files.open(str(tmp_path / "1"), create=True)
    files.open(str(tmp_path / "2"), create=True)
    assert files.open(str(tmp_path / "1")) is first
    files.open(str(tmp_path / "3"), create=True)
    assert files.open(str(tmp_path / "1")) is first


def test_a_slice_outlives_eviction_and_removal(tmp_path: Path) -> None:
    files = FileCache(RealDisk(), 1)
    path = str(tmp_path / "a")
    file = files.open(path, create=True)
    file.pwritev([b"0123456789"], 0)
    file_slice = FileSlice(file, 2, 5)
    descriptor = file.fileno()
    assert descriptor is not None
    del file
    files.open(str(tmp_path / "b"), create=True)
    files.forget(path)
    RealDisk().remove(path)
    assert file_slice.read() == b"23456"
    assert os.fstat(descriptor).st_size == 10
    del file_slice
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_slice_of_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.pwritev([b"0123456789"], 0)
    file.truncate(4)
    with pytest.raises(OSError, match="5 bytes expected at position 2, 2 found"):
        FileSlice(file, 2, 5).read()


def test_a_renamed_file_is_forgotten(tmp_path: Path) -> None:
    files = FileCache(RealDisk(), 10)
    path = str(tmp_path / "a")
    files.open(path, create=True).pwritev([b"old"], 0)
    files.disk.rename(path, path + ".deleted")
    files.forget(path)
    files.forget(path)
    assert files.open(path, create=True).pread(0, 10) == b""


# --- faults of the disk in memory -----------------------------------------------------------------


def test_power_loss_keeps_synced_writes_and_perhaps_more() -> None:
    outcomes: set[bytes | None] = set()
    for seed in range(200):
        disk = MemoryDisk(Random(seed))
        disk.make_directory("d")
        file = disk.open("d/a", create=True)
        file.pwritev([b"synced"], 0)
        file.fsync()
        disk.sync_directory("d")
        file.pwritev([b"-more"], 6)
        disk.crash(power_loss=True)
        content = disk.content("d/a")
        assert content.startswith(b"synced")
        outcomes.add(content)
        with pytest.raises(OSError, match="before the crash"):
            file.pread(0, 1)
    assert {b"synced", b"synced-more"} <= outcomes


def test_power_loss_forgets_unsynced_names() -> None:
    survived: set[bool] = set()
    for seed in range(50):
        disk = MemoryDisk(Random(seed))
        disk.make_directory("d")
        disk.sync_directory("d")
        disk.open("d/a", create=True).fsync()
        disk.crash(power_loss=True)
        survived.add(disk.exists("d/a"))
    assert survived == {True, False}


def test_torn_writes_have_the_size_of_a_sector() -> None:
    torn = 0
    for seed in range(100):
        disk = MemoryDisk(Random(seed))
        disk.make_directory("d")
        file = disk.open("d/a", create=True)
        disk.sync_directory("d")
        file.fsync()
        file.pwritev([b"x" * 2000], 0)
        disk.crash(power_loss=True)
        content = disk.content("d/a")
        assert set(content) <= {0, ord("x")}
        torn += 0 < content.count(b"x") < 2000
    assert torn > 5


def test_a_full_disk_writes_what_fits() -> None:
    disk = MemoryDisk(Random(1), capacity_bytes=10)
    disk.make_directory("d")
    file = disk.open("d/a", create=True)
    with pytest.raises(OSError, match="no space") as caught:
        file.pwritev([b"0123456789abc"], 0)
    assert caught.value.errno == errno.ENOSPC
    assert disk.content("d/a") == b"0123456789"
    disk.heal()
    file.pwritev([b"abc"], 10)
    assert disk.file_size("d/a") == 13


def test_faults_hit_what_they_name() -> None:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    file = disk.open("d/a", create=True)
    other = disk.open("d/b", create=True)
    disk.fail("fsync", "/a")
    other.fsync()
    with pytest.raises(OSError, match="on purpose") as caught:
        file.fsync()
    assert caught.value.errno == errno.EIO
    disk.fail("pwritev", "/a")
    with pytest.raises(OSError, match="on purpose"):
        file.pwritev([b"abc"], 0)
    disk.heal()
    file.truncate(8)
    disk.flip_bit("d/a", 9)
    assert file.pread(1, 1) == b"\x02"
