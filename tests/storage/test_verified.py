"""Which bytes are known to be intact, against a set."""

from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.verified import RANGES_MAX, VerifiedRanges

pairs = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(st.lists(pairs, max_size=RANGES_MAX), st.lists(pairs), st.integers(0, 60))
def test_ranges_against_a_set(
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
    for number in range(RANGES_MAX + 1):
        verified.add(number * 100, number * 100 + (3 if number == 5 else 10))
    assert len(verified.ranges) == RANGES_MAX
    assert not verified.covers(500, 503)
    assert verified.covers(600, 610)
