"""Our consumer notices truncated logs and recreated topics, on Apache Kafka and on our broker."""

from __future__ import annotations

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.errors import ErrorCode
from tests.kit.wire import MakeTopic

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]


async def fill(bootstrap: str, topic: str, count: int) -> None:
    async with mk.Producer(bootstrap) as producer:
        await producer.send_many(topic, [b"%d" % number for number in range(count)])


async def read(consumer: mk.Consumer, count: int) -> list[int]:
    offsets: list[int] = []
    with trio.fail_after(60):
        while len(offsets) < count:
            offsets += [record.offset for record in await consumer.poll()]
    return offsets


async def test_a_position_beyond_the_log_is_a_truncation(bootstrap: str, topic: str) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill(bootstrap, topic, 10)
    async with mk.Consumer(bootstrap, auto_offset_reset="none") as consumer:
        await consumer.assign([where])
        consumer.seek(where, 15, leader_epoch=0)
        with pytest.raises(mk.LogTruncationError) as caught, trio.fail_after(60):
            await consumer.poll()
        assert caught.value.position == mk.OffsetAndMetadata(15, "", 0)
        assert caught.value.divergent_offset == mk.OffsetAndMetadata(10, "", 0)
        consumer.seek(where, caught.value.divergent_offset.offset)
        await fill(bootstrap, topic, 1)
        assert await read(consumer, 1) == [10]


async def test_with_a_reset_policy_reading_resumes_where_the_logs_diverge(
    bootstrap: str, topic: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill(bootstrap, topic, 10)
    async with mk.Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        await consumer.assign([where])
        await consumer.commit({where: mk.OffsetAndMetadata(15, "", 0)})
    async with mk.Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(60):
            while consumer.positions() != {where: mk.OffsetAndMetadata(10, "", 0)}:
                await consumer.poll(timeout_ms=100)
        await fill(bootstrap, topic, 3)
        assert await read(consumer, 3) == [10, 11, 12]
        assert consumer.positions() == {where: mk.OffsetAndMetadata(13, "", 0)}


async def test_a_committed_position_carries_the_epoch_and_is_still_right(
    bootstrap: str, topic: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill(bootstrap, topic, 10)
    async with mk.Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe([topic])
        assert await read(consumer, 10) == list(range(10))
        await consumer.commit()
    await fill(bootstrap, topic, 2)
    async with mk.Consumer(bootstrap, group_id=topic, auto_offset_reset="none") as consumer:
        await consumer.subscribe([topic])
        assert await consumer.committed([where]) == {where: mk.OffsetAndMetadata(10, "", 0)}
        assert await read(consumer, 2) == [10, 11]


async def test_a_recreated_topic_is_read_from_its_beginning(bootstrap: str, topic: str) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill(bootstrap, topic, 10)
    async with (
        mk.AdminClient(bootstrap) as admin,
        mk.Consumer(
            bootstrap, auto_offset_reset="earliest", allow_auto_create_topics=False
        ) as consumer,
    ):
        await consumer.assign([where])
        assert await read(consumer, 10) == list(range(10))
        await admin.delete_topics([topic])
        with trio.fail_after(60):
            while not await created(admin, topic):
                pass  # the old one still exists
        await fill(bootstrap, topic, 12)
        assert await read(consumer, 12) == list(range(12))


async def created(admin: mk.AdminClient, topic: str) -> bool:
    try:
        await admin.create_topics([mk.NewTopic(topic, 1)])
    except mk.KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


async def test_many_partitions_are_fetched_in_a_session(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(50)
    everywhere = [mk.TopicPartition(topic, index) for index in range(50)]
    async with (
        mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer,
        mk.Producer(bootstrap) as producer,
    ):
        await consumer.assign(everywhere)
        for number in range(5):
            for where in everywhere[number::10]:
                await producer.send(topic, b"%d" % number, partition=where.partition)
            await producer.flush()
            consumer.pause(everywhere[5:10])
            assert await read(consumer, 5) == [0] * 5
            consumer.resume(everywhere[5:10])
