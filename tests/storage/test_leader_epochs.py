"""Epochs and where they began: KIP-101's and KIP-279's answers, cutting, the file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.checked_file import DamagedFile, encode_checked
from minikafka.storage.leader_epochs import EpochEndOffset, LeaderEpochCache

UNDEFINED = EpochEndOffset(-1, -1)


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


def test_the_newest_epoch_ends_at_the_log_end() -> None:
    cache = cache_of((2, 0), (5, 10))
    assert cache.end_offset_for(5, 17) == EpochEndOffset(5, 17)


def test_an_older_epoch_ends_where_the_next_began() -> None:
    cache = cache_of((2, 0), (5, 10), (9, 20))
    assert cache.end_offset_for(2, 30) == EpochEndOffset(2, 10)
    assert cache.end_offset_for(5, 30) == EpochEndOffset(5, 20)


def test_an_epoch_in_a_gap_is_answered_with_the_one_below() -> None:
    """KIP-279: the follower then asks again with that one."""
    cache = cache_of((2, 0), (5, 10), (9, 20))
    assert cache.end_offset_for(7, 30) == EpochEndOffset(5, 20)


def test_unknown_epochs() -> None:
    cache = cache_of((2, 3), (5, 10))
    assert cache.end_offset_for(6, 30) == UNDEFINED
    assert cache.end_offset_for(-1, 30) == UNDEFINED
    assert LeaderEpochCache().end_offset_for(0, 30) == UNDEFINED
    assert cache.end_offset_for(1, 30) == EpochEndOffset(1, 3)


def test_an_epoch_without_records_is_dropped() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 10), (4, 8))
    assert cache.entries == [(1, 0), (4, 8)]


def test_an_old_epoch_changes_nothing() -> None:
    cache = cache_of((5, 10))
    cache.is_dirty = False
    cache.assign(5, 20)
    cache.assign(4, 30)
    assert cache.entries == [(5, 10)]
    assert not cache.is_dirty


@pytest.mark.parametrize("wrong", [(-1, 0), (0, -1)])
def test_negative_values_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        LeaderEpochCache().assign(*wrong)


def test_first_and_latest() -> None:
    cache = cache_of((2, 3), (5, 10))
    assert (cache.first_epoch, cache.latest_epoch) == (2, 5)
    assert (LeaderEpochCache().first_epoch, LeaderEpochCache().latest_epoch) == (-1, -1)


def test_cutting_the_end() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 20))
    cache.is_dirty = False
    cache.truncate_from_end(21)
    assert not cache.is_dirty
    cache.truncate_from_end(20)
    assert cache.entries == [(1, 0), (2, 10)]
    assert cache.is_dirty


def test_cutting_the_beginning_keeps_the_epoch_in_which_the_log_begins() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 20))
    cache.is_dirty = False
    cache.truncate_from_start(0)
    assert not cache.is_dirty
    cache.truncate_from_start(15)
    assert cache.entries == [(2, 15), (3, 20)]
    cache.truncate_from_start(20)
    assert cache.entries == [(3, 20)]
    assert cache.is_dirty


def test_clear() -> None:
    cache = cache_of((1, 0))
    cache.is_dirty = False
    cache.clear()
    assert cache.entries == []
    assert cache.is_dirty
    cache.is_dirty = False
    cache.clear()
    assert not cache.is_dirty


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), max_size=12))
def test_against_a_list_of_the_epoch_of_each_offset(
    assignments: list[tuple[int, int]],
) -> None:
    """The entries always rise, and each offset has one epoch."""
    cache = LeaderEpochCache()
    epochs = [-1] * 101
    latest = -1
    for epoch, start in assignments:
        cache.assign(epoch, start)
        if epoch > latest:
            latest = epoch
            epochs[start:] = [epoch] * (101 - start)
    assert [cache.epoch_for(offset) for offset in range(101)] == epochs
    for epoch in range(22):
        answer = cache.end_offset_for(epoch, 101)
        if answer.leader_epoch >= 0 and answer.leader_epoch in epochs:
            assert answer.leader_epoch <= epoch
            last = max(o for o in range(101) if epochs[o] == answer.leader_epoch)
            assert answer.end_offset == last + 1
    assert LeaderEpochCache.decode(cache.encode(), path="file").entries == cache.entries


def test_a_file_with_decreasing_epochs_is_refused() -> None:
    for entries in ([[3, 0], [2, 5]], [[1, 9], [2, 5]]):
        content = encode_checked("leader-epochs", entries)
        with pytest.raises(DamagedFile, match="both have to rise"):
            LeaderEpochCache.decode(content, path="file")
