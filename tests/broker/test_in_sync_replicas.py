"""The ISR: lagging followers, added and removed replicas, topics that are recreated."""

from __future__ import annotations

from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from tests.broker.replicated import replicated, until
from tests.broker.test_replication import (
    bytes_of,
    logs_of,
    produce_all,
    receive_produced,
)
from tests.kit.wire import one_batch, produce_request


async def test_a_lagging_follower_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2, "replica.lag.time.max.ms=300") as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        await cluster.nodes[2].stop()
        answer = await client.produce("t", b"b", acks=-1)
        assert (answer.error_code, cluster.now().in_sync_replicas) == (0, (1,))
        await cluster.restart(cluster.nodes[2])
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        assert bytes_of(cluster.nodes[2].partition().log) == bytes_of(
            cluster.nodes[1].partition().log
        )


async def test_proposals_are_repeated_until_the_controller_accepts_them(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2, "replica.lag.time.max.ms=100") as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        cluster.refusal = ErrorCode.NOT_CONTROLLER
        await cluster.nodes[2].stop()
        await client.send(produce_request("t", one_batch(b"b"), acks=-1), 9)
        leader = cluster.nodes[1].partition().leader
        assert leader is not None
        await until(lambda: getattr(leader.isr, "attempts", 0) >= 2)
        assert cluster.now().in_sync_replicas == (1, 2)
        cluster.refusal = None
        assert (await receive_produced(client)).error_code == 0
        assert cluster.now().in_sync_replicas == (1,)


async def test_an_added_replica_joins_and_a_removed_one_deletes_its_log(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b")
        await cluster.decide(
            cluster.changed(replicas=(1, 3, 2), adding_replicas=(3,), removing_replicas=(2,))
        )
        await until(lambda: cluster.now().replicas == (1, 3))
        assert cluster.now().in_sync_replicas == (1, 3)
        await until(lambda: ("t", 0) not in cluster.nodes[2].broker.partitions)
        assert ("t", 0) not in cluster.nodes[2].broker.directory.logs
        assert bytes_of(cluster.nodes[3].partition().log) == bytes_of(
            cluster.nodes[1].partition().log
        )
        await produce_all(client, b"c")


async def test_a_single_replica_gets_a_second_one(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1,))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b")
        assert cluster.nodes[1].partition().is_alone
        await cluster.decide(cluster.changed(replicas=(1, 2), adding_replicas=(2,)))
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        await produce_all(client, b"c")
        assert logs_of(cluster)[1].log_end_offset == 3


async def test_a_topic_recreated_while_a_broker_was_down_is_another_topic(tmp_path: Path) -> None:
    from minikafka.metadata.records import RemoveTopicRecord

    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"old", b"older")
        await cluster.nodes[2].stop()
        await cluster.decide(RemoveTopicRecord(cluster.image.topics["t"].topic_id))
        assert ("t", 0) not in cluster.nodes[1].broker.partitions
        await cluster.create_topic("t", (1, 2))
        await cluster.restart(cluster.nodes[2])
        await produce_all(cluster.nodes[1].connect(), b"new")
        second = cluster.nodes[2].partition()
        assert second.topic.topic_id == cluster.image.topics["t"].topic_id
        assert bytes_of(second.log) == bytes_of(cluster.nodes[1].partition().log)


async def test_a_broker_takes_no_role_before_it_is_registered(tmp_path: Path) -> None:
    async with replicated(tmp_path, 1) as cluster:
        node = cluster.nodes[1]
        node.broker.replicas.is_active = False
        await cluster.create_topic("t", (1,))
        assert not node.broker.partitions
        await node.broker.replicas.activate(node.broker_epoch)
        assert node.partition().is_leader
