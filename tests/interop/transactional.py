"""The clients' transactional producers behind one face, and their read_committed consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from tests.interop.clients import (
    AIOKAFKA,
    CONFLUENT,
    KAFKA_PYTHON,
    aiokafka,
    confluent_kafka,
    kafka,
    run_async,
)

SECONDS = 30.0


class Transaction(NamedTuple):
    """What one transaction does.

    Attributes:
        values: records for partition 0 and 1 in turn.
        commits: how it ends.
        offset: what it commits for partition 0 of the topic, in a group; None for nothing.
    """

    values: Sequence[bytes]
    commits: bool
    offset: int | None = None


class Run(Protocol):
    """Does transactions one after the other: bootstrap, topic, group, transactional id."""

    def __call__(
        self, bootstrap: str, topic: str, group: str, name: str, work: Sequence[Transaction]
    ) -> None: ...


def run_confluent(
    bootstrap: str, topic: str, group: str, name: str, work: Sequence[Transaction]
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    metadata = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer.init_transactions(SECONDS)
    for one in work:
        producer.begin_transaction()
        for number, value in enumerate(one.values):
            producer.produce(topic, value, partition=number % 2)
        if one.offset is not None:
            producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(topic, 0, one.offset)],
                metadata.consumer_group_metadata(),
                SECONDS,
            )
        if one.commits:
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
    metadata.close()


def run_kafka_python(
    bootstrap: str, topic: str, group: str, name: str, work: Sequence[Transaction]
) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    for one in work:
        producer.begin_transaction()
        for number, value in enumerate(one.values):
            producer.send(topic, value, partition=number % 2)
        if one.offset is not None:
            offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(one.offset, "", -1)}
            producer.send_offsets_to_transaction(offsets, group)
        if one.commits:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    producer.close()


def run_aiokafka(
    bootstrap: str, topic: str, group: str, name: str, work: Sequence[Transaction]
) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        for one in work:
            await producer.begin_transaction()
            for number, value in enumerate(one.values):
                await producer.send_and_wait(topic, value, partition=number % 2)
            if one.offset is not None:
                offsets = {aiokafka.TopicPartition(topic, 0): one.offset}
                await producer.send_offsets_to_transaction(offsets, group)
            await (producer.commit_transaction if one.commits else producer.abort_transaction)()
        await producer.stop()

    run_async(main())


PRODUCERS: dict[str, Run] = {
    CONFLUENT: run_confluent,
    KAFKA_PYTHON: run_kafka_python,
    AIOKAFKA: run_aiokafka,
}


def read_confluent(bootstrap: str, topic: str, ends: Sequence[int]) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(len(ends))])
    values: list[bytes] = []
    left = len(ends)
    while left:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error():
            left -= 1
        else:
            values.append(message.value() or b"")
    consumer.close()
    return values


def read_kafka_python(bootstrap: str, topic: str, ends: Sequence[int]) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    partitions = [kafka.TopicPartition(topic, n) for n in range(len(ends))]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    values: list[bytes] = []
    while any(consumer.position(one) < end for one, end in zip(partitions, ends, strict=True)):
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value for record in records]
    consumer.close()
    return values


def read_aiokafka(bootstrap: str, topic: str, ends: Sequence[int]) -> list[bytes]:
    async def main() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        partitions = [aiokafka.TopicPartition(topic, n) for n in range(len(ends))]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        values: list[bytes] = []
        async with asyncio.timeout(SECONDS):
            for partition, end in zip(partitions, ends, strict=True):
                while await consumer.position(partition) < end:
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        values += [cast("bytes", record.value) for record in records]
        await consumer.stop()
        return values

    return run_async(main())


Read = Callable[[str, str, Sequence[int]], list[bytes]]
READERS: dict[str, Read] = {
    CONFLUENT: read_confluent,
    KAFKA_PYTHON: read_kafka_python,
    AIOKAFKA: read_aiokafka,
}


def committed_offset(bootstrap: str, topic: str, group: str) -> Any:
    """The group's offset for partition 0, once it is stable."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], SECONDS)
    consumer.close()
    return found.offset
