"""Idempotent producers, and records around the size limits of both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import clients
from tests.kit.live import JudgedBroker
from tests.kit.waiting import SECONDS_MAX
from tests.kit.wire import MakeTopic, Wire

pytestmark = pytest.mark.interop

LIMIT = 200_000
"""``max.message.bytes`` of the topics here, in bytes of a batch."""

OVERHEAD_MAX = 100
"""Bytes that a batch with one record takes beyond its value, at most."""


# --- idempotence -------------------------------------------------------------------------------


def idempotent_with_confluent(bootstrap: str, topic: str, values: list[bytes]) -> None:
    failed: list[object] = []
    producer = clients.confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 10}
    )
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert not failed


def idempotent_with_kafka_python(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = clients.kafka.KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, batch_size=1000
    )
    futures = [producer.send(topic, value, partition=0) for value in values]
    for future in futures:
        future.get(SECONDS_MAX)
    producer.close()


def idempotent_with_aiokafka(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async def main() -> None:
        producer = clients.aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=1000
        )
        await producer.start()
        deliveries = [await producer.send(topic, value, partition=0) for value in values]
        for delivery in deliveries:
            await delivery
        await producer.stop()

    clients.run_async(main())


IDEMPOTENT: dict[str, Callable[[str, str, list[bytes]], None]] = {
    clients.CONFLUENT: idempotent_with_confluent,
    clients.KAFKA_PYTHON: idempotent_with_kafka_python,
    clients.AIOKAFKA: idempotent_with_aiokafka,
}


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_idempotent_producers_number_their_batches(
    client: str, broker: JudgedBroker, topic: str
) -> None:
    values = [b"%d" % number for number in range(500)]
    IDEMPOTENT[client](broker.bootstrap, topic, values)
    received = clients.consume(clients.KAFKA_PYTHON, broker.bootstrap, topic, len(values))
    assert [record.value for record in received] == values
    with Wire(broker.bootstrap) as wire:
        batches = wire.stored_batches(topic)
    assert len(batches) > 1
    assert len({batch.producer_id for batch in batches}) == 1
    assert batches[0].producer_id >= 0
    for batch in batches:
        assert batch.base_sequence == batch.base_offset  # the only producer, from the first record


def test_producers_get_different_ids(broker: JudgedBroker, topic: str) -> None:
    for client in (*clients.CLIENTS, *clients.CLIENTS):
        IDEMPOTENT[client](broker.bootstrap, topic, [client.encode()])
    with Wire(broker.bootstrap) as wire:
        producers = [batch.producer_id for batch in wire.stored_batches(topic)]
    assert len(producers) == len(set(producers)) == 6


# --- size --------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_large_records_arrive(client: str, broker: JudgedBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=LIMIT)
    largest = [clients.Outgoing(bytes([number]) * (LIMIT - OVERHEAD_MAX)) for number in range(5)]
    for record in largest:
        clients.produce(client, broker.bootstrap, topic, [record])
    for reader in clients.CLIENTS:
        received = clients.consume(reader, broker.bootstrap, topic, len(largest))
        assert [one.sent for one in received] == largest


def test_records_larger_than_a_fetch_are_read_one_by_one(broker: JudgedBroker, topic: str) -> None:
    values = [bytes([number]) * 100_000 for number in range(5)]
    for value in values:
        clients.produce(clients.CONFLUENT, broker.bootstrap, topic, [clients.Outgoing(value)])
    consumer = clients.kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=1000,
        fetch_max_bytes=1000,
    )
    consumer.assign([clients.kafka.TopicPartition(topic, 0)])
    received: list[bytes] = []
    while len(received) < len(values):
        found = consumer.poll(timeout_ms=SECONDS_MAX * 1000)
        assert found, "nothing came"
        received += [record.value for records in found.values() for record in records]
    consumer.close()
    assert received == values


def send_with_confluent(bootstrap: str, topic: str, value: bytes) -> object:
    reports: list[Any] = []
    producer = clients.confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": 10_000_000}
    )
    producer.produce(topic, value, on_delivery=lambda error, _: reports.append(error))
    producer.flush(SECONDS_MAX)
    return reports[0] and reports[0].code()


def send_with_kafka_python(bootstrap: str, topic: str, value: bytes) -> object:
    producer = clients.kafka.KafkaProducer(bootstrap_servers=bootstrap, max_request_size=10_000_000)
    try:
        producer.send(topic, value).get(SECONDS_MAX)
    except clients.kafka.errors.KafkaError as error:
        return error.errno
    finally:
        producer.close()
    return None


def send_with_aiokafka(bootstrap: str, topic: str, value: bytes) -> object:
    async def main() -> object:
        producer = clients.aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, max_request_size=10_000_000
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, value)
        except clients.aiokafka.errors.KafkaError as error:
            return error.errno
        finally:
            await producer.stop()
        return None

    return clients.run_async(main())


SEND: dict[str, Callable[[str, str, bytes], object]] = {
    clients.CONFLUENT: send_with_confluent,
    clients.KAFKA_PYTHON: send_with_kafka_python,
    clients.AIOKAFKA: send_with_aiokafka,
}
MESSAGE_TOO_LARGE = 10


@pytest.mark.parametrize("client", clients.CLIENTS)
@pytest.mark.parametrize("size", [LIMIT + 1, 5_000_000])
def test_the_broker_refuses_records_over_the_topics_limit(
    client: str, size: int, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=LIMIT)
    assert SEND[client](broker.bootstrap, topic, bytes(size)) == MESSAGE_TOO_LARGE
    assert SEND[client](broker.bootstrap, topic, b"small enough") is None
    received = clients.consume(client, broker.bootstrap, topic, 1)
    assert received[0].value == b"small enough"


def test_the_limit_counts_the_compressed_batch(broker: JudgedBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=LIMIT)
    record = clients.Outgoing(bytes(900_000))
    clients.produce(clients.KAFKA_PYTHON, broker.bootstrap, topic, [record], "gzip")
    for reader in clients.CLIENTS:
        assert clients.consume(reader, broker.bootstrap, topic, 1)[0].value == record.value


def test_a_frame_over_the_brokers_limit_closes_that_connection_only(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = {"socket.request.max.bytes": "100000"}
    folder = tmp_path_factory.mktemp("small-frames")
    with JudgedBroker(folder, settings) as broker, Wire(broker.bootstrap) as other:
        other.create_topic("t", 1, {})
        producer = clients.confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "message.max.bytes": 1_000_000,
                "delivery.timeout.ms": 3000,
                "log_level": 0,
            }
        )
        reports: list[Any] = []
        producer.produce("t", bytes(500_000), on_delivery=lambda error, _: reports.append(error))
        producer.flush(SECONDS_MAX)
        assert reports[0].code() == clients.confluent_kafka.KafkaError._MSG_TIMED_OUT
        assert other.stored_batches("t") == []
        assert "socket.request.max.bytes" in broker.log()
