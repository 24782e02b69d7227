"""Our consumer, on Apache Kafka and on our broker: groups, positions, times."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest
import trio

import minikafka_client as mk
from minikafka_client.core.assignors.registry import AssignorName
from minikafka_client.producer_options import CompressionType
from tests.interop.clients import AIOKAFKA, CODECS, CONFLUENT, KAFKA_PYTHON, Outgoing, produce
from tests.kit.wire import MakeTopic

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]

ASSIGNORS: list[AssignorName] = ["range", "roundrobin", "sticky", "cooperative-sticky"]
RECORDS = [
    Outgoing(b"plain"),
    Outgoing(None, b"tombstone"),
    Outgoing(b"headers", b"k", (("a", b"1"), ("a", b""))),
    Outgoing(b"z" * 50_000, b"large"),
    *(Outgoing(b"value %d" % number, b"key") for number in range(300)),
]


async def send_values(bootstrap: str, topic: str, *values: bytes, partition: int = 0) -> None:
    async with mk.Producer(bootstrap) as producer:
        await producer.send_many(
            topic, [mk.ProducerRecord(value, partition=partition) for value in values]
        )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sender", [CONFLUENT, KAFKA_PYTHON, AIOKAFKA])
async def test_we_read_what_others_send(
    bootstrap: str, topic: str, sender: str, codec: CompressionType
) -> None:
    await trio.to_thread.run_sync(produce, sender, bootstrap, topic, RECORDS, codec)
    received: list[Outgoing] = []
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([mk.TopicPartition(topic, 0)])
        with trio.fail_after(60):
            while len(received) < len(RECORDS):
                for record in await consumer.poll():
                    assert record.offset == len(received)
                    received.append(
                        Outgoing(record.value, record.key, record.headers, record.timestamp_ms)
                    )
    assert received == RECORDS


@pytest.mark.parametrize("assignor", ASSIGNORS)
async def test_three_members_share_and_each_record_is_read_once(
    bootstrap: str, make_topic: MakeTopic, assignor: AssignorName
) -> None:
    topic = make_topic(6)
    wanted = {b"%d-%d" % (partition, n) for partition in range(6) for n in range(50)}
    received: Counter[bytes] = Counter()
    shares: dict[str, frozenset[mk.TopicPartition]] = {}
    everything_read, all_shared = trio.Event(), trio.Event()

    async def member(name: str) -> None:
        async with mk.Consumer(
            bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor],
            heartbeat_interval_ms=200,
        ) as consumer:
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
                nursery.start_soon(member, name)
            await all_shared.wait()
            for partition in range(6):
                values = [value for value in wanted if value.startswith(b"%d-" % partition)]
                await send_values(bootstrap, topic, *values, partition=partition)
    assert set(received) == wanted
    assert set(received.values()) == {1}


async def test_a_group_resumes_where_it_committed(bootstrap: str, topic: str) -> None:
    partition = mk.TopicPartition(topic, 0)
    await send_values(bootstrap, topic, *(b"%d" % n for n in range(20)))
    group = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with mk.Consumer(bootstrap, **group) as consumer:  # type: ignore[arg-type]  # all by name
        await consumer.subscribe([topic])
        first = await read(consumer, 5)
        await consumer.commit({partition: mk.OffsetAndMetadata(5, "five")})
        assert await consumer.committed([partition]) == {
            partition: mk.OffsetAndMetadata(5, "five", -1)
        }
        await read(consumer, 5)  # is not committed
    async with mk.Consumer(bootstrap, **group) as consumer:  # type: ignore[arg-type]  # all by name
        await consumer.subscribe([topic])
        second = await read(consumer, 15)
        assert await consumer.position(partition) == 20
        await consumer.commit()
        committed = (await consumer.committed([partition]))[partition]
    assert committed is not None
    assert committed.offset == 20
    assert first + second == [b"%d" % n for n in range(20)]


async def read(consumer: mk.Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    with trio.fail_after(60):
        while len(values) < count:
            values += [record.value for record in await consumer.poll(count - len(values))]
    return values


async def test_seeking_and_pausing(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    one, other = mk.TopicPartition(topic, 0), mk.TopicPartition(topic, 1)
    await send_values(bootstrap, topic, b"a0", b"a1", b"a2", partition=0)
    await send_values(bootstrap, topic, b"b0", b"b1", b"b2", partition=1)
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([one, other])
        assert sorted(map(str, await read(consumer, 6))) == [
            f"b'{letter}{n}'" for letter in "ab" for n in range(3)
        ]
        consumer.pause([one])
        consumer.seek(one, 1)
        consumer.seek(other, 2)
        assert await read(consumer, 1) == [b"b2"]
        assert await consumer.poll(timeout_ms=300) == []
        consumer.resume([one])
        assert await read(consumer, 2) == [b"a1", b"a2"]
        await consumer.seek_to_beginning([other])
        assert await read(consumer, 3) == [b"b0", b"b1", b"b2"]
        await consumer.seek_to_end()
        assert await consumer.position(one) == 3
        assert await consumer.beginning_offsets([one, other]) == {one: 0, other: 0}
        assert await consumer.end_offsets([one, other]) == {one: 3, other: 3}


async def test_offsets_for_times(bootstrap: str, topic: str) -> None:
    partition = mk.TopicPartition(topic, 0)
    records = [
        mk.ProducerRecord(b"v", timestamp_ms=1_600_000_000_000 + n * 1000) for n in range(10)
    ]
    async with mk.Producer(bootstrap) as producer:
        await producer.send_many(topic, records)
    async with mk.Consumer(bootstrap) as consumer:
        await consumer.assign([partition])
        for timestamp_ms, wanted in [
            (0, (0, 1_600_000_000_000)),
            (1_600_000_003_000, (3, 1_600_000_003_000)),
            (1_600_000_003_001, (4, 1_600_000_004_000)),
            (1_600_000_010_000, None),
        ]:
            found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            assert (found and (found.offset, found.timestamp_ms)) == wanted


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_a_new_group_begins_by_its_reset_policy(
    bootstrap: str, topic: str, reset: Literal["earliest", "latest", "none"]
) -> None:
    partition = mk.TopicPartition(topic, 0)
    await send_values(bootstrap, topic, b"before")
    async with mk.Consumer(bootstrap, group_id=topic, auto_offset_reset=reset) as consumer:
        await consumer.assign([partition])
        if reset == "none":
            with pytest.raises(mk.NoOffsetError):
                await consumer.poll()
            return
        assert await consumer.position(partition) == (0 if reset == "earliest" else 1)
        await send_values(bootstrap, topic, b"after")
        wanted = [b"before", b"after"] if reset == "earliest" else [b"after"]
        assert await read(consumer, len(wanted)) == wanted


async def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(4)
    moved: list[str] = []

    async def note(partitions: object) -> None:
        moved.append("revoked")

    def member(name: str) -> mk.Consumer:
        return mk.Consumer(
            bootstrap,
            group_id=topic,
            group_instance_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            on_partitions_revoked=note if name == "stays" else None,
        )

    async with member("stays") as stays:
        await stays.subscribe([topic])
        first = member("leaves")
        async with first:
            await first.subscribe([topic])
            await poll_until_shared([stays, first], [2, 2])
            had = first.assignment
            moved.clear()
        async with member("leaves") as again:
            await again.subscribe([topic])
            await poll_until_shared([stays, again], [2, 2])
            assert again.assignment == had
        assert not moved


async def poll_until_shared(consumers: list[mk.Consumer], sizes: list[int]) -> None:
    with trio.fail_after(60):
        while sorted(len(each.assignment) for each in consumers) != sizes:
            for consumer in consumers:
                await consumer.poll(timeout_ms=100)
