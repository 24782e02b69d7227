"""Files that were emptied, cut, replaced or removed while the broker was stopped cleanly."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.storage.checked_file import encode_checked
from minikafka.storage.disk import RealDisk
from minikafka.storage.repair import QuarantinedRange
from tests.storage.batches import LogUnderTest, batch_of, value_at, values_by_offset
from tests.storage.directories import ID, DirectoryUnderTest, all_of, append

SECOND = "root/t-0/00000000000000000003.log"
KEY = ("t", 0)


def stopped_cleanly() -> DirectoryUnderTest:
    """Ten records in segments of three: at 0, 3, 6 and 9."""
    under_test = DirectoryUnderTest()
    append(under_test.create(), 10)
    under_test.directory.close()
    assert under_test.disk.paths(".log")[1] == SECOND
    return under_test


def without(*lost: int) -> dict[int, str]:
    return {offset: value for offset, value in all_of(10).items() if offset not in lost}


def empty(under_test: DirectoryUnderTest) -> None:
    under_test.disk.open(SECOND).truncate(0)


def cut(under_test: DirectoryUnderTest) -> None:
    """At the end of a batch, so that what is left is intact."""
    under_test.disk.open(SECOND).truncate(len(batch_of(value_at(0))))


def remove(under_test: DirectoryUnderTest) -> None:
    under_test.disk.remove(SECOND)


@pytest.mark.parametrize(
    ("damage", "first_lost", "reported"),
    [
        (empty, 3, f"{SECOND} has 0 bytes"),
        (cut, 4, f"{SECOND} has "),
        (remove, 3, f"{SECOND} is missing"),
    ],
)
def test_a_segment_that_is_not_as_it_was_left_is_damage(
    damage: Callable[[DirectoryUnderTest], None],
    first_lost: int,
    reported: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    under_test = stopped_cleanly()
    damage(under_test)
    directory = under_test.open()
    log = directory.logs[KEY]
    assert log.quarantined == (QuarantinedRange(first_lost, 6),)
    assert values_by_offset(log) == without(*range(first_lost, 6))
    assert reported in caplog.text
    assert not directory.was_clean_shutdown, "a replica that lost records did not stop cleanly"


def test_a_last_segment_that_was_emptied_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    under_test = stopped_cleanly()
    last = under_test.disk.paths(".log")[-1]
    under_test.disk.open(last).truncate(0)
    log = under_test.open().logs[KEY]
    assert (log.log_end_offset, log.expected_end_offset) == (9, 10)
    assert f"{last} has 0 bytes" in caplog.text


def test_a_segment_that_was_put_back_is_whole_again() -> None:
    under_test = stopped_cleanly()
    content = under_test.disk.content(SECOND)
    empty(under_test)
    under_test.open()
    under_test.directory.close()
    file = under_test.disk.open(SECOND)
    file.truncate(0)
    file.pwritev([content], 0)
    assert values_by_offset(under_test.open().logs[KEY]) == all_of(10)


def test_an_emptied_segment_is_damage_after_an_unclean_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing notes its size, but only compaction empties segments."""
    under_test = LogUnderTest(segment_bytes=300)
    under_test.append_many(10)
    under_test.log.flush()
    under_test.disk.open(under_test.disk.paths(".log")[1]).truncate(0)
    log = under_test.kill(recovery_point=10)
    assert log.quarantined == (QuarantinedRange(3, 6),)
    assert "offsets 3 to 5 are missing" in caplog.text


def test_a_segment_that_compaction_emptied_is_intact() -> None:
    under_test = stopped_cleanly()
    log = under_test.open().logs[KEY]
    log.first_dirty_offset = 10
    log.segments[1].size_bytes = 0
    under_test.disk.open(SECOND).truncate(0)
    under_test.directory.close()
    reopened = under_test.open()
    assert reopened.logs[KEY].quarantined == ()
    assert reopened.was_clean_shutdown


def test_a_clean_marker_without_sizes_is_believed() -> None:
    """Earlier versions wrote no sizes."""
    under_test = stopped_cleanly()
    under_test.disk.remove("root/segment-sizes")
    under_test.disk.replace_file("root/clean-shutdown", b"clean\n", sync=True)
    directory = under_test.open()
    assert directory.was_clean_shutdown
    assert values_by_offset(directory.logs[KEY]) == all_of(10)


def of_another_stop(under_test: DirectoryUnderTest) -> None:
    stale = encode_checked("segment-sizes", [[ID, 0, [0, 77]]])
    under_test.disk.replace_file("root/segment-sizes", stale, sync=True)


def damaged(under_test: DirectoryUnderTest) -> None:
    under_test.disk.flip_bit("root/segment-sizes", 99)


@pytest.mark.parametrize("change", [of_another_stop, damaged])
def test_sizes_that_cannot_be_those_of_the_last_stop_are_not_used(
    change: Callable[[DirectoryUnderTest], None], caplog: pytest.LogCaptureFixture
) -> None:
    under_test = stopped_cleanly()
    change(under_test)
    directory = under_test.open()
    assert directory.was_clean_shutdown
    assert values_by_offset(directory.logs[KEY]) == all_of(10)
    assert "sizes of segments cannot be checked: root/segment-sizes" in caplog.text
    assert "ERROR" not in caplog.text


# --- what is no file ------------------------------------------------------------------------------


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_fifo, link_to_a_device, make_directory])
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A FIFO would be waited for, and a device read without end."""
    path = tmp_path / "meta"
    make(path)
    disk = RealDisk()
    for use in (
        lambda: disk.open(str(path)),
        lambda: disk.open(str(path), create=True),
        lambda: disk.read_file(str(path), size_bytes_max=10),
        lambda: disk.file_size(str(path)),
        lambda: disk.lock(str(path)),
    ):
        with pytest.raises(OSError, match=str(path)):
            use()
