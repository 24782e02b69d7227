"""Topics of the live tests: made, filled and read."""

from __future__ import annotations

from collections.abc import Callable

from minikafka_client import (
    AdminClient,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    TopicPartition,
)

NewName = Callable[[], str]


async def new_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Make a topic; ``max_message_bytes`` stands for ``max.message.bytes``."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with AdminClient(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions, configs=settings)])
    return name


async def fill_topic(bootstrap: str, topic: str, partition: int, count: int) -> None:
    """Append records whose values are their offsets, their timestamps 1,000 more."""
    async with Producer(bootstrap) as producer:
        for number in range(count):
            await producer.send(
                topic, b"%d" % number, partition=partition, timestamp_ms=1_000 + number
            )


async def read_all(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """Every record of a topic, by partition and offset."""
    records: list[ConsumerRecord] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        where = [TopicPartition(topic, p) for p in await consumer.partitions_for(topic)]
        ends = await consumer.end_offsets(where)
        await consumer.assign(where)
        while len(records) < sum(ends.values()):
            records += await consumer.poll()
    return sorted(records, key=lambda record: (record.partition, record.offset))
