"""Our client survives restarts of Apache Kafka: nothing is lost, nothing is duplicated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from minikafka_client import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from minikafka_client.patterns import AtLeastOnce
from minikafka_client.sync import Producer as BlockingProducer
from minikafka_client.sync import Reader, Writer
from tests.peers.apache_kafka import OwnApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 3
BETWEEN_ENDS = 300
"""So many records are acknowledged (and read) before the broker's next end."""
# A broker that was killed is refused until its last session ends: after 9 s by default.
SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def node(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[OwnApacheKafka]:
    """A node of these tests' own."""
    with OwnApacheKafka(tmp_path_factory.mktemp("mortal") / "node", SETTINGS) as mortal:
        yield mortal


async def new_topic(node: OwnApacheKafka, topic: str) -> str:
    async with AdminClient(node.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS)])
    return topic


async def kill_and_stop(node: OwnApacheKafka, wait: trio.MemoryReceiveChannel[None]) -> None:
    """End the broker in both ways, each time after something has happened."""
    for end in (node.kill, node.stop):
        await wait.receive()
        await trio.to_thread.run_sync(end)
        await trio.to_thread.run_sync(node.launch)
    await wait.receive()


async def read_all(node: OwnApacheKafka, topic: str) -> dict[int, list[bytes]]:
    values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    where = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with Consumer(node.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign(where)
        ends = await consumer.end_offsets(where)
        while sum(map(len, values.values())) < sum(ends.values()):
            for record in await consumer.poll():
                assert record.value is not None
                values[record.partition].append(record.value)
    return values


async def test_an_idempotent_producer_keeps_order_and_doubles_nothing(
    node: OwnApacheKafka, name: str
) -> None:
    await new_topic(node, name)
    sent: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    tell, heard = trio.open_memory_channel[None](1_000)
    is_over = trio.Event()

    async def produce(partition: int, producer: Producer) -> None:
        number = 0
        while not is_over.is_set():
            value = b"%d-%d" % (partition, number)
            sent[partition].append(value)
            delivery = await producer.send(name, value, partition=partition)
            number += 1
            if number % BETWEEN_ENDS == 0:
                await delivery
                if partition == 0:
                    tell.send_nowait(None)

    async with Producer(node.bootstrap, linger_ms=1, buffer_memory=200_000) as producer:
        async with trio.open_nursery() as nursery:
            for partition in range(PARTITIONS):
                nursery.start_soon(produce, partition, producer)
            await kill_and_stop(node, heard)
            is_over.set()
        await producer.flush()
        found = producer.statistics()
    assert (found.failed_records, found.delivered_records) == (0, sum(map(len, sent.values())))
    assert found.connections.disconnects >= 2
    assert await read_all(node, name) == sent


async def test_a_group_of_consumers_continues_and_misses_nothing(
    node: OwnApacheKafka, name: str
) -> None:
    await new_topic(node, name)
    read: Counter[bytes] = Counter()
    sent: set[bytes] = set()
    tell, heard = trio.open_memory_channel[None](1_000)
    is_sent, is_read = trio.Event(), trio.Event()

    async def produce() -> None:
        async with Producer(node.bootstrap) as producer:
            while not is_sent.is_set():
                value = b"%d" % len(sent)
                sent.add(value)
                await (await producer.send(name, value, partition=len(sent) % PARTITIONS))

    async def consume() -> None:
        async with AtLeastOnce(
            node.bootstrap,
            [name],
            group_id=name,
            max_records=20,
            heartbeat_interval_ms=500,
            session_timeout_ms=20_000,
        ) as records:
            async for record in records:
                assert record.value is not None
                read[record.value] += 1
                if read.total() % BETWEEN_ENDS == 0:
                    tell.send_nowait(None)
                if is_sent.is_set() and read.keys() >= sent:
                    is_read.set()

    with trio.fail_after(600):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(consume)
            nursery.start_soon(produce)
            await kill_and_stop(node, heard)
            is_sent.set()
            async with Producer(node.bootstrap) as producer:  # so that both look again
                for partition in range(PARTITIONS):
                    last = b"last of %d" % partition
                    sent.add(last)
                    await producer.send(name, last, partition=partition)
            await is_read.wait()
            nursery.cancel_scope.cancel()
    assert read.keys() == sent
    repeated = sum(read.values()) - len(read)
    assert repeated <= 3 * 2 * 20 * 2, "each end repeats at most what was not committed"


def test_the_blocking_writer_and_reader_wait_for_it(node: OwnApacheKafka, name: str) -> None:
    trio.run(new_topic, node, name)
    values = [b"%d" % number for number in range(3 * BETWEEN_ENDS)]
    with Writer(node.bootstrap, batch_size=500) as writer:
        for number, value in enumerate(values):
            if number in (BETWEEN_ENDS, 2 * BETWEEN_ENDS):
                node.kill()
                node.launch()
            writer.send(name, value, partition=0)
    read: list[bytes | None] = []
    ranges = {TopicPartition(name, 0): (0, len(values))}
    with Reader(
        node.bootstrap, ranges, max_partition_fetch_bytes=2_000, prefetch_size_bytes_max=4_000
    ) as reader:
        for run in reader:
            if len(read) < BETWEEN_ENDS <= len(read) + len(run):
                node.kill()
                node.launch()
            read += run.values
    assert read == values


def test_the_blocking_producer_waits_for_it(node: OwnApacheKafka, name: str) -> None:
    trio.run(new_topic, node, name)
    with BlockingProducer(node.bootstrap) as producer:
        before = producer.send(name, b"before", partition=0).result()
        node.kill()
        during = producer.send(name, b"during", partition=0)
        node.launch()
        after = producer.send(name, b"after", partition=0)
        places = [before.offset, during.result().offset, after.result().offset]
    assert places == [0, 1, 2]
