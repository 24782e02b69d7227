"""A topic is deleted and made again, and a coordinator knows only of the first half."""

from __future__ import annotations

from pathlib import Path

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tests.broker.cluster_harness import ClusterUnderTest, Node, running_cluster
from tests.broker.handlers.transactional_wire import TID, add, begun, end, find, write
from tests.broker.harness import WireClient

OK = ErrorCode.NONE


async def create(client: WireClient, leader: Node) -> None:
    """Make t, with one partition at a node."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[leader.node_id])
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, configs=[], assignments=[assignment]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    answer = await client.ask(request, 5, CreateTopicsResponse)
    assert answer.topics[0].error_code == OK


async def roles(cluster: ClusterUnderTest) -> tuple[Node, Node, Node]:
    """The controller, another node that coordinates, and one that is not the latter."""
    controller = await cluster.controller()
    await find(controller.connect(), TID)
    name = "__transaction_state"
    await cluster.until(lambda: all(name in one.broker.image.topics for one in cluster.running))
    coordinator = cluster.nodes[controller.partition(name).leader]
    while coordinator is controller:  # its changes would wait for what this test holds up
        await controller.broker.quorum.transfer_leadership()
        controller = await cluster.controller()
    return controller, coordinator, next(one for one in cluster.running if one is not coordinator)


async def test_a_transaction_is_not_confirmed_for_a_topic_that_its_coordinator_does_not_know(
    tmp_path: Path,
) -> None:
    """It would take it for deleted, write no marker, and leave it open for ever."""
    async with running_cluster(tmp_path, "transaction.state.log.num.partitions=1") as cluster:
        controller, coordinator, leader = await roles(cluster)
        admin = controller.connect()
        await create(admin, leader)
        await cluster.until(lambda: all("t" in one.broker.image.topics for one in cluster.running))
        client, producing = coordinator.connect(), leader.connect()
        producer = await begun(client)
        assert await add(client, producer, ("t", 0)) == {("t", 0): OK}

        def is_led_anew() -> bool:
            partition = leader.broker.partitions.get(("t", 0))
            return (
                partition is not None
                and partition.is_leader
                and partition.topic.topic_id != old.topic_id
            )

        old = leader.broker.image.topics["t"]
        # As it is held while a log is recovered: what comes after the deletion waits.
        async with coordinator.broker.replicas._lock:
            request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
            answer = await admin.ask(request, 4, DeleteTopicsResponse)
            assert answer.responses[0].error_code == OK
            await cluster.until(lambda: "t" not in coordinator.broker.image.topics)
            await create(admin, leader)
            await cluster.until(is_led_anew)
            code = await write(producing, producer, b"x")
            assert code == ErrorCode.NOT_ENOUGH_REPLICAS  # ask again
        with trio.fail_after(60):
            while code == ErrorCode.NOT_ENOUGH_REPLICAS:
                code = await write(producing, producer, b"x")
        assert code == OK
        assert (await end(client, producer)).error_code == OK
        log = leader.broker.partitions["t", 0].log
        await cluster.until(lambda: log.last_stable_offset == 2)
