"""Too many open files: make room and try again; the disk is fine, logs stay online."""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.storage.disk import DiskFile, FileCache, RealDisk
from minikafka.storage.errors import StorageError
from tests.storage.batches import LogUnderTest, value_at, values_by_offset


def fail_times(count: int, real: Callable[..., object], code: int) -> Callable[..., object]:
    left = count

    def call(*args: object, **kwargs: object) -> object:
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError(code, "on purpose")
        return real(*args, **kwargs)

    return call


@pytest.mark.parametrize("function", ["open", "listdir"])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_unreferenced_files_are_closed_to_make_room(
    function: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()
    files = FileCache(disk)
    disk.make_room = files.make_room
    files.open(str(tmp_path / "a"), create=True)
    monkeypatch.setattr(os, function, fail_times(1, getattr(os, function), code))
    if function == "open":
        disk.open(str(tmp_path / "a")).close()
    else:
        assert disk.list_directory(str(tmp_path)) == ["a"]
    assert len(files) == 0


@pytest.mark.parametrize("function", ["open", "listdir"])
@pytest.mark.parametrize(("times", "code"), [(2, errno.EMFILE), (1, errno.EACCES)])
def test_the_second_failure_and_any_other_are_raised(
    function: str, times: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()
    monkeypatch.setattr(os, function, fail_times(times, getattr(os, function), code))
    call = disk.lock if function == "open" else disk.list_directory
    with pytest.raises(OSError, match="on purpose") as caught:
        call(str(tmp_path / "a"))
    assert caught.value.errno == code


def test_two_threads_may_make_room_at_the_same_time(tmp_path: Path) -> None:
    class Emptied(OrderedDict[str, DiskFile]):
        def popitem(self, last: bool = True) -> tuple[str, DiskFile]:
            self.clear()
            return super().popitem(last)

    files = FileCache(RealDisk(), 1)
    files._files = Emptied()
    for name in "ab":
        assert files.open(str(tmp_path / name), create=True).size() == 0
    assert len(files) == 0


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_log_stays_online(code: int, caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest()
    under_test.append_many(3)
    log = under_test.restart()
    under_test.log.files.make_room()
    under_test.disk.fail("open", code=code)
    for call in (
        lambda: log.read(0, size_bytes_max=1, upper_bound_offset=3),
        lambda: log.offset_for_timestamp(0),
        lambda: under_test.append_many(1),
    ):
        with pytest.raises(StorageError, match="raise the limit of open files"):
            call()
    assert "raise the limit of open files" in caplog.text
    under_test.disk.heal()
    assert log.is_offline is None
    under_test.append_many(1)
    assert values_by_offset(log) == {i: value_at(i) for i in range(4)}
