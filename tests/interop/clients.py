"""One interface to three clients: produce records to a partition, and read them back.

Tests that are about one client's own behaviour use that client directly; this is for tests that
want the same of all of them.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import confluent_kafka

from tests.kit.waiting import SECONDS_MAX, work_until

with warnings.catch_warnings():
    # kafka-python reads its schemas at import with functions that Python 3.11 deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

import aiokafka

__all__ = [
    "AIOKAFKA",
    "CLIENTS",
    "CODECS",
    "CONFLUENT",
    "KAFKA_PYTHON",
    "CooperativeStickyAssignor",
    "Outgoing",
    "RangePartitionAssignor",
    "Received",
    "aiokafka",
    "confluent_kafka",
    "consume",
    "kafka",
    "produce",
    "run_async",
]

CONFLUENT, KAFKA_PYTHON, AIOKAFKA = CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_T = TypeVar("_T")
_Headers = tuple[tuple[str, bytes | None], ...]


class Outgoing(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: _Headers = ()
    timestamp_ms: int = 1_700_000_000_000


class Received(NamedTuple):
    """A record as a consumer saw it; ``is_append_time``: the broker chose the timestamp."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: _Headers
    timestamp_ms: int
    is_append_time: bool

    @property
    def sent(self) -> Outgoing:
        """The same record as its producer would describe it."""
        return Outgoing(self.value, self.key, self.headers, self.timestamp_ms)


def run_async(main: Coroutine[Any, Any, _T]) -> _T:
    """Run asyncio code for as long as a test may take."""
    return asyncio.run(_bounded(main))


async def _bounded(main: Coroutine[Any, Any, _T]) -> _T:
    async with asyncio.timeout(SECONDS_MAX):
        return await main


def produce(
    client: str, address: str, topic: str, records: Sequence[Outgoing], codec: str = "none"
) -> None:
    """Produce to partition 0 with acks=all, and wait until all are acknowledged."""
    _PRODUCE[client](address, topic, records, codec)


def consume(client: str, address: str, topic: str, count: int) -> list[Received]:
    """Read partition 0 from its beginning, without a group, until there are ``count`` records."""
    received = _CONSUME[client](address, topic, count)
    assert len(received) == count
    return received


# --- confluent-kafka -----------------------------------------------------------------------------


def _produce_with_confluent(
    address: str, topic: str, records: Sequence[Outgoing], codec: str
) -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 5_000}
    )
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert not failures


def _consume_with_confluent(address: str, topic: str, count: int) -> list[Received]:
    received: list[Received] = []
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    )

    def poll() -> None:
        for message in consumer.consume(count, 1.0):
            assert message.error() is None, message.error()
            kind, timestamp_ms = message.timestamp()
            offset = message.offset()
            assert offset is not None
            received.append(
                Received(
                    offset,
                    message.value(),
                    message.key(),
                    tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
                    timestamp_ms,
                    kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
                )
            )

    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        work_until(lambda: len(received) >= count, poll, what=f"{count} records")
    finally:
        consumer.close()
    return received


# --- kafka-python --------------------------------------------------------------------------------


def _produce_with_kafka_python(
    address: str, topic: str, records: Sequence[Outgoing], codec: str
) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=50,
    )
    try:
        futures = [
            producer.send(
                topic, record.value, record.key, list(record.headers), 0, record.timestamp_ms
            )
            for record in records
        ]
        for future in futures:
            future.get(SECONDS_MAX)
    finally:
        producer.close()


def _consume_with_kafka_python(address: str, topic: str, count: int) -> list[Received]:
    received: list[Received] = []
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
    )

    def poll() -> None:
        for found in consumer.poll(timeout_ms=1000).values():
            received.extend(map(_received, found))

    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        work_until(lambda: len(received) >= count, poll, what=f"{count} records")
    finally:
        consumer.close()
    return received


def _received(record: Any) -> Received:
    """A record of kafka-python or aiokafka, which name its parts alike."""
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type == 1,
    )


# --- aiokafka ------------------------------------------------------------------------------------


def _produce_with_aiokafka(
    address: str, topic: str, records: Sequence[Outgoing], codec: str
) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            acks="all",
            linger_ms=50,
        )
        await producer.start()
        try:
            deliveries = [
                await producer.send(
                    topic, record.value, record.key, 0, record.timestamp_ms, list(record.headers)
                )
                for record in records
            ]
            await asyncio.gather(*deliveries)
        finally:
            await producer.stop()

    run_async(main())


def _consume_with_aiokafka(address: str, topic: str, count: int) -> list[Received]:
    async def main() -> list[Received]:
        received: list[Received] = []
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            while len(received) < count:
                for found in (await consumer.getmany(timeout_ms=1000)).values():
                    received.extend(map(_received, found))
        finally:
            await consumer.stop()
        return received

    return run_async(main())


_PRODUCE: dict[str, Callable[[str, str, Sequence[Outgoing], str], None]] = {
    CONFLUENT: _produce_with_confluent,
    KAFKA_PYTHON: _produce_with_kafka_python,
    AIOKAFKA: _produce_with_aiokafka,
}
_CONSUME: dict[str, Callable[[str, str, int], list[Received]]] = {
    CONFLUENT: _consume_with_confluent,
    KAFKA_PYTHON: _consume_with_kafka_python,
    AIOKAFKA: _consume_with_aiokafka,
}
