"""A consumer reads from the replica in its rack (KIP-392), in a real cluster."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from minikafka import testing
from minikafka_client import AdminClient, Consumer, NewTopic, Producer, TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RACKS = ("a", "b", "c")


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[testing.Cluster]:
    """Three nodes, each in a rack of its own."""
    settings = {
        "replica.selector.class": "RackAwareReplicaSelector",
        "replica.lag.time.max.ms": "2000",
    }
    nodes = [testing.NodeOptions({"broker.rack": rack}) for rack in RACKS]
    with testing.cluster(nodes, settings, directory=tmp_path) as running:
        yield running


async def fill(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        await (await producer.send(topic, b"%d" % number))


async def read(consumer: Consumer, count: int) -> None:
    with trio.fail_after(60):
        while count > 0:
            count -= len(await consumer.poll())
    assert count == 0


async def test_the_replica_in_the_rack_is_read_from_as_long_as_it_lives(
    cluster: testing.Cluster,
) -> None:
    bootstrap = cluster.bootstrap
    topic, where = "near", TopicPartition("near", 0)
    async with AdminClient(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, replica_assignments={0: (1, 2, 3)})])
    async with (
        Producer(bootstrap) as producer,
        Consumer(bootstrap, client_rack="b", auto_offset_reset="earliest") as near,
        Consumer(bootstrap, client_rack="a", auto_offset_reset="earliest") as at_leader,
        Consumer(bootstrap, auto_offset_reset="earliest") as anywhere,
    ):
        for consumer in (near, at_leader, anywhere):
            await consumer.assign([where])
        await fill(producer, topic, 50)
        for consumer in (near, at_leader, anywhere):
            await read(consumer, 50)
        await fill(producer, topic, 10)
        await read(near, 10)
        found = near.statistics()
        assert found.partitions[where].preferred_replica == 2
        assert found.brokers[2].latency.request_count > 0
        for consumer in (at_leader, anywhere):
            await read(consumer, 10)
            assert consumer.statistics().brokers.keys() == {1}
        cluster.kill(2)
        await fill(producer, topic, 20)
        await read(near, 20)
        assert near.statistics().partitions[where].preferred_replica != 2
