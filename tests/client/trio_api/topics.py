"""Topics of the live tests: made, filled and read."""

from __future__ import annotations

from collections.abc import Callable

import minikafka_client as mk

NewName = Callable[[], str]


async def new_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Make a topic; ``max_message_bytes`` stands for ``max.message.bytes``."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with mk.AdminClient(bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(name, partitions, configs=settings)])
    return name


async def fill_topic(bootstrap: str, topic: str, partition: int, count: int) -> None:
    """Append records whose values are their offsets, their timestamps 1,000 more."""
    async with mk.Producer(bootstrap) as producer:
        for number in range(count):
            await producer.send(
                topic, b"%d" % number, partition=partition, timestamp_ms=1_000 + number
            )


async def committed(bootstrap: str, topic: str, *, is_open: bool = False) -> list[bytes]:
    """What a reader of committed records sees, by partition and offset.

    A decision is answered before it is carried out: without an open transaction, wait for that.
    """
    records: list[mk.ConsumerRecord] = []
    async with (
        mk.Consumer(bootstrap) as careless,
        mk.Consumer(
            bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        where = [mk.TopicPartition(topic, p) for p in await consumer.partitions_for(topic)]
        ends = await consumer.end_offsets(where)
        while not is_open and ends != await careless.end_offsets(where):
            ends = await consumer.end_offsets(where)
        await consumer.assign(where)
        while any([await consumer.position(each) < ends[each] for each in where]):
            records += await consumer.poll(timeout_ms=100)
    records.sort(key=lambda record: (record.partition, record.offset))
    return [record.value or b"" for record in records]


async def read_all(bootstrap: str, topic: str) -> list[mk.ConsumerRecord]:
    """Every record of a topic, by partition and offset."""
    records: list[mk.ConsumerRecord] = []
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        where = [mk.TopicPartition(topic, p) for p in await consumer.partitions_for(topic)]
        ends = await consumer.end_offsets(where)
        await consumer.assign(where)
        while len(records) < sum(ends.values()):
            records += await consumer.poll()
    return sorted(records, key=lambda record: (record.partition, record.offset))
