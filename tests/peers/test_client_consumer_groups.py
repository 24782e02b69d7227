"""Our consumer in groups of KIP-848's protocol, on Apache Kafka."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from minikafka_client.sync import Consumer as BlockingConsumer
from tests.kit.wire import MakeTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.test_client_consumes import send_values

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture
def bootstrap(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap


def member(bootstrap: str, group_id: str, **options: object) -> mk.Consumer:
    return mk.Consumer(
        bootstrap,
        group_id=group_id,
        group_protocol="consumer",
        auto_offset_reset="earliest",
        **options,  # type: ignore[arg-type]  # all by name
    )


async def read(consumer: mk.Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    with trio.fail_after(60):
        while len(values) < count:
            values += [record.value for record in await consumer.poll(count - len(values))]
    return values


async def test_three_members_share_and_each_record_is_read_once(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(6)
    wanted = {b"%d-%d" % (partition, n) for partition in range(6) for n in range(50)}
    received: Counter[bytes] = Counter()
    shares: dict[str, frozenset[mk.TopicPartition]] = {}
    everything_read, all_shared = trio.Event(), trio.Event()

    async def one(name: str) -> None:
        async with member(bootstrap, topic) as consumer:
            await consumer.subscribe([topic])
            while not everything_read.is_set():
                for record in await consumer.poll(timeout_ms=200):
                    assert record.value is not None
                    received[record.value] += 1
                shares[name] = consumer.assignment
                if sorted(map(len, shares.values())) == [2, 2, 2]:
                    all_shared.set()
                if all_shared.is_set() and wanted <= received.keys():
                    everything_read.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "c"):
                nursery.start_soon(one, name)
            await all_shared.wait()
            for partition in range(6):
                values = [value for value in wanted if value.startswith(b"%d-" % partition)]
                await send_values(bootstrap, topic, *values, partition=partition)
    assert set(received) == wanted
    assert set(received.values()) == {1}


async def test_a_group_resumes_where_it_committed(bootstrap: str, topic: str) -> None:
    partition = mk.TopicPartition(topic, 0)
    await send_values(bootstrap, topic, *(b"%d" % n for n in range(20)))
    async with member(bootstrap, topic, enable_auto_commit=False) as consumer:
        await consumer.subscribe([topic])
        first = await read(consumer, 5)
        await consumer.commit()
        await read(consumer, 5)  # is not committed
    async with member(bootstrap, topic) as consumer:
        await consumer.subscribe([topic])
        second = await read(consumer, 15)
        assert await consumer.position(partition) == 20
    async with member(bootstrap, topic) as consumer:
        committed = (await consumer.committed([partition]))[partition]
    assert committed is not None  # on leaving
    assert committed.offset == 20
    assert first + second == [b"%d" % n for n in range(20)]


async def test_patterns_are_matched_by_the_broker_and_by_the_client(
    bootstrap: str, make_topic: MakeTopic, name: str
) -> None:
    topics = [make_topic(suffix=suffix) for suffix in ("-x1", "-x2", "-other")]
    for topic in topics:
        await send_values(bootstrap, topic, topic.encode())
    wanted = {topics[0].encode(), topics[1].encode()}
    for pattern in (mk.SubscriptionPattern(f"{name}-x[0-9]"), re.compile(f"{name}-x[0-9]")):
        async with member(bootstrap, f"{name}-{type(pattern).__name__}") as consumer:
            await consumer.subscribe(pattern)
            assert set(await read(consumer, 2)) == wanted
            await consumer.subscribe([topics[2]])
            assert await read(consumer, 1) == [topics[2].encode()]


async def test_a_pattern_that_is_not_re2_is_an_error(bootstrap: str, topic: str) -> None:
    async with member(bootstrap, topic) as consumer:
        await consumer.subscribe(mk.SubscriptionPattern("("))
        with trio.fail_after(60), pytest.raises(mk.BrokerError) as caught:
            await consumer.poll()
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_an_assignor_that_the_broker_does_not_have_is_an_error(
    bootstrap: str, topic: str
) -> None:
    async with member(bootstrap, topic, group_remote_assignor="best") as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(60), pytest.raises(mk.BrokerError, match="UNSUPPORTED_ASSIGNOR"):
            await consumer.poll()


async def test_a_static_member_comes_back_and_a_second_one_is_refused(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    await send_values(bootstrap, topic, b"0")
    async with member(bootstrap, topic, group_instance_id="one") as consumer:
        await consumer.subscribe([topic])
        await read(consumer, 1)
        epoch = consumer.group_metadata().generation_id
        async with member(bootstrap, topic, group_instance_id="one") as second:
            await second.subscribe([topic])
            with trio.fail_after(60), pytest.raises(mk.BrokerError, match="UNRELEASED_INSTANCE_ID"):
                await second.poll()
    await send_values(bootstrap, topic, b"1")
    async with member(bootstrap, topic, group_instance_id="one") as consumer:
        await consumer.subscribe([topic])
        assert await read(consumer, 1) == [b"1"]
        assert len(consumer.assignment) == 2
        assert consumer.group_metadata().generation_id == epoch  # nothing was rebalanced


async def test_offsets_are_committed_in_a_transaction(bootstrap: str, topic: str) -> None:
    partition = mk.TopicPartition(topic, 0)
    await send_values(bootstrap, topic, b"0", b"1")
    async with (
        mk.Producer(bootstrap, transactional_id=topic) as producer,
        member(
            bootstrap, topic, enable_auto_commit=False, isolation_level="read_committed"
        ) as consumer,
    ):
        await consumer.subscribe([topic])
        await read(consumer, 2)
        async with producer.transaction() as transaction:
            await producer.send(topic, b"2")
            await transaction.send_offsets(consumer.positions(), consumer)
        stored = (await consumer.committed([partition]))[partition]
        assert stored is not None
        assert stored.offset == 2
        stranger = consumer.group_metadata()._replace(member_id="stranger")
        with pytest.raises(mk.KafkaError, match="UNKNOWN_MEMBER_ID"):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({partition: 5}, stranger)


def test_the_blocking_consumer_has_it_too(bootstrap: str, topic: str) -> None:
    trio.run(send_values, bootstrap, topic, b"0", b"1")
    assigned: list[mk.TopicPartition] = []
    with BlockingConsumer(
        bootstrap,
        group_id=topic,
        group_protocol="consumer",
        auto_offset_reset="earliest",
        on_partitions_assigned=assigned.extend,
    ) as consumer:
        consumer.subscribe(mk.SubscriptionPattern(topic))
        values: list[bytes | None] = []
        while len(values) < 2:
            values += [record.value for record in consumer.poll()]
        consumer.commit()
    assert values == [b"0", b"1"]
    assert assigned == [mk.TopicPartition(topic, 0)]
