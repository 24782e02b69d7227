"""Tasks together read exactly the given ranges, in pieces of the wanted sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka_client.types import TopicPartition
from pyspark_minikafka.ranges import OffsetRange, between, plan_tasks


def span(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("t", partition), start, end)


spans = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 3000)), max_size=8).map(
    lambda sizes: [span(index, start, start + size) for index, (start, size) in enumerate(sizes)]
)


@given(
    ranges=spans,
    min_partitions=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 2000),
    min_records=st.integers(1, 2000),
)
def test_every_offset_is_in_one_task(
    ranges: list[OffsetRange],
    min_partitions: int | None,
    max_records: int | None,
    min_records: int,
) -> None:
    tasks = plan_tasks(
        ranges,
        min_partitions=min_partitions,
        max_records_per_partition=max_records,
        min_records_per_task=min_records,
    )
    pieces = sorted(piece for task in tasks for piece in task)
    assert all(piece.size > 0 for piece in pieces)
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].partition == piece.partition and joined[-1].end == piece.start:
            joined[-1] = OffsetRange(piece.partition, joined[-1].start, piece.end)
        else:
            joined.append(piece)
    assert joined == ranges
    for task in tasks:
        assert len({piece.partition for piece in task}) == len(task), "one reader, one position"
        size = sum(piece.size for piece in task)
        assert max_records is None or size <= max_records
    total = sum(each.size for each in ranges)
    if min_partitions is not None and total >= min_partitions * (len(ranges) + 1):
        # A hint, as with Spark's own connector: shares are rounded.
        assert len(tasks) >= min_partitions - len(ranges)


def test_small_partitions_share_a_task_and_large_ones_do_not() -> None:
    ranges = [span(0, 0, 40), span(1, 0, 1000), span(2, 0, 40), span(3, 5, 45), span(4, 0, 40)]
    tasks = plan_tasks(
        ranges, min_partitions=None, max_records_per_partition=None, min_records_per_task=100
    )
    assert sorted(tasks) == sorted([(ranges[1],), (ranges[0], ranges[2], ranges[3]), (ranges[4],)])


def test_ranges_of_large_records_share_a_task_only_up_to_its_size() -> None:
    ranges = [span(index, 0, 40)._replace(record_size_bytes=1024 * 1024) for index in range(4)]
    tasks = plan_tasks(
        ranges,
        min_partitions=None,
        max_records_per_partition=None,
        min_records_per_task=2 * 40 * 1024,
    )
    assert tasks == [tuple(ranges[:2]), tuple(ranges[2:])]


def test_pieces_of_a_range_keep_the_size_of_its_records() -> None:
    whole = span(0, 0, 100)._replace(record_size_bytes=5_000)
    for parts in (1, 3):
        tasks = plan_tasks(
            [whole], min_partitions=parts, max_records_per_partition=10, min_records_per_task=1
        )
        assert {piece.record_size_bytes for task in tasks for piece in task} == {5_000}


def test_sharing_keeps_the_wanted_number_of_tasks() -> None:
    ranges = [span(index, 0, 10) for index in range(4)]
    for wanted in (1, 2, 3, 4):
        tasks = plan_tasks(
            ranges, min_partitions=wanted, max_records_per_partition=None, min_records_per_task=100
        )
        assert len(tasks) == wanted


def test_a_large_partition_is_cut_more_often_than_a_small_one() -> None:
    ranges = [span(0, 0, 900), span(1, 0, 100)]
    tasks = plan_tasks(
        ranges, min_partitions=10, max_records_per_partition=None, min_records_per_task=1
    )
    assert len(tasks) == 10
    assert [len([t for t in tasks if t[0].partition.partition == p]) for p in (0, 1)] == [9, 1]


def test_empty_ranges_make_no_task() -> None:
    partition = TopicPartition("t", 0)
    assert between({partition: 7}, {partition: 7}) == []
    assert between({partition: 9}, {partition: 7}) == []
    assert between({partition: 5}, {partition: 7}) == [span(0, 5, 7)]
    assert (
        plan_tasks([], min_partitions=9, max_records_per_partition=1, min_records_per_task=1) == []
    )


def test_adjacent_pieces_are_merged_in_a_task() -> None:
    pieces = [span(0, 0, 5), span(0, 5, 9), span(1, 0, 3), span(1, 4, 5)]
    [task] = plan_tasks(
        pieces, min_partitions=None, max_records_per_partition=None, min_records_per_task=100
    )
    assert task == (span(0, 0, 9), span(1, 0, 3), span(1, 4, 5))
