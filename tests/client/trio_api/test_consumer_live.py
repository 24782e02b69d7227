"""The trio consumer against our broker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import pytest
import trio

import minikafka_client as mk
from minikafka.testing import Broker
from minikafka_client.core.assignors.registry import AssignorName
from tests.client.trio_api.topics import NewName, fill_topic, new_topic

Reset = Literal["earliest", "latest", "none"]


async def take(consumer: mk.Consumer, count: int) -> list[int]:
    """The offsets of the next records, one by one."""
    offsets: list[int] = []
    async for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == count:
            break
    return offsets


async def poll_forever(consumer: mk.Consumer) -> None:
    while True:
        await consumer.poll(1, 100)


async def test_records_come_in_order_by_every_way_of_reading(bootstrap: str, topic: str) -> None:
    await fill_topic(bootstrap, topic, 0, 2_500)
    where = mk.TopicPartition(topic, 0)
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([where])
        assert await take(consumer, 700) == list(range(700))
        assert await consumer.position(where) == 700
        polled = await consumer.poll(300)
        assert [record.offset for record in polled] == list(range(700, 1_000))
        offsets: list[int] = []
        async for batch in consumer.batches():
            assert len(batch) == len(batch.values) == len(batch.offsets)
            offsets += batch.offsets
            if offsets[-1] == 2_499:
                break
        assert offsets == list(range(1_000, 2_500))
        assert await consumer.position(where) == 2_500
        assert consumer.lag(where) == 0
        assert await consumer.poll(10, 50) == []


async def test_seeking_and_pausing(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 2)
    first, second = mk.TopicPartition(topic, 0), mk.TopicPartition(topic, 1)
    await fill_topic(bootstrap, topic, 0, 100)
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([first, second])
        assert await take(consumer, 10) == list(range(10))
        consumer.seek(first, 50)
        assert await take(consumer, 3) == [50, 51, 52]
        await consumer.seek_to_beginning()
        assert await take(consumer, 2) == [0, 1]
        await consumer.seek_to_end([first])
        assert await consumer.position(first) == 100
        consumer.seek(first, 97)
        consumer.pause([first])
        assert await consumer.poll(10, 100) == []
        consumer.resume([first])
        assert [record.offset for record in await consumer.poll(10)] == [97, 98, 99]
        with pytest.raises(ValueError, match="is not assigned"):
            consumer.seek(mk.TopicPartition("other", 0), 0)
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(first, -1)


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 10)])
async def test_where_a_consumer_without_offsets_begins(
    bootstrap: str, topic: str, reset: Reset, expected: int
) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill_topic(bootstrap, topic, 0, 10)
    async with mk.Consumer(bootstrap, auto_offset_reset=reset) as consumer:
        await consumer.assign([where])
        assert await consumer.position(where) == expected


async def test_without_a_reset_there_must_be_an_offset(
    bootstrap: str, topic: str, group: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill_topic(bootstrap, topic, 0, 10)
    async with mk.Consumer(bootstrap, group_id=group, auto_offset_reset="none") as consumer:
        await consumer.assign([where])
        with pytest.raises(mk.NoOffsetError, match="has no committed offset"):
            await consumer.poll()
        with pytest.raises(mk.NoOffsetError):
            await consumer.position(where)
        consumer.seek(where, 4)
        assert await take(consumer, 1) == [4]
        consumer.seek(where, 4_000)
        with pytest.raises(mk.NoOffsetError, match="has no offset 4000"):
            await consumer.poll()
        consumer.seek(where, 9)
        assert await take(consumer, 1) == [9]


async def test_offsets_can_be_looked_up(bootstrap: str, new_name: NewName) -> None:
    topic = await new_topic(bootstrap, new_name(), 2)
    first, second = mk.TopicPartition(topic, 0), mk.TopicPartition(topic, 1)
    await fill_topic(bootstrap, topic, 0, 10)
    async with mk.Consumer(bootstrap) as consumer:
        assert await consumer.beginning_offsets([first]) == {first: 0}
        assert await consumer.end_offsets([first, second]) == {first: 10, second: 0}
        found = await consumer.offsets_for_times({first: 1_004, second: 0})
        assert found == {first: mk.OffsetAndTimestamp(4, 1_004, 0), second: None}
        assert await consumer.partitions_for(topic) == [0, 1]
        with pytest.raises(mk.UnknownTopicError):
            await consumer.partitions_for(new_name())


async def test_a_group_continues_where_it_committed(bootstrap: str, topic: str, group: str) -> None:
    where = mk.TopicPartition(topic, 0)
    await fill_topic(bootstrap, topic, 0, 30)

    async def read(count: int) -> list[int]:
        async with mk.Consumer(
            bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            await consumer.subscribe([topic])
            offsets = await take(consumer, count)
            await consumer.commit()
            await take(consumer, 1)  # read, but not committed
        return offsets

    assert await read(10) == list(range(10))
    assert await read(5) == list(range(10, 15))
    async with mk.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        assert await consumer.committed([where]) == {where: mk.OffsetAndMetadata(15, "", 0)}
        await consumer.assign([where])
        assert await take(consumer, 1) == [15]


async def test_leaving_commits_what_was_returned(bootstrap: str, topic: str, group: str) -> None:
    await fill_topic(bootstrap, topic, 0, 30)
    for first in (0, 7, 14):
        async with mk.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic])
            assert await take(consumer, 7) == list(range(first, first + 7))


async def test_a_record_whose_processing_fails_is_read_again(
    bootstrap: str, topic: str, group: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 30)

    async def process_until(bad: int) -> None:
        async with mk.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                if record.offset == bad:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await process_until(5)
    async with mk.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe([topic])
        assert await take(consumer, 1) == [5]


async def test_offsets_and_metadata_of_ones_own_choice(bootstrap: str, new_name: NewName) -> None:
    topic, group = await new_topic(bootstrap, new_name(), 2), new_name()
    first, second = mk.TopicPartition(topic, 0), mk.TopicPartition(topic, 1)
    told: list[tuple[object, object]] = []
    is_told = trio.Event()

    def callback(offsets: object, error: mk.KafkaError | None) -> None:
        told.append((offsets, error))
        if len(told) == 3:
            is_told.set()

    async with mk.Consumer(bootstrap, group_id=group) as consumer:
        await consumer.commit({first: mk.OffsetAndMetadata(3, "why"), second: 4})
        assert await consumer.committed([first]) == {first: mk.OffsetAndMetadata(3, "why", -1)}
        for offset in (5, 6, 7):
            consumer.commit_nowait({first: offset}, callback=callback)
        await is_told.wait()
        assert told == [({first: offset}, None) for offset in (5, 6, 7)]
        assert (await consumer.committed([first]))[first] == mk.OffsetAndMetadata(7)
        await consumer.commit({})


async def test_without_a_group_there_is_nothing_to_commit(bootstrap: str) -> None:
    async with mk.Consumer(bootstrap) as consumer:
        with pytest.raises(ValueError, match="give the consumer a group_id"):
            await consumer.commit()
        with pytest.raises(ValueError, match="needs a group"):
            await consumer.subscribe(["t"])


async def test_subscribing_and_assigning_exclude_each_other(
    bootstrap: str, topic: str, group: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    async with mk.Consumer(bootstrap, group_id=group) as consumer:
        await consumer.assign([where])
        with pytest.raises(ValueError, match="assigned with assign"):
            await consumer.subscribe([topic])
        await consumer.unsubscribe()
        assert consumer.assignment == frozenset()
        await consumer.subscribe([topic])
        with pytest.raises(ValueError, match="is subscribed"):
            await consumer.assign([where])
        with pytest.raises(TypeError, match="not one string"):
            await consumer.subscribe(topic)
        await consumer.unsubscribe()
        await consumer.assign([where])
        assert consumer.assignment == {where}
        await consumer.assign([])
        assert consumer.assignment == frozenset()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
async def test_two_members_share_and_nothing_is_lost_or_doubled(
    bootstrap: str, new_name: NewName, assignor: AssignorName
) -> None:
    topic, group = await new_topic(bootstrap, new_name(), 4), new_name()
    for partition in range(4):
        await fill_topic(bootstrap, topic, partition, 50)
    seen: list[tuple[int, int]] = []
    events: list[str] = []
    reading: set[str] = set()

    async def member(name: str, task_status: trio.TaskStatus[None]) -> None:
        async def assigned(partitions: Sequence[mk.TopicPartition]) -> None:
            events.append(f"{name} +{len(partitions)}")
            if partitions and name not in reading:
                reading.add(name)
                task_status.started()

        async def revoked(partitions: Sequence[mk.TopicPartition]) -> None:
            events.append(f"{name} -{len(partitions)}")

        async with mk.Consumer(
            bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=50,
            partition_assignment_strategy=[assignor],
            on_partitions_assigned=assigned,
            on_partitions_revoked=revoked,
        ) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                seen.append((record.partition, record.offset))
                await trio.lowlevel.checkpoint()
                if len(set(seen)) == 400:
                    break

    async with trio.open_nursery() as nursery:
        await nursery.start(member, "a")
        await nursery.start(member, "b")
        for partition in range(4):
            await fill_topic(bootstrap, topic, partition, 50)
        while len(set(seen)) < 400:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert sorted(seen) == [(partition, offset) for partition in range(4) for offset in range(100)]
    assert events[0] == "a +4"
    if assignor == "cooperative-sticky":
        assert "a -2" in events
    else:
        assert "a -4" in events
    assert "b +2" in events


async def test_a_pattern_finds_topics_that_come_later(bootstrap: str, new_name: NewName) -> None:
    prefix, group = new_name(), new_name()
    await new_topic(bootstrap, f"{prefix}-a")
    await fill_topic(bootstrap, f"{prefix}-a", 0, 1)
    async with mk.Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", metadata_max_age_ms=50
    ) as consumer:
        await consumer.subscribe(re.compile(rf"{prefix}-\w"))
        assert await take(consumer, 1) == [0]
        await new_topic(bootstrap, f"{prefix}-b")
        await fill_topic(bootstrap, f"{prefix}-b", 0, 1)
        assert await take(consumer, 1) == [0]
        assert {each.topic for each in consumer.assignment} == {f"{prefix}-a", f"{prefix}-b"}


async def test_a_static_member_is_replaced_by_its_successor(
    bootstrap: str, topic: str, group: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 10)

    def consumer() -> mk.Consumer:
        return mk.Consumer(
            bootstrap,
            group_id=group,
            group_instance_id="one",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=50,
        )

    async with consumer() as first:
        await first.subscribe([topic])
        assert await take(first, 1) == [0]
        async with consumer() as second:
            await second.subscribe([topic])
            assert await take(second, 1) == [0]
            with pytest.raises(mk.FencedError):
                await poll_forever(first)


async def test_who_does_not_poll_loses_its_place_and_its_commits(
    bootstrap: str, topic: str, group: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 10)
    lost: list[Sequence[mk.TopicPartition]] = []

    async def on_lost(partitions: Sequence[mk.TopicPartition]) -> None:
        lost.append(partitions)

    async with mk.Consumer(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        session_timeout_ms=6_000,
        max_poll_interval_ms=1_500,
        on_partitions_lost=on_lost,
    ) as consumer:
        await consumer.subscribe([topic])
        assert await take(consumer, 3) == [0, 1, 2]
        async with mk.AdminClient(bootstrap) as admin:
            while (await admin.describe_groups([group]))[group].state != "Empty":
                await trio.lowlevel.checkpoint()
        with pytest.raises(mk.CommitFailedError, match="not a member of group"):
            await consumer.commit()
        assert await take(consumer, 1) == [0]
        assert lost == [[mk.TopicPartition(topic, 0)]]


async def test_read_committed_shows_what_is_not_in_a_transaction(
    bootstrap: str, topic: str
) -> None:
    await fill_topic(bootstrap, topic, 0, 10)
    async with mk.Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        await consumer.assign([mk.TopicPartition(topic, 0)])
        assert await take(consumer, 10) == list(range(10))


async def test_a_consumer_survives_a_restart_of_the_broker(
    own_broker: Broker, topic: str, group: str
) -> None:
    await fill_topic(own_broker.bootstrap, topic, 0, 10)
    async with mk.Consumer(
        own_broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    ) as consumer:
        await consumer.subscribe([topic])
        assert await take(consumer, 5) == [0, 1, 2, 3, 4]
        own_broker.kill()
        await trio.to_thread.run_sync(own_broker.start)
        async with mk.Producer(own_broker.bootstrap) as producer:
            await (await producer.send(topic, b"after"))
        assert await take(consumer, 6) == [5, 6, 7, 8, 9, 10]
        await consumer.commit()


async def test_a_cancelled_poll_loses_nothing(bootstrap: str, topic: str) -> None:
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([mk.TopicPartition(topic, 0)])
        with trio.move_on_after(0.2) as scope:
            await consumer.poll()
        assert scope.cancelled_caught
        await fill_topic(bootstrap, topic, 0, 3)
        assert await take(consumer, 3) == [0, 1, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"auto_offset_reset": "beginning"},
        {"isolation_level": "serializable"},
        {"group_id": ""},
        {"heartbeat_interval_ms": 50_000},
        {"group_id": "g", "partition_assignment_strategy": []},
    ],
)
def test_an_impossible_option_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options)) + "|partition_assignment_strategy"):
        mk.Consumer("localhost", **options)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="no_such_option"):
        mk.Consumer("localhost", no_such_option=1)  # type: ignore[call-arg]  # on purpose
