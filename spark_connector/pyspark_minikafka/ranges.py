"""Divides ranges of offsets among tasks.

A task costs Spark about 50 ms, whatever it does. So a large partition may be split, and small ones
share a task, unless their records are large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from minikafka_client.types import TopicPartition

GUESSED_RECORD_SIZE_BYTES: Final = 1024


class OffsetRange(NamedTuple):
    """Offsets of a partition from ``start`` to ``end``, exclusive.

    ``record_size_bytes`` is an estimate for all of its records.
    """

    partition: TopicPartition
    start: int
    end: int
    record_size_bytes: int = GUESSED_RECORD_SIZE_BYTES

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start

    @property
    def cost(self) -> int:
        """The number of offsets, or of KiB if these are more: reading either takes as long."""
        return max(self.size, self.size * self.record_size_bytes // GUESSED_RECORD_SIZE_BYTES)


def between(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """The non-empty ranges between two offsets of each partition."""
    return [
        OffsetRange(partition, starts[partition], end)
        for partition, end in sorted(ends.items())
        if starts[partition] < end
    ]


def plan_tasks(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None,
    max_records_per_partition: int | None,
    min_records_per_task: int,
) -> list[tuple[OffsetRange, ...]]:
    """Assign ranges to tasks.

    Args:
        ranges: all that is to be read.
        min_partitions: the least number of tasks, if there are as many offsets.
        max_records_per_partition: the most offsets of a task.
        min_records_per_task: ranges that cost less share a task, if the other two allow it.
    """
    pieces = list(ranges)
    if max_records_per_partition is not None:
        pieces = [
            part
            for each in pieces
            for part in _cut(each, -(-each.size // max_records_per_partition))
        ]
    if min_partitions is not None:
        pieces = _cut_to(pieces, min_partitions)
    return _joined(pieces, min_partitions or 1, max_records_per_partition, min_records_per_task)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Equal parts, none of them empty."""
    count = max(1, min(count, whole.size))
    bounds = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(bounds)]


def _cut_to(pieces: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Split the largest pieces, in proportion to their size, until there are as many as wanted."""
    if len(pieces) >= wanted:
        return pieces
    counts = dict.fromkeys(range(len(pieces)), 1)
    total = sum(each.size for each in pieces)
    rest = wanted
    # A piece smaller than a fair share stays whole, which leaves more for the others.
    for index in sorted(counts, key=lambda index: pieces[index].size):
        share = pieces[index].size * rest / total if total else 1
        counts[index] = max(1, round(share))
        rest -= counts[index]
        total -= pieces[index].size
    return [part for index, each in enumerate(pieces) for part in _cut(each, counts[index])]


def _joined(
    pieces: list[OffsetRange], tasks_min: int, size_max: int | None, cost_wanted: int
) -> list[tuple[OffsetRange, ...]]:
    """Let small pieces share tasks."""
    tasks: list[tuple[OffsetRange, ...]] = []
    small: list[OffsetRange] = []
    joined_size = joined_cost = 0
    spare = len(pieces) - tasks_min  # each piece that joins others saves a task
    for piece in pieces:
        if piece.cost >= cost_wanted:
            tasks.append((piece,))
            continue
        is_too_much = size_max is not None and joined_size + piece.size > size_max
        if small and (spare <= 0 or is_too_much or joined_cost >= cost_wanted):
            tasks.append(tuple(small))
            small, joined_size, joined_cost = [], 0, 0
        elif small:
            spare -= 1
        _append(small, piece)
        joined_size += piece.size
        joined_cost += piece.cost
    if small:
        tasks.append(tuple(small))
    return tasks


def _append(pieces: list[OffsetRange], piece: OffsetRange) -> None:
    """Add a piece; adjacent ones are merged, because a task reads a partition once."""
    before = pieces[-1] if pieces else None
    if before is not None and before.partition == piece.partition and before.end == piece.start:
        pieces[-1] = before._replace(end=piece.end)
    else:
        pieces.append(piece)
