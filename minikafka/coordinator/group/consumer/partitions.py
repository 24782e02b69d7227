"""Sets of partitions by topic id."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Partitions = Mapping[bytes, frozenset[int]]
"""Partition indexes by topic id; no topic has an empty set, and nobody changes one in place."""

NOTHING: Partitions = {}


def common(left: Partitions, right: Partitions) -> dict[bytes, frozenset[int]]:
    return _without_empty({topic: left[topic] & right[topic] for topic in left if topic in right})


def without(left: Partitions, right: Partitions) -> dict[bytes, frozenset[int]]:
    return _without_empty(
        {topic: indexes - right.get(topic, frozenset()) for topic, indexes in left.items()}
    )


def union(left: Partitions, right: Partitions) -> dict[bytes, frozenset[int]]:
    both = dict(left)
    for topic, indexes in right.items():
        both[topic] = both.get(topic, frozenset()) | indexes
    return both


def only(partitions: Partitions, keep: Callable[[bytes, int], bool]) -> dict[bytes, frozenset[int]]:
    return _without_empty(
        {
            topic: frozenset(index for index in indexes if keep(topic, index))
            for topic, indexes in partitions.items()
        }
    )


def is_within(partitions: Partitions, limit: Partitions) -> bool:
    return all(indexes <= limit.get(topic, frozenset()) for topic, indexes in partitions.items())


def _without_empty(partitions: dict[bytes, frozenset[int]]) -> dict[bytes, frozenset[int]]:
    return {topic: indexes for topic, indexes in partitions.items() if indexes}
