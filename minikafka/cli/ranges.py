"""Reads everything that partitions hold now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from minikafka_client import AdminClient, TopicPartition

    Ranges = dict[TopicPartition, tuple[int, int]]


async def whole_ranges(
    admin: AdminClient,
    topics: Sequence[str],
    *,
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
) -> Ranges:
    """First offset (inclusive) and end offset (exclusive) of every partition of topics."""
    from minikafka_client import EARLIEST, LATEST, TopicPartition

    described = await admin.describe_topics(topics)
    partitions = [
        TopicPartition(name, one.partition)
        for name, topic in described.items()
        for one in topic.partitions
    ]
    first = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    end = await admin.list_offsets(
        dict.fromkeys(partitions, LATEST), isolation_level=isolation_level
    )
    return {one: (first[one].offset, end[one].offset) for one in partitions}
