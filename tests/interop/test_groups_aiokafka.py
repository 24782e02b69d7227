"""aiokafka's groups: alone, and in one group with the other clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.interop.clients import CONFLUENT, KAFKA_PYTHON, aiokafka, run_async
from tests.interop.members import Member, group_of
from tests.kit.live import JudgedBroker

pytestmark = pytest.mark.interop

PARTITIONS = 6


class AsyncMember:
    """One aiokafka consumer, and what it has read."""

    def __init__(self, bootstrap: str, topic: str, assignor: Any) -> None:
        self.values: list[bytes] = []
        self.consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor],
            session_timeout_ms=30_000,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=500,
        )

    async def poll(self) -> None:
        """Take what is there."""
        for records in (await self.consumer.getmany(timeout_ms=50)).values():
            self.values += [record.value for record in records]

    @property
    def share(self) -> int:
        """How many partitions it has."""
        return len(self.consumer.assignment())


async def poll_until_shared(members: list[AsyncMember], *sizes: int) -> None:
    """Let members work until they share the partitions in these sizes."""
    while sorted(member.share for member in members) != sorted(sizes):
        await asyncio.gather(*(member.poll() for member in members))


async def send(bootstrap: str, topic: str, prefix: str) -> set[bytes]:
    """Produce ten values to each partition."""
    sent = set()
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for partition in range(PARTITIONS):
            for number in range(10):
                value = f"{prefix}-{partition}-{number}".encode()
                await producer.send(topic, value, partition=partition)
                sent.add(value)
        await producer.flush()
    return sent


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
)
def test_each_record_is_read_once_across_rebalances(
    assignor: Any, broker: JudgedBroker, topic: str
) -> None:

    async def main() -> tuple[set[bytes], list[bytes]]:
        everyone: list[AsyncMember] = []
        members: list[AsyncMember] = []
        sent: set[bytes] = set()

        async def read_all() -> None:
            while len({value for one in everyone for value in one.values}) < len(sent):
                await asyncio.gather(*(member.poll() for member in members))

        for sizes in [(6,), (3, 3), (2, 2, 2)]:
            sent |= await send(broker.bootstrap, topic, f"before {sizes}")
            members.append(AsyncMember(broker.bootstrap, topic, assignor))
            everyone.append(members[-1])
            await members[-1].consumer.start()
            await poll_until_shared(members, *sizes)
            await read_all()
        await members.pop(0).consumer.stop()
        await poll_until_shared(members, 3, 3)
        sent |= await send(broker.bootstrap, topic, "after one left")
        await read_all()
        for member in members:
            await member.consumer.stop()
        return sent, [value for one in everyone for value in one.values]

    sent, received = run_async(main())
    assert sorted(received) == sorted(sent)


def test_the_three_clients_share_one_group(broker: JudgedBroker, topic: str) -> None:

    async def main(others: list[Member]) -> list[int]:
        member = AsyncMember(broker.bootstrap, topic, RangePartitionAssignor)
        await member.consumer.start()
        while not (member.share == 2 and all(len(one.assigned()) == 2 for one in others)):
            await member.poll()
        sent = await send(broker.bootstrap, topic, "to all")
        while not sent <= {*member.values, *(value for one in others for _, value in one.received)}:
            await member.poll()
        counts = [len(member.values), *(len(one.received) for one in others)]
        await member.consumer.stop()
        return counts

    with group_of(
        *(Member(client, broker.bootstrap, topic, [topic]) for client in (CONFLUENT, KAFKA_PYTHON))
    ) as others:
        assert run_async(main(others)) == [20, 20, 20]
