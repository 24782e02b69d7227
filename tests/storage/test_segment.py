"""A segment: indexes that are lost or need no entries, and which bytes are known to be intact."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.scan import DamagedSegment
from minikafka.storage.segment import VERIFIED_RANGES_MAX, VerifiedRanges
from tests.storage.batches import NOW_MS, LogUnderTest, read_records

LARGE = "x" * 200_000


# --- a segment without index entries -------------------------------------------------------------


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def rebuilds(caplog: pytest.LogCaptureFixture) -> int:
    return sum("rebuilding the index" in message for message in caplog.messages)


def test_one_large_batch_needs_no_entry(caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest()
    under_test.append(LARGE)
    for _ in range(3):
        assert [record.value for record in read_records(under_test.log, 0)] == [LARGE.encode()]
        assert under_test.log.offset_for_timestamp(NOW_MS) is not None
    assert len(read_records(under_test.restart())) == 1
    assert rebuilds(caplog) == 0


def test_a_large_batch_that_begins_early_needs_no_entry(caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest()
    under_test.append("first")
    under_test.append(LARGE)
    log = under_test.restart()
    assert [record.offset for record in read_records(log, 0)] == [0, 1]
    assert read_records(log, 1)[0].value == LARGE.encode()
    assert rebuilds(caplog) == 0


def test_a_removed_index_is_rebuilt_once(caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest()
    for value in (LARGE, "second", LARGE, "fourth"):
        under_test.append(value)
    under_test.log.close()
    under_test.disk.remove(under_test.path("00000000000000000000.index"))
    log = under_test.open(recovery_point=4, segment_sizes=under_test.log.segment_sizes())
    for _ in range(3):
        assert len(read_records(log)) == 4
        assert read_records(log, 3)[0].value == b"fourth"
    assert rebuilds(caplog) == 1
    assert "00.index is missing" in caplog.text


def test_removed_indexes_are_rebuilt_once(caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest()
    for value in (LARGE, "second", LARGE, "fourth"):
        under_test.append(value)
    under_test.log.close()
    for name in under_test.names("index"):
        under_test.disk.remove(under_test.path(name))
    log = under_test.open(recovery_point=4, segment_sizes=under_test.log.segment_sizes())
    for _ in range(3):
        assert read_records(log, 3)[0].value == b"fourth"
    assert rebuilds(caplog) == 1
    assert "it is missing" in caplog.text
    assert under_test.names("index") == [f"{0:020d}.index", f"{0:020d}.timeindex"]


def test_batches_closer_than_the_interval_are_scanned_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    under_test = LogUnderTest(index_interval_bytes=1 << 30)
    for _ in range(100):
        under_test.append("y" * 1000)
    assert len(read_records(under_test.log, 50)) == 50
    assert rebuilds(caplog) == 0
    log = under_test.restart()
    for offset in (99, 1, 50):
        assert read_records(log, offset)[0].offset == offset
    assert rebuilds(caplog) == 1


def test_an_index_that_cannot_be_rebuilt_stays_for_recovery() -> None:
    """A zeroed page: after it only the index knows where batches begin."""
    under_test = LogUnderTest(index_interval_bytes=300)
    for number in range(60):
        under_test.append(f"{number:150}")
    log = under_test.restart()
    path = under_test.path("00000000000000000000.log")
    under_test.disk.open(path).pwritev([bytes(2000)], 3000)
    with pytest.raises(DamagedSegment):
        read_records(log)
    recovered = {record.offset for record in read_records(under_test.kill())}
    assert recovered >= {*range(10), *range(30, 60)}


# --- verified ranges -----------------------------------------------------------------------------

pairs = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(st.lists(pairs, max_size=VERIFIED_RANGES_MAX), st.lists(pairs), st.integers(0, 60))
def test_verified_ranges_against_a_set(
    added: list[tuple[int, int]], asked: list[tuple[int, int]], cut: int
) -> None:
    verified = VerifiedRanges()
    known: set[int] = set()
    for start, end in added:
        verified.add(start, end)
        known |= set(range(start, end))
    for start, end in asked:
        if start < end:
            assert verified.covers(start, end) == (set(range(start, end)) <= known)
    verified.cut(cut)
    for start, end in asked:
        if start < end:
            kept = {position for position in known if position < cut}
            assert verified.covers(start, end) == (set(range(start, end)) <= kept)


def test_the_smallest_range_is_forgotten_first() -> None:
    verified = VerifiedRanges()
    for number in range(VERIFIED_RANGES_MAX + 1):
        verified.add(number * 100, number * 100 + (3 if number == 5 else 10))
    assert len(verified.ranges) == VERIFIED_RANGES_MAX
    assert not verified.covers(500, 503)
    assert verified.covers(600, 610)
