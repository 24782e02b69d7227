"""The sparse indexes against lists, in memory, on disk and across both."""

from bisect import bisect_right
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.disk import FileCache
from minikafka.storage.index import (
    NO_TIMESTAMPS,
    OFFSET_ENTRY,
    SEGMENT_START,
    DamagedIndex,
    IndexEntry,
    SparseIndex,
    TimestampEntry,
)
from minikafka.storage.memory_disk import MemoryDisk

STEM = "d/0"
PATHS = ("d/0.index", "d/0.timeindex")


def new_disk() -> MemoryDisk:
    disk = MemoryDisk(Random(1))
    disk.make_directory("d")
    return disk


def largest_at(entry: IndexEntry) -> TimestampEntry:
    """Timestamps that rise with every entry."""
    return TimestampEntry(5000 + entry.relative_offset, entry.relative_offset)


def index_of(disk: MemoryDisk, count: int) -> tuple[SparseIndex, list[IndexEntry]]:
    index = SparseIndex(FileCache(disk), STEM)
    entries = [IndexEntry(10 + i * 10, 1000 + i * 100) for i in range(count)]
    for entry in entries:
        index.add(entry, largest_at(entry))
    return index, entries


steps = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(1, 10_000), st.integers(0, 2)), max_size=700
)


@given(steps=steps, write_at=st.sets(st.integers(0, 700), max_size=5), seed=st.integers(0, 1000))
def test_lookups_against_a_list(
    steps: list[tuple[int, int, int]], write_at: set[int], seed: int
) -> None:
    index = SparseIndex(FileCache(new_disk(), 2), STEM)
    entries, times = [SEGMENT_START], [NO_TIMESTAMPS]
    for number, (offset_step, position_step, timestamp_step) in enumerate(steps):
        last = entries[-1]
        entry = IndexEntry(last.relative_offset + offset_step, last.position + position_step)
        entries.append(entry)
        if timestamp_step:
            timestamp = times[-1].timestamp + timestamp_step
            times.append(TimestampEntry(timestamp, entry.relative_offset))
        index.add(entry, times[-1])
        if number in write_at:
            index.write_tail()
    assert index.entry_count == len(steps)
    assert (list(index.entries()), list(index.timestamps())) == (entries[1:], times[1:])
    assert (index.last_entry(), index.last_timestamp()) == (entries[-1], times[-1])
    dice = Random(seed)
    lookups: list[tuple[Callable[[int], Any], list[Any], int]] = [
        (index.lookup_offset, entries, 0),
        (index.lookup_position, entries, 1),
        (index.lookup_timestamp, times, 0),
    ]
    for lookup, listed, column in lookups:
        values = [entry[column] for entry in listed]
        for bound in [*(dice.choice(values) + dice.randrange(-2, 3) for _ in range(10)), 10**9]:
            assert lookup(bound) == listed[max(bisect_right(values, bound) - 1, 0)]


@given(count=st.integers(0, 300), write=st.booleans(), cut=st.integers(0, 300))
def test_truncation_against_a_list(count: int, write: bool, cut: int) -> None:
    index, entries = index_of(new_disk(), count)
    if write:
        index.write_tail()
    first_cut = IndexEntry(5 + cut * 10, 1000 + cut * 100)
    index.truncate(first_cut.position, first_cut.relative_offset)
    kept = [entry for entry in entries if entry.position < first_cut.position]
    assert list(index.entries()) == kept
    assert list(index.timestamps()) == [largest_at(entry) for entry in kept]
    last = IndexEntry(10**6, 10**6)
    index.add(last, largest_at(last))
    assert (index.last_entry(), index.last_timestamp()) == (last, largest_at(last))


def test_empty_indexes_have_no_files() -> None:
    disk = new_disk()
    index = SparseIndex(FileCache(disk), STEM)
    assert index.lookup_offset(10**9) == SEGMENT_START
    index.close(TimestampEntry(5, 5))
    assert index.written_paths() == ()
    assert disk.paths() == []


def test_written_entries_are_found_by_the_next_process() -> None:
    disk = new_disk()
    index, entries = index_of(disk, 300)
    index.write_tail()
    again = SparseIndex(FileCache(disk), STEM)
    assert list(again.entries()) == entries
    assert again.written_paths() == PATHS
    assert again.flaw() == ""


def test_entries_are_in_kafkas_format() -> None:
    disk = new_disk()
    index, _ = index_of(disk, 2)
    index.close(TimestampEntry(2**41, 25))
    contents = [disk.read_file(path, size_bytes_max=100).hex() for path in PATHS]
    assert contents == [
        "0000000a000003e8000000140000044c",
        "00000000000013920000000a000000000000139c00000014000002000000000000000019",
    ]


def test_without_timestamps_the_time_index_is_empty() -> None:
    disk = new_disk()
    index = SparseIndex(FileCache(disk), STEM)
    index.add(IndexEntry(10, 1000), NO_TIMESTAMPS)
    index.close(NO_TIMESTAMPS)
    assert [disk.file_size(path) for path in PATHS] == [OFFSET_ENTRY.size, 0]
    assert SparseIndex(FileCache(disk), STEM).flaw() == ""


def test_it_is_full_before_the_time_index_gets_too_large() -> None:
    index, _ = index_of(new_disk(), 8)
    assert [index.is_full(size) for size in (95, 96, 107, 108)] == [True, True, True, False]


def test_entries_in_memory_are_lost_with_the_process() -> None:
    disk = new_disk()
    _, entries = index_of(disk, 100)
    again = SparseIndex(FileCache(disk), STEM)
    assert list(again.entries()) == entries[:64]
    assert again.last_timestamp() == largest_at(entries[63])


@pytest.mark.parametrize(("path", "entry_size"), [(PATHS[0], 8), (PATHS[1], 12)])
def test_a_torn_last_entry_is_a_flaw(path: str, entry_size: int) -> None:
    disk = new_disk()
    index, _ = index_of(disk, 3)
    index.write_tail()
    disk.open(path).truncate(3 * entry_size - 7)
    again = SparseIndex(FileCache(disk), STEM)
    assert again.flaw() == f"the last entry of {path} is incomplete"


@pytest.mark.parametrize("path", PATHS)
def test_one_file_without_the_other_is_a_flaw(path: str) -> None:
    disk = new_disk()
    index, _ = index_of(disk, 3)
    index.write_tail()
    disk.remove(path)
    assert SparseIndex(FileCache(disk), STEM).flaw() == f"{path} is missing"


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_shrank_is_noticed(path: str) -> None:
    disk = new_disk()
    index, _ = index_of(disk, 300)
    index.write_tail()
    disk.open(path).truncate(10)
    lookup = index.lookup_offset if path == PATHS[0] else index.lookup_timestamp
    with pytest.raises(DamagedIndex, match="ends before position"):
        lookup(10**6)


@pytest.mark.parametrize("path", PATHS)
def test_a_disk_that_fails_costs_entries_not_records(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = new_disk()
    disk.fail("pwritev", path)
    index, entries = index_of(disk, 70)
    assert "reads get slower" in caplog.text
    disk.heal()
    assert list(index.entries()) == entries[64:]
    assert index.lookup_offset(64 * 10) == SEGMENT_START
    times = [largest_at(entry) for entry in entries]
    # An entry of the offset index says that the timestamps up to there are known.
    assert list(index.timestamps()) == (times[64:] if path == PATHS[1] else times)


@pytest.mark.parametrize("count", [0, 5, 70])
def test_set_aside_and_take_back(count: int) -> None:
    index, entries = index_of(new_disk(), count)
    old = index.set_aside()
    index.add(IndexEntry(1, 1), TimestampEntry(1, 1))
    index.take_back(old)
    assert list(index.entries()) == entries
    assert list(index.timestamps()) == [largest_at(entry) for entry in entries]


def test_set_aside_and_discard() -> None:
    disk = new_disk()
    index, entries = index_of(disk, 70)
    old = index.set_aside()
    assert list(old.entries()) == entries
    assert index.entry_count == 0
    index.add(entries[0], largest_at(entries[0]))
    index.discard_tail()
    assert (index.entry_count, list(index.timestamps())) == (0, [])
    assert SparseIndex(FileCache(disk), "d/1").set_aside().entry_count == 0
    old.clear()
    assert disk.paths() == []
