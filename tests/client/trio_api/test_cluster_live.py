"""Both clients while leaders and coordinators move, die and come back, in a real cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import trio

import minikafka_client as mk
from minikafka import testing
from minikafka_client.patterns import AtLeastOnce
from minikafka_client.sync import Reader, Writer
from tests.client.trio_api.topics import NewName
from tests.kit.live import check_logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3
BETWEEN = 200
SETTINGS = {
    "auto.create.topics.enable": "false",
    "replica.lag.time.max.ms": "2000",
    "group.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[testing.Cluster]:
    """Three brokers; a test that kills one restarts it."""
    with testing.cluster(3, SETTINGS, directory=tmp_path_factory.mktemp("cluster")) as live:
        yield live
        check_logs(live)


async def new_topic(cluster: testing.Cluster, name: str, **configs: str) -> str:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with mk.AdminClient(cluster.bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(name, PARTITIONS, 3, settings)])
    return name


async def leader_of(cluster: testing.Cluster, topic: str, partition: int = 0) -> int:
    async with mk.AdminClient(cluster.bootstrap) as admin:
        described = await admin.describe_topics([topic])
    return described[topic].partitions[partition].leader


async def coordinator_of(cluster: testing.Cluster, group: str) -> int:
    async with mk.AdminClient(cluster.bootstrap) as admin:
        described = await admin.describe_groups([group])
    return described[group].coordinator


async def in_thread(change: Callable[..., object], node: int) -> None:
    await trio.to_thread.run_sync(change, node)


async def read_all(cluster: testing.Cluster, topic: str) -> dict[int, list[bytes]]:
    values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    where = [mk.TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with mk.Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign(where)
        ends = await consumer.end_offsets(where)
        while sum(map(len, values.values())) < sum(ends.values()):
            for record in await consumer.poll():
                assert record.value is not None
                values[record.partition].append(record.value)
    return values


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_producer_follows_the_leaders(
    cluster: testing.Cluster, new_name: NewName, end: str
) -> None:
    topic = await new_topic(cluster, f"{new_name()}-{end}")
    sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    tell, heard = trio.open_memory_channel[None](math.inf)
    is_over = trio.Event()

    async def produce(partition: int, producer: mk.Producer) -> None:
        while not is_over.is_set():
            value = b"%d" % len(sent[partition])
            sent[partition].append(value)
            delivery = await producer.send(topic, value, partition=partition)
            if len(sent[partition]) % BETWEEN == 0:
                await delivery
                if not partition:
                    tell.send_nowait(None)

    async with mk.Producer(cluster.bootstrap, linger_ms=1, buffer_memory=100_000) as producer:
        async with trio.open_nursery() as nursery:
            for partition in range(PARTITIONS):
                nursery.start_soon(produce, partition, producer)
            for _ in range(2):
                await heard.receive()
                leader = await leader_of(cluster, topic)
                await in_thread(getattr(cluster, end), leader)
                await heard.receive()
                await in_thread(cluster.start, leader)
            await heard.receive()
            is_over.set()
        await producer.flush()
        found = producer.statistics()
    assert found.failed_records == 0
    assert await read_all(cluster, topic) == sent


async def test_a_group_follows_its_coordinator(cluster: testing.Cluster, new_name: NewName) -> None:
    topic, group = await new_topic(cluster, f"{new_name()}-group"), new_name()
    sent: set[bytes] = set()
    read: dict[bytes, int] = {}
    tell, heard = trio.open_memory_channel[None](math.inf)
    is_sent, is_read = trio.Event(), trio.Event()

    async def produce() -> None:
        async with mk.Producer(cluster.bootstrap) as producer:
            while not is_sent.is_set():
                value = b"%d" % len(sent)
                sent.add(value)
                await (await producer.send(topic, value, partition=len(sent) % PARTITIONS))

    async def consume() -> None:
        async with AtLeastOnce(
            cluster.bootstrap, [topic], group_id=group, max_records=20, heartbeat_interval_ms=300
        ) as records:
            async for record in records:
                assert record.value is not None
                read[record.value] = read.get(record.value, 0) + 1
                if sum(read.values()) % BETWEEN == 0:
                    tell.send_nowait(None)
                if is_sent.is_set() and read.keys() >= sent:
                    is_read.set()

    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(consume)
            nursery.start_soon(produce)
            for end in (cluster.kill, cluster.stop):
                await heard.receive()
                node = await coordinator_of(cluster, group)
                await in_thread(end, node)
                await heard.receive()
                assert await coordinator_of(cluster, group) != node
                await in_thread(cluster.start, node)
            is_sent.set()
            async with mk.Producer(cluster.bootstrap) as producer:  # so that both look again
                for partition in range(PARTITIONS):
                    last = b"last of %d" % partition
                    sent.add(last)
                    await producer.send(topic, last, partition=partition)
            await is_read.wait()
            nursery.cancel_scope.cancel()
    assert read.keys() == sent


async def poll_forever(consumer: mk.Consumer) -> None:
    while True:
        await consumer.poll()


async def test_a_truncated_log_is_noticed(cluster: testing.Cluster, new_name: NewName) -> None:
    topic = f"{new_name()}-unclean"
    where = mk.TopicPartition(topic, 0)
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    async with mk.AdminClient(cluster.bootstrap) as admin:
        await admin.create_topics(
            [mk.NewTopic(topic, configs=configs, replica_assignments={0: (1, 2)})]
        )
    async with (
        mk.Producer(cluster.bootstrap) as producer,
        mk.Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer,
    ):
        await consumer.assign([where])
        consumer.seek(where, 0)
        for number in range(10):
            await (await producer.send(topic, b"both %d" % number))
        await in_thread(cluster.kill, 2)
        for number in range(5):  # only node 1 has them: the other one has left the ISR
            await (await producer.send(topic, b"one %d" % number))
        read: list[bytes | None] = []
        with trio.fail_after(60):
            while len(read) < 15:
                read += [record.value for record in await consumer.poll()]
        await in_thread(cluster.kill, 1)
        await in_thread(cluster.start, 2)
        with pytest.raises(mk.LogTruncationError) as caught, trio.fail_after(120):
            await poll_forever(consumer)
        divergent = caught.value.divergent_offset
        assert divergent.offset == 10
        assert caught.value.position.offset == 15
        consumer.seek(where, divergent.offset)
        await (await producer.send(topic, b"after"))
        assert [record.value for record in await consumer.poll()] == [b"after"]
        position = consumer.positions()[where]
        assert isinstance(position, mk.OffsetAndMetadata)
        assert position.leader_epoch > caught.value.position.leader_epoch
        await in_thread(cluster.start, 1)


def test_the_light_reader_and_writer_follow_the_leaders(
    cluster: testing.Cluster, new_name: NewName, tmp_path: Path
) -> None:
    topic = trio.run(new_topic, cluster, f"{new_name()}-light")
    values = [b"%d" % number for number in range(3 * BETWEEN)]
    down = 0
    with Writer(cluster.bootstrap, batch_size=500) as writer:
        for number, value in enumerate(values):
            if number and number % BETWEEN == 0:
                if down:
                    cluster.start(down)
                down = trio.run(leader_of, cluster, topic)
                cluster.kill(down)
            writer.send(topic, value, partition=0)
    cluster.start(down)
    ranges = {mk.TopicPartition(topic, 0): (0, len(values))}
    read: list[bytes | None] = []
    down = 0
    with Reader(
        cluster.bootstrap, ranges, max_partition_fetch_bytes=2_000, prefetch_size_bytes_max=4_000
    ) as reader:
        for run in reader:
            if not down and len(read) > BETWEEN:
                down = trio.run(leader_of, cluster, topic)
                cluster.kill(down)
            read += run.values
    cluster.start(down)
    assert read == values
