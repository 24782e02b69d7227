"""Our share consumers (queues), on Apache Kafka."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from minikafka_client.serializers import Json
from minikafka_client.sync import ShareConsumer as BlockingShareConsumer
from tests.client.test_consumer_groups_live import dead_letter, headers_of_a_dead_letter
from tests.kit.wire import MakeTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.test_client_consumes import send_values

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]

NUMBERS = [b"%d" % number for number in range(10)]


@pytest.fixture
def bootstrap(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap


async def prepare(bootstrap: str, group_id: str, **settings: object) -> None:
    """Let a group begin with the first record, and give it settings."""
    wanted = {"share.auto.offset.reset": "earliest", **settings}
    group = mk.ConfigResource(mk.ConfigResourceType.GROUP, group_id)
    async with mk.AdminClient(bootstrap) as admin:
        await admin.alter_configs(
            {group: [mk.ConfigChange(name, str(value)) for name, value in wanted.items()]}
        )


@asynccontextmanager
async def sharing(bootstrap: str, topic: str, **options: object) -> AsyncIterator[mk.ShareConsumer]:
    with trio.fail_after(60):
        async with mk.ShareConsumer(bootstrap, topic, **options) as consumer:  # type: ignore[arg-type]  # all by name
            await consumer.subscribe([topic])
            yield consumer


async def taken(consumer: mk.ShareConsumer, count: int) -> list[mk.ShareRecord]:
    records: list[mk.ShareRecord] = []
    while len(records) < count:
        records += await consumer.poll(count - len(records))
    return records


async def test_what_is_asked_past_is_accepted(bootstrap: str, topic: str) -> None:
    await prepare(bootstrap, topic)
    await send_values(bootstrap, topic, *NUMBERS)
    results: list[tuple[Sequence[int], mk.KafkaError | None]] = []
    async with sharing(
        bootstrap, topic, on_acknowledged=lambda _, offsets, error: results.append((offsets, error))
    ) as consumer:
        values: list[bytes | None] = []
        async for record in consumer:
            assert (record.topic, record.delivery_count) == (topic, 1)
            values.append(record.value)
            if len(values) == len(NUMBERS):
                break
        assert values == NUMBERS
        assert await consumer.commit() == {mk.TopicPartition(topic, 0): None}
        assert consumer.acquisition_lock_timeout_ms == 30_000
    assert sorted(offset for offsets, _ in results for offset in offsets) == [*range(10)]
    assert {error for _, error in results} == {None}
    await send_values(bootstrap, topic, b"next")
    async with sharing(bootstrap, topic) as consumer:
        [record] = await taken(consumer, 1)
        assert record.value == b"next"


async def test_dead_letters_are_the_same(bootstrap: str, name: str) -> None:
    letter = await dead_letter(bootstrap, name)
    assert (letter.key, letter.value) == (None, b"rejected")
    assert letter.headers == headers_of_a_dead_letter(name)


async def test_released_records_come_again_and_rejected_ones_do_not(
    bootstrap: str, topic: str
) -> None:
    await prepare(bootstrap, topic)
    await send_values(bootstrap, topic, b"accept", b"release", b"reject", b"renew")
    async with sharing(bootstrap, topic, share_acknowledgement_mode="explicit") as consumer:
        records = {record.value: record for record in await taken(consumer, 4)}
        consumer.acknowledge(records[b"accept"])
        consumer.acknowledge(records[b"release"], mk.Acknowledgement.RELEASE)
        consumer.acknowledge(records[b"reject"], "reject")
        consumer.acknowledge(records[b"renew"], "renew")
        assert await consumer.commit() == {mk.TopicPartition(topic, 0): None}
        [again] = await taken(consumer, 1)
        assert (again.value, again.delivery_count) == (b"release", 2)
        consumer.acknowledge(records[b"renew"])
        with pytest.raises(ValueError, match="was acknowledged already"):
            consumer.acknowledge(records[b"accept"])
    async with sharing(bootstrap, topic) as consumer:
        [left] = await taken(consumer, 1)  # it was not acknowledged, so closing released it
        assert (left.value, left.delivery_count) == (b"release", 3)


async def test_an_exception_releases_what_was_worked_on(bootstrap: str, topic: str) -> None:
    await prepare(bootstrap, topic)
    await send_values(bootstrap, topic, *NUMBERS)

    async def work_and_fail() -> None:
        async with sharing(bootstrap, topic) as consumer:
            await taken(consumer, 2)
            await consumer.poll(1)
            raise KeyError

    with pytest.raises(KeyError):
        await work_and_fail()
    async with sharing(bootstrap, topic) as consumer:
        records = await taken(consumer, 8)
    assert {record.value: record.delivery_count for record in records} == dict.fromkeys(
        NUMBERS[2:], 2
    )


async def test_there_may_be_more_workers_than_partitions(bootstrap: str, topic: str) -> None:
    await prepare(bootstrap, topic)
    jobs = [b"%d" % number for number in range(300)]
    done: Counter[bytes] = Counter()
    by_worker: Counter[int] = Counter()
    everybody_works, finished = trio.Event(), trio.Event()

    async def work(worker: int, *, task_status: trio.TaskStatus[None]) -> None:
        async with sharing(
            bootstrap, topic, max_poll_records=5, share_acquire_mode="record_limit"
        ) as consumer:
            await consumer.poll(timeout_ms=500)
            task_status.started()
            async for record in consumer:
                assert record.value is not None
                done[record.value] += 1
                by_worker[worker] += 1
                if len(by_worker) == 3:
                    everybody_works.set()
                await everybody_works.wait()
                if len(done) == len(jobs):
                    finished.set()

    async with trio.open_nursery() as nursery:
        for worker in range(3):
            await nursery.start(work, worker)
        for job in range(0, len(jobs), 20):
            await send_values(bootstrap, topic, *jobs[job : job + 20])
        with trio.fail_after(60):
            await finished.wait()
        nursery.cancel_scope.cancel()
    assert set(done) == set(jobs)
    assert len(by_worker) == 3


async def test_a_lock_that_has_ended_is_told_when_it_is_acknowledged(
    bootstrap: str, topic: str
) -> None:
    await prepare(bootstrap, topic, **{"share.record.lock.duration.ms": 2_000})
    await send_values(bootstrap, topic, b"slow")
    async with (
        sharing(bootstrap, topic, share_acknowledgement_mode="explicit") as slow,
        sharing(bootstrap, topic) as other,
    ):
        [record] = await taken(slow, 1)
        [again] = await taken(other, 1)
        assert (again.value, again.delivery_count) == (b"slow", 2)
        slow.acknowledge(record)
        [error] = (await slow.commit()).values()
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD_STATE


async def abort(producer: mk.Producer, topic: str) -> None:
    with contextlib.suppress(KeyError):
        async with producer.transaction():
            await producer.send(topic, b"aborted")
            raise KeyError


async def test_aborted_records_are_not_delivered(bootstrap: str, topic: str) -> None:
    await prepare(bootstrap, topic, **{"share.isolation.level": "read_committed"})
    async with mk.Producer(bootstrap, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"committed")
        await abort(producer, topic)
        async with producer.transaction():
            await producer.send(topic, b"last")
    async with sharing(bootstrap, topic) as consumer:
        assert [record.value for record in await taken(consumer, 2)] == [b"committed", b"last"]
        assert await consumer.commit() == {mk.TopicPartition(topic, 0): None}


async def test_a_record_that_cannot_be_deserialized_is_released(bootstrap: str, topic: str) -> None:
    await prepare(bootstrap, topic)
    await send_values(bootstrap, topic, b"1", b"{", b"3")
    async with sharing(bootstrap, topic, value_deserializer=Json()) as consumer:
        [first] = await consumer.poll()
        assert str(first.value) == "1"
        with pytest.raises(mk.DeserializationError, match="offset 1"):
            await consumer.poll()
        [third] = await consumer.poll()
        assert str(third.value) == "3"
    async with sharing(bootstrap, topic) as consumer:
        [left] = await taken(consumer, 1)
        assert (left.value, left.delivery_count) == (b"{", 2)


def test_the_blocking_share_consumer(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    trio.run(prepare, bootstrap, topic)
    trio.run(send_values, bootstrap, topic, *NUMBERS)
    values: set[bytes | None] = set()
    with BlockingShareConsumer(bootstrap, topic) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            values.add(record.value)
            if record.value == NUMBERS[0] and record.delivery_count == 1:
                consumer.acknowledge(record, "release")
            elif len(values) == len(NUMBERS) and record.value == NUMBERS[0]:
                break
        assert set(consumer.commit().values()) == {None}
    assert values == set(NUMBERS)
