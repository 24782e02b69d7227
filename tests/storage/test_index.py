"""The sparse index against a list, in memory, on disk and across both; damage is noticed."""

from bisect import bisect_right
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.disk import FileCache
from minikafka.storage.index import (
    ENTRY_SIZE_BYTES,
    SEGMENT_START,
    DamagedIndex,
    IndexEntry,
    SparseIndex,
)
from minikafka.testing.simulation.disk import MemoryDisk

PATH = "d/0.index"


def new_disk() -> MemoryDisk:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    return disk


def index_of(disk: MemoryDisk, count: int) -> tuple[SparseIndex, list[IndexEntry]]:
    index = SparseIndex(FileCache(disk), PATH)
    entries = [IndexEntry(10 + i * 10, 1000 + i * 100, 5000 + i) for i in range(count)]
    for entry in entries:
        index.add(entry)
    return index, entries


steps = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(1, 10_000), st.integers(0, 100)), max_size=700
)


@given(steps=steps, write_at=st.sets(st.integers(0, 700), max_size=5), seed=st.integers(0, 1000))
def test_lookups_against_a_list(
    steps: list[tuple[int, int, int]], write_at: set[int], seed: int
) -> None:
    index = SparseIndex(FileCache(new_disk(), 2), PATH)
    entries = [SEGMENT_START]
    for number, (offset_step, position_step, timestamp_step) in enumerate(steps):
        last = entries[-1]
        entry = IndexEntry(
            last.relative_offset + offset_step,
            last.position + position_step,
            last.max_timestamp_before + timestamp_step,
        )
        index.add(entry)
        entries.append(entry)
        if number in write_at:
            index.write_tail()
    assert index.entry_count == len(steps)
    assert list(index.entries()) == entries[1:]
    assert index.last_entry() == entries[-1]
    dice = Random(seed)
    for column in range(3):
        values = [entry[column] for entry in entries]
        bounds = [dice.choice(values) + dice.randrange(-2, 3) for _ in range(10)]
        for bound in [*bounds, values[-1] + 5]:
            at_or_below = max(bisect_right(values, bound) - 1, 0)
            if column == 0:
                assert index.lookup_offset(bound) == entries[at_or_below]
            elif column == 1:
                assert index.lookup_position(bound) == entries[at_or_below]
            else:
                assert index.lookup_timestamp(bound + 1) == entries[at_or_below]


@given(count=st.integers(0, 300), write=st.booleans(), cut=st.integers(0, 40_000))
def test_truncation_against_a_list(count: int, write: bool, cut: int) -> None:
    index, entries = index_of(new_disk(), count)
    if write:
        index.write_tail()
    index.truncate(cut)
    kept = [entry for entry in entries if entry.position < cut]
    assert list(index.entries()) == kept
    assert index.entry_count == len(kept)
    index.add(IndexEntry(10**6, 10**6, 10**6))
    assert index.last_entry() == IndexEntry(10**6, 10**6, 10**6)


def test_an_empty_index_has_no_file() -> None:
    disk = new_disk()
    index = SparseIndex(FileCache(disk), PATH)
    assert index.lookup_offset(10**9) == SEGMENT_START
    index.write_tail()
    assert index.written_file() is None
    assert disk.paths() == []


def test_written_entries_are_found_by_the_next_process() -> None:
    disk = new_disk()
    index, entries = index_of(disk, 300)
    index.write_tail()
    again = SparseIndex(FileCache(disk), PATH)
    assert list(again.entries()) == entries
    assert again.written_file() is not None


def test_entries_in_memory_are_lost_with_the_process() -> None:
    disk = new_disk()
    _, entries = index_of(disk, 100)
    again = SparseIndex(FileCache(disk), PATH)
    assert list(again.entries()) == entries[:64]


def test_a_torn_last_entry_is_ignored() -> None:
    disk = new_disk()
    index, entries = index_of(disk, 3)
    index.write_tail()
    disk.open(PATH).truncate(3 * ENTRY_SIZE_BYTES - 7)
    again = SparseIndex(FileCache(disk), PATH)
    assert again.last_entry() == entries[1]


@given(bit=st.integers(0, 10 * ENTRY_SIZE_BYTES * 8 - 1), offset=st.integers(0, 200))
def test_a_damaged_entry_is_never_believed(bit: int, offset: int) -> None:
    disk = new_disk()
    index, entries = index_of(disk, 10)
    index.write_tail()
    disk.flip_bit(PATH, bit)
    again = SparseIndex(FileCache(disk), PATH)
    try:
        found = again.lookup_offset(offset)
    except DamagedIndex:
        found = SEGMENT_START
    assert found in [SEGMENT_START, *entries]
    assert found.relative_offset <= offset
    damaged = bit // 8 // ENTRY_SIZE_BYTES
    assert list(again.entries()) == entries[:damaged] + entries[damaged + 1 :]


def test_a_file_that_shrank_is_noticed() -> None:
    disk = new_disk()
    index, _ = index_of(disk, 300)
    index.write_tail()
    disk.open(PATH).truncate(10)
    with pytest.raises(DamagedIndex, match="ends before position"):
        index.lookup_offset(10**6)


def test_a_disk_that_fails_costs_entries_not_records(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    disk.fail("pwritev", PATH)
    index, entries = index_of(disk, 70)
    assert "reads get slower" in caplog.text
    disk.heal()
    assert list(index.entries()) == entries[64:]
    assert index.lookup_offset(64 * 10) == SEGMENT_START


@pytest.mark.parametrize("count", [0, 5, 70])
def test_set_aside_and_take_back(count: int) -> None:
    index, entries = index_of(new_disk(), count)
    old = index.set_aside()
    index.add(IndexEntry(1, 1, 1))
    index.take_back(old)
    assert list(index.entries()) == entries


def test_set_aside_and_discard() -> None:
    disk = new_disk()
    index, entries = index_of(disk, 70)
    old = index.set_aside()
    assert list(old.entries()) == entries
    assert index.entry_count == 0
    index.add(entries[0])
    index.discard_tail()
    assert index.entry_count == 0
    assert SparseIndex(FileCache(disk), "d/1.index").set_aside().entry_count == 0
    old.clear()
    assert disk.paths() == []
