"""What a consumer returns, and counts as processed, when it is interrupted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from minikafka_client import Consumer, Producer, TopicPartition
from minikafka_client.errors import CommitFailedError
from tests.client.trio_api.topics import fill_topic, new_topic

Place = tuple[int, int]


async def prefetched(consumer: Consumer, next_offset: int, partition: TopicPartition) -> None:
    """Wait until everything before an offset is here."""
    reader = consumer._poller.readers[partition]
    while reader.fetch_offset < next_offset:
        await trio.testing.wait_all_tasks_blocked(0.005)


@pytest.mark.parametrize("way", ["subscribe", "assign"])
async def test_a_late_fetch_of_an_older_assignment_skips_nothing(
    bootstrap: str, topic: str, name: str, way: str
) -> None:
    other = await new_topic(bootstrap, name, 1)
    where = TopicPartition(topic, 0)
    await fill_topic(bootstrap, topic, 0, 10)
    got: list[int] = []
    async with Consumer(bootstrap, group_id=topic) as consumer:
        await consumer.assign([where])
        await consumer.commit({where: 0})
    async with (
        Consumer(
            bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=2_000,
            auto_commit_interval_ms=100,
            partition_assignment_strategy=["range"],
        ) as consumer,
        Producer(bootstrap) as producer,
    ):
        await (consumer.subscribe([topic]) if way == "subscribe" else consumer.assign([where]))
        with trio.fail_after(100):
            got += [one.offset for one in await consumer.poll(1)]
            await prefetched(consumer, 10, where)  # and one that waits for more is under way
            if way == "subscribe":
                await consumer.subscribe([topic, other])
                got += [one.offset for one in await consumer.poll(1, 0)]
            else:
                await consumer.commit({where: 1})
                await consumer.assign([])
                await consumer.assign([where])
            while where not in consumer.assignment or consumer._poller.readers[where].position < 0:
                if way == "subscribe":
                    got += [one.offset for one in await consumer.poll(1, 10)]
                await trio.testing.wait_all_tasks_blocked(0.005)
            await (await producer.send(topic, b"new", partition=0))
            while not got or got[-1] != 10:
                got += [one.offset for one in await consumer.poll(100, 1_000)]
    assert got == list(range(11))


async def test_a_partition_that_is_paused_half_way_continues_where_it_was(
    bootstrap: str, name: str
) -> None:
    topic = await new_topic(bootstrap, name, 2)
    for number in (0, 1):
        await fill_topic(bootstrap, topic, number, 5)
    got: list[Place] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        with trio.fail_after(100):
            (first,) = await consumer.poll(1)
            got.append((first.partition, first.offset))
            consumer.pause([TopicPartition(topic, first.partition)])
            got += [(one.partition, one.offset) for one in await consumer.poll(100)]
            consumer.resume([TopicPartition(topic, first.partition)])
            while len(got) < 10:
                got += [(one.partition, one.offset) for one in await consumer.poll(100)]
    assert sorted(got) == [(number, offset) for number in (0, 1) for offset in range(5)]


async def test_a_poll_that_is_cancelled_when_records_come_loses_none(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[int] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest", group_id=topic) as consumer:
        await consumer.subscribe([topic])
        await consumer.poll(1, 3_000)
        scope = trio.CancelScope()
        wake = consumer._poller.wake

        def wake_and_cancel() -> None:
            wake()
            if any(one.fetched for one in consumer._poller.readers.values()):
                scope.cancel()

        with monkeypatch.context() as patch, trio.fail_after(100):
            patch.setattr(consumer._fetches, "_on_arrival", wake_and_cancel)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fill_topic, bootstrap, topic, 0, 5)
                with scope:
                    got += [one.offset for one in await consumer.poll()]
        with trio.fail_after(100):
            while len(got) < 5:
                got += [one.offset for one in await consumer.poll(100)]
    assert got == [0, 1, 2, 3, 4]


async def write_and_give_up(bootstrap: str, topic: str) -> None:
    """Abort a transaction with one record."""
    async with Producer(bootstrap, transactional_id=topic) as producer, producer.transaction():
        await (await producer.send(topic, b"x", partition=0))
        raise ValueError("given up")


async def test_what_poll_returns_is_not_processed_before_the_next_poll(
    bootstrap: str, topic: str
) -> None:
    """Not even if nothing but an aborted transaction comes behind it."""
    where = TopicPartition(topic, 0)
    async with Consumer(
        bootstrap, auto_offset_reset="earliest", group_id=topic, isolation_level="read_committed"
    ) as consumer:
        with trio.fail_after(100):
            await consumer.subscribe([topic])
            while not consumer.assignment:
                await consumer.poll(1, 100)
            await fill_topic(bootstrap, topic, 0, 5)
            await prefetched(consumer, 5, where)
            with pytest.raises(ValueError, match="given up"):
                await write_and_give_up(bootstrap, topic)
            await prefetched(consumer, 7, where)
            assert [one.offset for one in await consumer.poll(100)] == [0, 1, 2, 3, 4]
            reader = consumer._poller.readers[where]
            assert consumer._poller.consumption.processed(reader).offset == 0
            assert await consumer.poll(1, 0) == []
            assert consumer._poller.consumption.processed(reader).offset >= 5


async def test_after_a_seek_an_iterator_that_timed_out_hands_nothing_old_out(
    bootstrap: str, topic: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 5)
    where = TopicPartition(topic, 0)
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([where])
        records = aiter(consumer)
        with trio.fail_after(100):
            assert (await anext(records)).offset == 0
        await consumer.seek_to_end([where])
        for _ in range(2):
            with trio.move_on_after(0.3) as patience:
                await anext(records)
            assert patience.cancelled_caught
        await fill_topic(bootstrap, topic, 0, 1)
        with trio.fail_after(100):
            assert (await anext(records)).offset == 5


async def test_a_position_can_be_asked_for_while_partitions_are_assigned(
    bootstrap: str, topic: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 5)
    positions: list[int] = []

    async def on_assigned(partitions: Sequence[TopicPartition]) -> None:
        positions.extend([await consumer.position(one) for one in partitions])

    async with Consumer(
        bootstrap, auto_offset_reset="earliest", group_id=topic, on_partitions_assigned=on_assigned
    ) as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(100):
            assert await consumer.poll(100)
    assert positions == [0]


async def test_a_callback_that_is_cancelled_keeps_no_partition_unread(
    bootstrap: str, topic: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 5)
    scope = trio.CancelScope()

    async def on_assigned(_: Sequence[TopicPartition]) -> None:
        scope.cancel()
        await trio.sleep_forever()

    async with Consumer(
        bootstrap, auto_offset_reset="earliest", group_id=topic, on_partitions_assigned=on_assigned
    ) as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(100):
            with scope:
                await consumer.poll(100)
            assert scope.cancelled_caught
            assert await consumer.poll(100)


async def test_a_callback_that_fails_does_not_keep_the_member_out_of_the_group(
    bootstrap: str, topic: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 5)

    async def on_revoked(_: Sequence[TopicPartition]) -> None:
        await consumer.commit()

    async with Consumer(
        bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_interval_ms=1_000,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
        on_partitions_revoked=on_revoked,
    ) as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(100):
            assert await consumer.poll(1)
            assert consumer._group is not None
            while consumer._group.member.generation_id >= 0:  # it has taken too long
                await trio.testing.wait_all_tasks_blocked(0.01)
            with pytest.raises(CommitFailedError):
                await consumer.poll(1)
            assert await consumer.poll(1)


async def test_one_undecided_offset_keeps_no_other_partition(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 2)
    await fill_topic(bootstrap, topic, 1, 5)
    undecided, other = (TopicPartition(topic, number) for number in (0, 1))
    async with (
        Producer(bootstrap, transactional_id=topic) as producer,
        producer.transaction() as transaction,
        Consumer(
            bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            default_api_timeout_ms=500,
        ) as consumer,
    ):
        await transaction.send_offsets({undecided: 0}, topic)
        await consumer.assign([undecided, other])
        with trio.fail_after(100):
            assert len(await consumer.poll(10)) == 5
