"""Topics that appear, grow, lose records and vanish while clients use them; many partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from minikafka.protocol.messages import create_partitions
from tests.interop.clients import (
    AIOKAFKA,
    CLIENTS,
    CONFLUENT,
    KAFKA_PYTHON,
    Outgoing,
    aiokafka,
    confluent_kafka,
    consume,
    kafka,
    produce,
    run_async,
)
from tests.interop.members import PROGRESS, Member, group_of, shares, wait_until_assigned
from tests.kit.live import JudgedBroker
from tests.kit.waiting import SECONDS_MAX, work_until
from tests.kit.wire import MakeTopic, Wire

pytestmark = pytest.mark.interop

MANY = 200
QUICK_METADATA = {"topic.metadata.refresh.interval.ms": 300}


# --- auto creation -----------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_producing_to_a_topic_that_does_not_exist_creates_it(
    client: str, broker: JudgedBroker, name: str
) -> None:
    produce(client, broker.bootstrap, name, [Outgoing(b"first")])
    assert [one.value for one in consume(CONFLUENT, broker.bootstrap, name, 1)] == [b"first"]
    with Wire(broker.bootstrap) as wire:
        wire.delete_topics([name])


def test_a_topic_that_does_not_exist_is_an_error_for_a_consumer_and_is_not_created(
    broker: JudgedBroker, name: str
) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": name, **QUICK_METADATA}
    )
    consumer.subscribe([name])
    found: list[Any] = []
    work_until(lambda: bool(found), lambda: found.extend(consumer.consume(1, 1)), what="an error")
    assert found[0].error().code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in consumer.list_topics(timeout=SECONDS_MAX).topics
    # It appears while the consumer waits for it.
    produce(KAFKA_PYTHON, broker.bootstrap, name, [Outgoing(b"early")])
    work_until(
        lambda: bool(consumer.assignment()), lambda: consumer.poll(0.1), what="an assignment"
    )
    consumer.close()
    with Wire(broker.bootstrap) as wire:
        wire.delete_topics([name])


def test_without_auto_creation_producers_are_refused(tmp_path_factory: Any) -> None:
    settings = {"auto.create.topics.enable": "false"}
    with JudgedBroker(tmp_path_factory.mktemp("strict"), settings) as broker:
        reports: list[Any] = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 0}
        )
        producer.produce("t", b"v", on_delivery=lambda error, _: reports.append(error))
        producer.flush(SECONDS_MAX)
        unknown = confluent_kafka.KafkaError
        assert reports[0].code() in {unknown._UNKNOWN_TOPIC, unknown.UNKNOWN_TOPIC_OR_PART}
        assert "t" not in producer.list_topics(timeout=SECONDS_MAX).topics


# --- growth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [CONFLUENT, KAFKA_PYTHON])
def test_running_members_get_partitions_that_are_added(
    client: str, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    with group_of(*(Member(client, broker.bootstrap, topic, [topic]) for _ in range(2))) as members:
        wait_until_assigned(members, shares(1, 1), "one partition each")
        with Wire(broker.bootstrap) as wire:
            wanted = create_partitions.Topic(name=topic, count=6, assignments=None)
            request = create_partitions.Request(
                topics=[wanted], timeout_ms=1000, validate_only=False
            )
            answer = wire.ask(request, 3, create_partitions.Response)
        assert answer.results[0].error_code == 0
        wait_until_assigned(members, shares(3, 3), "three partitions each")
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        for partition in range(6):
            producer.produce(topic, b"%d" % partition, partition=partition)
        assert producer.flush(SECONDS_MAX) == 0
        PROGRESS.wait_until(
            lambda: sum(len(member.received) for member in members) == 6, what="six records"
        )
    received = {place[1]: value for member in members for place, value in member.received}
    assert received == {number: b"%d" % number for number in range(6)}


# --- deletion ----------------------------------------------------------------------------------


def test_records_deleted_under_a_reader_are_skipped(broker: JudgedBroker, topic: str) -> None:
    produce(CONFLUENT, broker.bootstrap, topic, [Outgoing(b"%d" % n) for n in range(100)])
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1,
            "fetch.message.max.bytes": 200,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    offsets: list[Any] = []

    def poll() -> None:
        for message in consumer.consume(10, 0.5):
            assert message.error() is None, message.error()
            offsets.append(message.offset())

    work_until(lambda: bool(offsets), poll, what="the first record")
    with Wire(broker.bootstrap) as wire:
        assert wire.delete_records(topic, 90) == 90
    consumer.seek(confluent_kafka.TopicPartition(topic, 0, 50))
    work_until(lambda: offsets[-1] == 99, poll, what="the last record", show=lambda: offsets)
    assert [offset for offset in offsets if offset >= 90] == list(range(90, 100))
    consumer.close()


@pytest.mark.parametrize("client", [CONFLUENT, KAFKA_PYTHON])
def test_a_group_survives_the_deletion_of_one_of_its_topics(
    client: str, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    kept, doomed = make_topic(2, suffix="-kept"), make_topic(2, suffix="-doomed")
    pattern = "^" + kept.removesuffix("kept") + ".*"
    # It asks for the topic again and thereby makes it, with one partition, whatever
    # allow_auto_create_topics says; before a rebalance it would then try for a minute to commit an
    # offset of the second one.
    quiet: dict[str, Any] = {"enable_auto_commit": False} if client == KAFKA_PYTHON else {}
    topics = [pattern] if client == CONFLUENT else [kept, doomed]
    with group_of(Member(client, broker.bootstrap, kept, topics, **quiet)) as members:
        wait_until_assigned(members, shares(4), "both topics")
        with Wire(broker.bootstrap) as wire:
            wire.delete_topics([doomed])
        if client == CONFLUENT:
            wait_until_assigned(members, shares(2), "the topic that is left")
        produce(AIOKAFKA, broker.bootstrap, kept, [Outgoing(b"after")])
        PROGRESS.wait_until(
            lambda: (kept, 0, 0) in dict(members[0].received), what="a record of the kept topic"
        )
    assert dict(members[0].received)[kept, 0, 0] == b"after"


def test_a_recreated_topic_begins_at_offset_zero(broker: JudgedBroker, topic: str) -> None:
    for generation in (b"first", b"second", b"third"):
        produce(KAFKA_PYTHON, broker.bootstrap, topic, [Outgoing(generation)] * 3)
        for reader in CLIENTS:
            received = consume(reader, broker.bootstrap, topic, 3)
            assert [(one.offset, one.value) for one in received] == [
                (offset, generation) for offset in range(3)
            ]
        with Wire(broker.bootstrap) as wire:
            wire.delete_topics([topic])
            wire.create_topic(topic, 1, {})


def test_a_producer_continues_when_its_topic_is_recreated(broker: JudgedBroker, topic: str) -> None:

    async def main() -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True, metadata_max_age_ms=300
        )
        await producer.start()
        offsets = [(await producer.send_and_wait(topic, b"before")).offset]
        await asyncio.to_thread(remake)
        offsets.append((await producer.send_and_wait(topic, b"after")).offset)
        await producer.stop()
        return offsets

    def remake() -> None:
        with Wire(broker.bootstrap) as wire:
            wire.delete_topics([topic])
            wire.create_topic(topic, 1, {})

    assert run_async(main()) == [0, 0]
    assert [one.value for one in consume(CONFLUENT, broker.bootstrap, topic, 1)] == [b"after"]


# --- many partitions, pause --------------------------------------------------------------------


def many_with_confluent(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: dict[int, list[bytes]] = {number: [] for number in range(MANY)}

    def poll() -> None:
        for message in consumer.consume(1000, 0.5):
            partition, value = message.partition(), message.value()
            assert message.error() is None, message.error()
            assert partition is not None
            assert isinstance(value, bytes)
            found[partition].append(value)

    work_until(lambda: sum(map(len, found.values())) == 3 * MANY, poll, what="all records")
    consumer.close()
    return found


def many_with_kafka_python(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
    )
    found: dict[int, list[bytes]] = {number: [] for number in range(MANY)}
    while sum(map(len, found.values())) < 3 * MANY:
        polled = consumer.poll(timeout_ms=SECONDS_MAX * 1000)
        assert polled, "nothing came"
        for one, records in polled.items():
            found[one.partition] += [record.value for record in records]
    consumer.close()
    return found


def many_with_aiokafka(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    async def main() -> dict[int, list[bytes]]:
        found: dict[int, list[bytes]] = {number: [] for number in range(MANY)}
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
        )
        await consumer.start()
        while sum(map(len, found.values())) < 3 * MANY:
            for one, records in (await consumer.getmany(timeout_ms=1000)).items():
                found[one.partition] += [record.value for record in records]
        await consumer.stop()
        return found

    return run_async(main())


READ_MANY: dict[str, Callable[[str, str], dict[int, list[bytes]]]] = {
    CONFLUENT: many_with_confluent,
    KAFKA_PYTHON: many_with_kafka_python,
    AIOKAFKA: many_with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_two_hundred_partitions(client: str, broker: JudgedBroker, make_topic: MakeTopic) -> None:
    topic = make_topic(MANY)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        for partition in range(MANY):
            producer.produce(topic, b"%d-%d" % (partition, number), partition=partition)
    assert producer.flush(SECONDS_MAX) == 0
    assert READ_MANY[client](broker.bootstrap, topic) == {
        partition: [b"%d-%d" % (partition, number) for number in range(3)]
        for partition in range(MANY)
    }


def test_a_paused_partition_is_not_read_until_it_is_resumed(
    broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    places = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(2)]
    found: list[Any] = []

    def poll() -> None:
        for message in consumer.consume(100, 0.2):
            assert message.error() is None, message.error()
            found.append((message.partition(), message.value()))

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

    def send(value: bytes) -> None:
        for number in range(2):
            producer.produce(topic, value, partition=number)
        assert producer.flush(SECONDS_MAX) == 0

    consumer.assign(places)
    send(b"1")
    work_until(lambda: len(found) == 2, poll, what="a record of each")
    consumer.pause(places[:1])
    for value in (b"2", b"3", b"4"):
        send(value)
        work_until(partial(found.__contains__, (1, value)), poll, what="the other's records")
    assert [one for one in found if one[0] == 0] == [(0, b"1")]
    consumer.resume(places[:1])
    work_until(lambda: len(found) == 8, poll, what="what was held back")
    assert [one[1] for one in found if one[0] == 0] == [b"1", b"2", b"3", b"4"]
    consumer.close()
