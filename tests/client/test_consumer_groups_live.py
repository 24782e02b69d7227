"""Groups of KIP-848's protocol and share groups, with our client and our broker."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from minikafka_client.sync import ShareConsumer as BlockingShareConsumer
from tests.kit.live import JudgedBroker

NewName = Callable[[], str]


async def make_topic(bootstrap: str, name: str, partitions: int, *values: bytes) -> str:
    async with mk.AdminClient(bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(name, partitions)])
    await send(bootstrap, name, *values)
    return name


async def send(bootstrap: str, topic: str, *values: bytes) -> None:
    async with mk.Producer(bootstrap) as producer:
        await producer.send_many(topic, [mk.ProducerRecord(value) for value in values])


@asynccontextmanager
async def member(bootstrap: str, group_id: str, **options: object) -> AsyncIterator[mk.Consumer]:
    with trio.fail_after(60):
        async with mk.Consumer(
            bootstrap,
            group_id=group_id,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            **options,  # type: ignore[arg-type]  # all by name
        ) as consumer:
            yield consumer


async def read(consumer: mk.Consumer, count: int) -> set[bytes | None]:
    values: set[bytes | None] = set()
    while len(values) < count:
        values |= {record.value for record in await consumer.poll(count - len(values))}
    return values


async def test_members_share_a_topic_and_one_inherits_it(bootstrap: str, new_name: NewName) -> None:
    topic = await make_topic(bootstrap, new_name(), 4)
    revoked: list[mk.TopicPartition] = []

    async def release(partitions: object) -> None:
        revoked.extend(partitions)  # type: ignore[arg-type]  # a sequence of them

    async with member(bootstrap, topic, on_partitions_revoked=release) as first:
        await first.subscribe([topic])
        while len(first.assignment) < 4:
            await first.poll(timeout_ms=50)
        async with member(bootstrap, topic) as second:
            await second.subscribe([topic])
            while len(second.assignment) < 2:
                await first.poll(timeout_ms=50)
                await second.poll(timeout_ms=50)
            assert first.assignment.isdisjoint(second.assignment)
            assert len(first.assignment) == len(revoked) == 2
        while len(first.assignment) < 4:
            await first.poll(timeout_ms=50)


async def test_a_group_resumes_where_it_committed(bootstrap: str, new_name: NewName) -> None:
    topic = await make_topic(bootstrap, new_name(), 1, b"0", b"1", b"2")
    async with member(bootstrap, topic, enable_auto_commit=False) as consumer:
        await consumer.subscribe([topic])
        assert await read(consumer, 2) == {b"0", b"1"}
        await consumer.commit({mk.TopicPartition(topic, 0): 1})
    async with member(bootstrap, topic) as consumer:
        await consumer.subscribe([topic])
        assert await read(consumer, 2) == {b"1", b"2"}


async def test_patterns_are_matched_by_the_broker_and_by_the_client(
    bootstrap: str, new_name: NewName
) -> None:
    prefix = new_name()
    topics = [await make_topic(bootstrap, f"{prefix}-{each}", 1, each.encode()) for each in "xyz"]
    for pattern in (
        mk.SubscriptionPattern(f"{prefix}-[xy]"),
        re.compile(f"{prefix}-[xy]"),
    ):
        async with member(bootstrap, new_name()) as consumer:
            await consumer.subscribe(pattern)
            assert await read(consumer, 2) == {b"x", b"y"}
            await consumer.subscribe([topics[2]])
            assert await read(consumer, 1) == {b"z"}


async def test_what_the_broker_refuses_is_an_error(bootstrap: str, new_name: NewName) -> None:
    topic = await make_topic(bootstrap, new_name(), 1)
    async with member(bootstrap, topic) as consumer:
        await consumer.subscribe(mk.SubscriptionPattern("("))
        with pytest.raises(mk.BrokerError) as caught:
            await consumer.poll()
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    async with member(bootstrap, topic, group_remote_assignor="best") as consumer:
        await consumer.subscribe([topic])
        with pytest.raises(mk.BrokerError, match="UNSUPPORTED_ASSIGNOR"):
            await consumer.poll()


async def test_a_static_member_comes_back_and_a_second_one_is_refused(
    bootstrap: str, new_name: NewName
) -> None:
    topic = await make_topic(bootstrap, new_name(), 1, b"0")
    async with member(bootstrap, topic, group_instance_id="one") as consumer:
        await consumer.subscribe([topic])
        await read(consumer, 1)
        epoch = consumer.group_metadata().generation_id
        async with member(bootstrap, topic, group_instance_id="one") as second:
            await second.subscribe([topic])
            with pytest.raises(mk.BrokerError, match="UNRELEASED_INSTANCE_ID"):
                await second.poll()
    await send(bootstrap, topic, b"1")
    async with member(bootstrap, topic, group_instance_id="one") as consumer:
        await consumer.subscribe([topic])
        assert await read(consumer, 1) == {b"1"}
        assert consumer.group_metadata().generation_id == epoch


async def test_offsets_are_committed_in_a_transaction(bootstrap: str, new_name: NewName) -> None:
    topic = await make_topic(bootstrap, new_name(), 1, b"0", b"1")
    partition = mk.TopicPartition(topic, 0)
    async with (
        mk.Producer(bootstrap, transactional_id=topic) as producer,
        member(bootstrap, topic, isolation_level="read_committed") as consumer,
    ):
        await consumer.subscribe([topic])
        await read(consumer, 2)
        async with producer.transaction() as transaction:
            await transaction.send_offsets({partition: 2}, consumer)
        stored = (await consumer.committed([partition]))[partition]
        assert stored is not None
        assert stored.offset == 2
        stranger = consumer.group_metadata()._replace(member_id="stranger")
        with pytest.raises(mk.KafkaError, match="UNKNOWN_MEMBER_ID"):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({partition: 1}, stranger)


async def test_a_group_is_described_with_epochs_and_assignments(
    bootstrap: str, new_name: NewName
) -> None:
    topic = await make_topic(bootstrap, new_name(), 2, b"0")
    async with mk.AdminClient(bootstrap) as admin, member(bootstrap, topic) as consumer:
        await consumer.subscribe([topic])
        await read(consumer, 1)
        group = (await admin.describe_groups([topic]))[topic]
        [described] = group.members
        assert (group.type, group.state) == ("Consumer", "Stable")
        assert described.member_epoch == group.group_epoch == group.assignment_epoch
        assert set(described.assignment) == set(described.target_assignment) == consumer.assignment
        assert topic in {each.group_id for each in await admin.list_groups(types=["consumer"])}


# --- share groups --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker for share groups."""
    settings = {
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.heartbeat.interval.ms": "200",
    }
    with JudgedBroker(tmp_path_factory.mktemp("queues"), settings) as broker:
        yield broker.bootstrap
        broker.check_log()


async def begin_with_the_first(bootstrap: str, group_id: str) -> None:
    group = mk.ConfigResource(mk.ConfigResourceType.GROUP, group_id)
    change = mk.ConfigChange("share.auto.offset.reset", "earliest")
    async with mk.AdminClient(bootstrap) as admin:
        await admin.alter_configs({group: [change]})


@asynccontextmanager
async def sharing(bootstrap: str, topic: str, **options: object) -> AsyncIterator[mk.ShareConsumer]:
    """A member of the share group that has its topic's name and begins with the first record."""
    with trio.fail_after(60):
        await begin_with_the_first(bootstrap, topic)
        async with mk.ShareConsumer(bootstrap, topic, **options) as consumer:  # type: ignore[arg-type]  # all by name
            await consumer.subscribe([topic])
            yield consumer


async def test_released_records_come_again_and_rejected_ones_do_not(
    queues: str, new_name: NewName
) -> None:
    values = (b"accept", b"release", b"reject", b"renew")
    topic = await make_topic(queues, new_name(), 1, *values)
    async with sharing(queues, topic, share_acknowledgement_mode="explicit") as consumer:
        records: dict[bytes | None, mk.ShareRecord] = {}
        while len(records) < len(values):
            records |= {record.value: record for record in await consumer.poll()}
        for value, record in records.items():
            consumer.acknowledge(record, mk.Acknowledgement(str(value or b"", "ascii")))
        assert await consumer.commit() == {mk.TopicPartition(topic, 0): None}
        [again] = await consumer.poll()
        assert (again.value, again.delivery_count) == (b"release", 2)
        consumer.acknowledge(records[b"renew"])
    async with sharing(queues, topic) as consumer:
        [left] = await consumer.poll()  # closing has released it
        assert left.value == b"release"


async def test_a_commit_tells_what_was_answered_before_it(queues: str, new_name: NewName) -> None:
    topic = await make_topic(queues, new_name(), 1, b"1", b"2")
    answered = trio.Event()
    async with sharing(
        queues,
        topic,
        share_acknowledgement_mode="explicit",
        on_acknowledged=lambda *_: answered.set(),
    ) as consumer:
        first, second = await consumer.poll()
        consumer.acknowledge(first, "accept")
        consumer.acknowledge(second, "renew")  # sent at once, together with the other
        await answered.wait()
        assert await consumer.commit() == {mk.TopicPartition(topic, 0): None}
        assert await consumer.commit() == {}


async def test_a_share_consumer_of_properties_and_its_statistics(
    queues: str, new_name: NewName
) -> None:
    topic = await make_topic(queues, new_name(), 1, b"1", b"22", b"333")
    await begin_with_the_first(queues, topic)
    config = {
        "bootstrap.servers": queues,
        "group.id": topic,
        "share.acknowledgement.mode": "EXPLICIT",
        "share.acquire.mode": "record_limit",
        "max.poll.records": "2",
    }
    with trio.fail_after(60):
        async with mk.ShareConsumer.from_config(config) as consumer:
            assert consumer.statistics().acquisition_lock_timeout_ms is None
            await consumer.subscribe([topic])
            records = await consumer.poll()
            assert [record.value for record in records] == [b"1", b"22"]
            consumer.acknowledge(records[0], "accept")
            await consumer.commit()
            found = consumer.statistics()
    assert (found.consumed_records, found.consumed_bytes) == (2, 3)
    assert (found.acknowledged_records, found.failed_acknowledgements) == (1, 0)
    assert (found.held_records, found.buffered_records, found.errors) == (1, 0, {})
    assert found.requests == found.latency.request_count >= 2
    assert found.acquisition_lock_timeout_ms is not None
    assert (found.group.state, found.group.last_poll_age_s is None) == ("stable", False)
    assert sum(one.latency.request_count for one in found.brokers.values()) == found.requests


def test_a_blocking_share_consumer_of_properties(queues: str, new_name: NewName) -> None:
    config = {"bootstrap.servers": queues, "group.id": new_name()}
    with BlockingShareConsumer.from_config(config) as consumer:
        assert consumer.statistics().consumed_records == 0


async def test_dead_letters(queues: str, new_name: NewName) -> None:
    topic = new_name()
    letter = await dead_letter(queues, topic)
    assert (letter.key, letter.value) == (None, b"rejected")
    assert letter.headers == headers_of_a_dead_letter(topic)


def headers_of_a_dead_letter(topic: str) -> tuple[tuple[str, bytes], ...]:
    """About offset 0, which the group with the topic's name has rejected (KIP-1191)."""
    return (
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", topic.encode()),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )


async def dead_letter(bootstrap: str, topic: str) -> mk.ConsumerRecord:
    """The letter about a record that a group rejects."""
    await make_topic(bootstrap, topic, 1, b"rejected", b"accepted")
    letters = f"dlq.{topic}"
    async with mk.AdminClient(bootstrap) as admin:
        enabled = {"errors.deadletterqueue.group.enable": "true"}
        await admin.create_topics([mk.NewTopic(letters, 1, configs=enabled)])
        group = mk.ConfigResource(mk.ConfigResourceType.GROUP, topic)
        await admin.alter_configs(
            {
                group: [
                    mk.ConfigChange("errors.deadletterqueue.topic.name", letters),
                    mk.ConfigChange("errors.deadletterqueue.copy.record.enable", "true"),
                ]
            }
        )
    async with sharing(bootstrap, topic, share_acknowledgement_mode="explicit") as consumer:
        records: list[mk.ShareRecord] = []
        while len(records) < 2:
            records += await consumer.poll()
        consumer.acknowledge(records[0], mk.Acknowledgement.REJECT)
        consumer.acknowledge(records[1], mk.Acknowledgement.ACCEPT)
        assert await consumer.commit() == {mk.TopicPartition(topic, 0): None}
    with trio.fail_after(60):
        async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as reader:
            await reader.assign([mk.TopicPartition(letters, 0)])
            return await anext(aiter(reader))


async def test_an_exception_releases_what_was_worked_on(queues: str, new_name: NewName) -> None:
    topic = await make_topic(queues, new_name(), 2, b"0", b"1", b"2", b"3")
    done: set[bytes | None] = set()

    async def work_and_fail() -> None:
        async with sharing(queues, topic) as consumer:
            async for record in consumer:
                if len(done) == 2:
                    raise KeyError
                done.add(record.value)

    with pytest.raises(KeyError):
        await work_and_fail()
    async with sharing(queues, topic) as consumer:
        rest = [await anext(aiter(consumer)) for _ in range(2)]
    assert {record.value for record in rest} | done == {b"0", b"1", b"2", b"3"}
    assert len(done) == 2


async def test_the_blocking_share_consumer_and_where_its_group_is(
    queues: str, new_name: NewName
) -> None:
    topic = await make_topic(queues, new_name(), 2, b"0", b"1", b"2")
    await begin_with_the_first(queues, topic)

    def work() -> set[bytes | None]:
        values: set[bytes | None] = set()
        with BlockingShareConsumer(queues, topic) as consumer:
            consumer.subscribe([topic])
            for record in consumer:
                values.add(record.value)
                if len(values) == 3:
                    break
        return values

    with trio.fail_after(60):
        assert await trio.to_thread.run_sync(work) == {b"0", b"1", b"2"}
    async with mk.AdminClient(queues) as admin:
        group = (await admin.describe_groups([topic]))[topic]
        assert (group.type, group.state, group.members) == ("Share", "Empty", ())
        first = mk.TopicPartition(topic, 0)
        await admin.alter_share_group_offsets(topic, {first: 0})
        assert (await admin.list_share_group_offsets(topic, [first]))[first].offset == 0
        await admin.delete_share_group_offsets(topic, [topic])
        assert await admin.list_share_group_offsets(topic) == {}
        await admin.delete_groups([topic])
        assert (await admin.describe_groups([topic]))[topic].state == "Dead"
