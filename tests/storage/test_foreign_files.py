"""Files in a partition's directory that are not the log's: they are left alone."""

import pytest

from tests.storage.batches import LogUnderTest, values_by_offset


@pytest.mark.parametrize(
    "name",
    [
        "copy of 00000000000000000000.log",
        "1.log",
        "-0000000000000000001.log",
        "00000000000000000000-00000000000000000001.log",
        "old.snapshot",
        "notes.quarantine",
        "1-2.swap",
        "00000000000000000000.swap",
        "readme.txt",
        "noextension",
    ],
)
def test_a_foreign_file_does_not_stop_recovery(name: str) -> None:
    under_test = LogUnderTest()
    under_test.append("a")
    under_test.append("b")
    under_test.disk.open(under_test.path(name), create=True).pwritev([b"not ours"], 0)
    for reopen in (under_test.kill, under_test.restart):
        log = reopen()
        assert values_by_offset(log) == {0: "a", 1: "b"}
        assert log.quarantined == ()
    assert under_test.disk.content(under_test.path(name)) == b"not ours"
