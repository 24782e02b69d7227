"""What a group has committed, and records that are read so far."""

from __future__ import annotations

from collections.abc import AsyncIterator

from minikafka_client import AdminClient, ConsumerRecord


async def committed(bootstrap: str, group_id: str) -> dict[int, int]:
    """The committed offset of each partition of a group that reads one topic."""
    async with AdminClient(bootstrap) as admin:
        found = await admin.list_group_offsets(group_id)
    return {partition.partition: each.offset for partition, each in found.items()}


async def take(records: AsyncIterator[ConsumerRecord], count: int) -> list[int]:
    return [(await anext(records)).offset for _ in range(count)]
