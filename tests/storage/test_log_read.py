"""Reading: whole batches, limits, bounds, gaps, and what it costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.batch import iter_batches
from minikafka.storage import segment
from minikafka.storage.errors import OffsetOutOfRange
from minikafka.storage.segment import REMEMBERED_POSITIONS_MAX, LogRead
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, values_by_offset

MEGABYTE = 1024 * 1024


def read(
    under_test: LogUnderTest,
    offset: int,
    *,
    limit: int = MEGABYTE,
    bound: int | None = None,
    minimum: bool = True,
) -> LogRead:
    log = under_test.log
    return log.read(
        offset,
        size_bytes_max=limit,
        upper_bound_offset=log.log_end_offset if bound is None else bound,
        minimum_one_batch=minimum,
    )


def offsets_in(found: LogRead) -> list[tuple[int, int]]:
    assert found.records is not None
    content = found.records.read()
    assert len(content) == found.records.size_bytes
    return [(header.base_offset, header.last_offset) for _, header in iter_batches(content)]


@pytest.fixture(scope="module")
def three_by_ten() -> LogUnderTest:
    """Ten batches of three records in one segment."""
    under_test = LogUnderTest()
    for number in range(10):
        under_test.append(*[f"value-{number}"] * 3)
    return under_test


def test_a_read_begins_with_the_batch_that_contains_the_offset(three_by_ten: LogUnderTest) -> None:
    for offset in range(30):
        found = read(three_by_ten, offset)
        assert found.base_offset == offset - offset % 3
        assert offsets_in(found)[0] == (found.base_offset, found.base_offset + 2)
        assert found.next_offset == 30


def test_nothing_at_the_end(three_by_ten: LogUnderTest) -> None:
    assert read(three_by_ten, 30) == LogRead(None, 30, 30)


@pytest.mark.parametrize("offset", [-1, 31, 10**12])
def test_outside_the_log(three_by_ten: LogUnderTest, offset: int) -> None:
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is outside the log"):
        read(three_by_ten, offset)


def test_never_at_or_above_the_bound(three_by_ten: LogUnderTest) -> None:
    assert offsets_in(read(three_by_ten, 0, bound=6)) == [(0, 2), (3, 5)]
    assert read(three_by_ten, 0, bound=6).next_offset == 6
    assert read(three_by_ten, 6, bound=6) == LogRead(None, 6, 6)
    assert read(three_by_ten, 9, bound=6) == LogRead(None, 9, 9)


def test_a_bound_inside_a_batch_excludes_it(three_by_ten: LogUnderTest) -> None:
    """A high watermark is never there, but no record above it may be shown."""
    assert offsets_in(read(three_by_ten, 0, bound=5)) == [(0, 2)]
    assert read(three_by_ten, 4, bound=5).records is None


def test_the_limit_cuts_at_a_batch(three_by_ten: LogUnderTest) -> None:
    size_bytes = three_by_ten.log.size_bytes // 10
    found = read(three_by_ten, 3, limit=size_bytes * 3 + size_bytes // 2)
    assert offsets_in(found) == [(3, 5), (6, 8), (9, 11)]
    assert found.next_offset == 12
    found = read(three_by_ten, 3, limit=size_bytes * 3)
    assert found.next_offset == 12


def test_the_first_batch_is_returned_regardless_of_the_limit(three_by_ten: LogUnderTest) -> None:
    found = read(three_by_ten, 4, limit=1)
    assert offsets_in(found) == [(3, 5)]
    assert found.next_offset == 6
    assert read(three_by_ten, 4, limit=1, minimum=False).records is None
    assert read(three_by_ten, 4, limit=0, bound=5).records is None


def test_one_segment_at_a_time() -> None:
    under_test = LogUnderTest()
    under_test.append_many(3)
    under_test.log.roll(NOW_MS)
    under_test.append_many(2)
    assert offsets_in(read(under_test, 1)) == [(1, 1), (2, 2)]
    assert read(under_test, 1).next_offset == 3
    assert offsets_in(read(under_test, 3)) == [(3, 3), (4, 4)]


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    segment_bytes=st.sampled_from((400, 1000, 100_000)),
    interval=st.sampled_from((1, 150, 4096)),
    reads=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2000), st.integers(0, 200))),
    restart=st.booleans(),
)
def test_any_read_against_a_list(
    sizes: list[int],
    segment_bytes: int,
    interval: int,
    reads: list[tuple[int, int, int]],
    restart: bool,
) -> None:
    under_test = LogUnderTest(segment_bytes=segment_bytes, index_interval_bytes=interval)
    batches: list[tuple[int, int, int]] = []  # first, last, size
    for size in sizes:
        base = under_test.append(*["value"] * size)
        batches.append((base, base + size - 1, len(batch_of(*["value"] * size))))
    if restart:
        under_test.restart()
    end = under_test.log.log_end_offset
    for offset, limit, bound in reads:
        offset, bound = offset % (end + 1), bound % (end + 1)
        found = read(under_test, offset, limit=limit, bound=bound)
        wanted = [batch for batch in batches if batch[1] >= offset and batch[1] < bound]
        if not wanted or offset >= bound:
            assert found == LogRead(None, found.base_offset, offset)
            continue
        got = offsets_in(found)
        assert got == [(first, last) for first, last, _ in wanted[: len(got)]]
        assert found.next_offset == got[-1][1] + 1
        assert found.records is not None
        assert len(got) == 1 or found.records.size_bytes <= limit
        if len(got) < len(wanted):  # something stopped it
            next_first, _, next_size = wanted[len(got)]
            is_new_segment = any(s.base_offset == next_first for s in under_test.log.segments)
            assert is_new_segment or found.records.size_bytes + next_size > limit


def test_a_gap_is_skipped() -> None:
    under_test = LogUnderTest()
    for offset in (0, 10, 20):
        batch = batch_of("a", base_offset=offset, leader_epoch=0)
        under_test.log.append_as_follower(batch, now_ms=NOW_MS)
    assert offsets_in(read(under_test, 5)) == [(10, 10), (20, 20)]
    assert offsets_in(read(under_test, 5, bound=15)) == [(10, 10)]
    assert read(under_test, 11, bound=15).records is None


def test_a_gap_at_the_end_of_a_segment_is_skipped() -> None:
    under_test = LogUnderTest(segment_bytes=120)
    for offset in (0, 10):
        batch = batch_of("a" * 30, base_offset=offset, leader_epoch=0)
        under_test.log.append_as_follower(batch, now_ms=NOW_MS)
    assert len(under_test.log.segments) == 2
    assert offsets_in(read(under_test, 5)) == [(10, 10)]
    assert read(under_test, 5, bound=8) == LogRead(None, 5, 5)
    assert offsets_in(read(under_test, 0, bound=5)) == [(0, 0)]
    assert read(under_test, 0, bound=5).next_offset == 5
    assert values_by_offset(under_test.log) == {0: "a" * 30, 10: "a" * 30}


def test_a_sequential_reader_does_not_search() -> None:
    """It reads only the next header, anywhere in the segment."""
    under_test = LogUnderTest(index_interval_bytes=10_000_000)
    under_test.append_many(2000)
    offset = read(under_test, 1500, limit=3000).next_offset
    under_test.append_many(1)
    before = under_test.disk.pread_count
    found = read(under_test, offset)
    assert found.next_offset == 2001
    assert under_test.disk.pread_count - before <= 1
    under_test.append_many(1)
    before = under_test.disk.pread_count
    assert read(under_test, 2001).next_offset == 2002
    assert under_test.disk.pread_count - before <= 1


def test_remembered_positions_are_bounded() -> None:
    under_test = LogUnderTest()
    under_test.append_many(200)
    for offset in range(0, 200, 2):
        read(under_test, offset, limit=1)
    remembered = under_test.log.segments[0]._positions
    assert remembered is not None
    assert len(remembered) == REMEMBERED_POSITIONS_MAX


def test_a_slice_survives_everything_that_happens_to_the_log() -> None:
    under_test = LogUnderTest()
    under_test.append_many(3)
    found = read(under_test, 0)
    under_test.log.roll(NOW_MS)
    under_test.log.high_watermark = 3
    under_test.log.advance_log_start_offset(3)
    under_test.log.apply_retention(NOW_MS)
    under_test.log.delete_pending_files(NOW_MS + 10**9)
    assert under_test.names(".deleted") == []
    assert offsets_in(found) == [(0, 0), (1, 1), (2, 2)]


def test_the_high_watermark_stays_inside_the_log() -> None:
    under_test = LogUnderTest()
    under_test.append_many(3)
    log = under_test.log
    log.high_watermark = 10
    assert log.high_watermark == log.last_stable_offset == 3
    log.advance_log_start_offset(2)
    log.high_watermark = 1
    assert log.high_watermark == 2


def test_unchecked_bytes_are_read_in_small_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment, "CHECKED_AT_ONCE_SIZE_BYTES", 500)
    under_test = LogUnderTest()
    for number in range(20):
        under_test.append(f"{number:100}")
    under_test.append("x" * 1000)
    log = under_test.restart()
    size_bytes = log.size_bytes
    offset, portions = 0, 0
    while offset < log.log_end_offset:
        found = log.read(
            offset, size_bytes_max=size_bytes, upper_bound_offset=21, minimum_one_batch=False
        )
        assert found.records is not None
        assert found.records.size_bytes <= 500 or offset == 20
        offset = found.next_offset
        portions += 1
    assert portions > 6
    again = log.read(0, size_bytes_max=size_bytes, upper_bound_offset=21)
    assert again.records is not None
    assert again.records.size_bytes == size_bytes


def test_a_reader_at_the_end_of_the_log() -> None:
    under_test = LogUnderTest()
    offset = 0
    for number in range(50):
        under_test.append(f"value {number}")
        found = read(under_test, offset)
        assert offsets_in(found) == [(number, number)]
        assert (found.base_offset, found.next_offset) == (offset, number + 1)
        offset = found.next_offset
    under_test.append("a", "b")
    under_test.append("c")
    # Everything, a part, and nothing.
    assert offsets_in(read(under_test, offset, limit=100)) == [(50, 51)]
    assert offsets_in(read(under_test, offset, bound=52)) == [(50, 51)]
    assert read(under_test, 52, limit=0, minimum=False).records is None
    assert read(under_test, 52, bound=52).records is None
    assert offsets_in(read(under_test, 51)) == [(50, 51), (52, 52)]
