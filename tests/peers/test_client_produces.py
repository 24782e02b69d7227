"""Our producer, on Apache Kafka and on our broker: what it sends is what others read."""

from __future__ import annotations

import random

import pytest

from minikafka_client import AdminClient, BrokerError, Producer, ProducerRecord
from minikafka_client.producer_options import Acks, CompressionType
from tests.interop.clients import CONFLUENT, KAFKA_PYTHON, Outgoing, consume
from tests.kit.wire import MakeTopic

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]

RECORDS = [
    Outgoing(b"plain"),
    Outgoing(None, b"tombstone"),
    Outgoing(b"", b""),
    Outgoing(b"headers", b"k", (("a", b"1"), ("a", None), ("", b""))),
    Outgoing(b"z" * 100_000, b"large"),
    Outgoing(b"old", b"k", (), 1_000_000_000_000),
    *(Outgoing(b"value %d" % number, b"key %d" % (number % 7)) for number in range(500)),
]


@pytest.mark.parametrize("reader", [CONFLUENT, KAFKA_PYTHON])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_others_read_what_we_send(
    bootstrap: str, topic: str, compression: CompressionType, reader: str
) -> None:
    async with Producer(bootstrap, compression_type=compression, linger_ms=20) as producer:
        deliveries = [
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
            for record in RECORDS
        ]
        offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == list(range(len(RECORDS)))
    received = consume(reader, bootstrap, topic, len(RECORDS))
    assert [one.sent for one in received] == RECORDS
    assert [one.offset for one in received] == offsets


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acks_delivers(bootstrap: str, topic: str, acks: Acks) -> None:
    values = [b"%d" % number for number in range(1_000)]
    async with Producer(bootstrap, acks=acks) as producer:
        deliveries = await producer.send_many(topic, values)
        await producer.flush()
        offsets = [delivery.result().offset for delivery in deliveries]
    assert offsets == ([-1] * 1_000 if acks == 0 else list(range(1_000)))
    received = consume(CONFLUENT, bootstrap, topic, len(values))
    assert [one.value for one in received] == values


async def test_idempotent_batches_in_flight_arrive_once_and_in_order(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    dice = random.Random(7)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    async with Producer(
        bootstrap, enable_idempotence=True, batch_size=500, linger_ms=0
    ) as producer:
        for number in range(3_000):
            partition = dice.randrange(3)
            sent[partition].append(b"%d" % number)
            await producer.send(topic, sent[partition][-1], partition=partition)
    async with AdminClient(bootstrap) as admin:
        described = await admin.describe_topics([topic])
    assert len(described[topic].partitions) == 3
    for partition, values in sent.items():
        received = await read_partition(bootstrap, topic, partition, len(values))
        assert received == values


async def read_partition(bootstrap: str, topic: str, partition: int, count: int) -> list[object]:
    from minikafka_client import Consumer, TopicPartition

    values: list[object] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition(topic, partition)])
        while len(values) < count:
            values += [record.value for record in await consumer.poll(10_000)]
    return values


async def test_several_sessions_of_idempotent_producers_share_a_partition(
    bootstrap: str, topic: str
) -> None:
    for session in range(3):
        async with Producer(bootstrap) as producer:
            await producer.send_many(topic, [b"%d" % session] * 10)
    received = consume(CONFLUENT, bootstrap, topic, 30)
    assert [one.value for one in received] == [b"0"] * 10 + [b"1"] * 10 + [b"2"] * 10


async def test_a_topic_is_created_by_the_first_record(bootstrap: str, name: str) -> None:
    async with Producer(bootstrap) as producer:
        metadata = await (await producer.send(name, b"first"))
    assert (metadata.topic, metadata.partition, metadata.offset) == (name, 0, 0)


async def test_a_record_above_the_topics_limit_is_refused_by_the_broker(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=1_000)
    async with Producer(bootstrap) as producer:
        too_large = await producer.send(topic, b"x" * 2_000)
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await too_large
        fits = await producer.send(topic, b"x" * 500)
        assert (await fits).offset == 0


async def test_a_compacted_topic_refuses_a_record_without_a_key(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(cleanup_policy="compact")
    async with Producer(bootstrap) as producer:
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            await (await producer.send(topic, b"no key"))
        deliveries = await producer.send_many(topic, [ProducerRecord(b"v", b"k")])
        assert [one.offset for one in await deliveries] == [0]


async def test_timestamps_are_the_brokers_when_the_topic_says_so(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    async with Producer(bootstrap) as producer:
        metadata = await (await producer.send(topic, b"v", timestamp_ms=1_000_000_000_000))
    (received,) = consume(CONFLUENT, bootstrap, topic, 1)
    assert received.is_append_time
    assert metadata.timestamp_ms == received.timestamp_ms > 1_000_000_000_000


@pytest.mark.parametrize("compression", ["none", "lz4"])
async def test_batches_that_are_too_large_for_a_topic_are_split(
    bootstrap: str, make_topic: MakeTopic, compression: CompressionType
) -> None:
    topic = make_topic(max_message_bytes=2_000)
    dice = random.Random(3)
    values = [dice.randbytes(20) * dice.randrange(1, 5) for _ in range(2_000)]
    async with Producer(bootstrap, compression_type=compression) as producer:
        deliveries = await producer.send_many(topic, values)
        places = await deliveries
        splits = producer.statistics().splits
        too_large = await producer.send(topic, dice.randbytes(5_000))
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await too_large
    assert splits > 0
    assert [place.offset for place in places] == list(range(2_000))
    received = consume(CONFLUENT, bootstrap, topic, len(values))
    assert [one.value for one in received] == values
