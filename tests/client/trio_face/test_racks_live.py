"""A consumer reads from the replica in its rack (KIP-392), in a real cluster."""

from __future__ import annotations

import socket
from collections.abc import Generator

import pytest
import trio

from minikafka_client import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from tests.live_broker import LiveBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RACKS = {1: "a", 2: "b", 3: "c"}


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[int, LiveBroker]]:
    """Three nodes, each in a rack of its own."""
    ports = free_ports(len(RACKS))
    quorum = ",".join(f"{n}@127.0.0.1:{port}" for n, port in zip(RACKS, ports, strict=True))
    nodes = {
        node_id: LiveBroker(
            tmp_path_factory.mktemp(f"node-{node_id}"),
            {
                "broker.rack": rack,
                "replica.selector.class": "RackAwareReplicaSelector",
                "replica.lag.time.max.ms": "2000",
            },
            ("--node-id", str(node_id), "--quorum", quorum),
        )
        for node_id, rack in RACKS.items()
    }
    for node in nodes.values():
        node.launch()
    try:
        for node in nodes.values():
            node.wait_until_ready()
        yield nodes
    finally:
        for node in nodes.values():
            node.kill()


async def fill(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        await (await producer.send(topic, b"%d" % number))


async def read(consumer: Consumer, count: int) -> None:
    with trio.fail_after(60):
        while count > 0:
            count -= len(await consumer.poll())
    assert count == 0


async def test_the_replica_in_the_rack_is_read_from_as_long_as_it_lives(
    brokers: dict[int, LiveBroker],
) -> None:
    bootstrap = ",".join(node.bootstrap for node in brokers.values())
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
        brokers[2].kill()
        await fill(producer, topic, 20)
        await read(near, 20)
        assert near.statistics().partitions[where].preferred_replica != 2
