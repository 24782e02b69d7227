"""A topic is deleted and recreated, and a coordinator knows only the deletion."""

from __future__ import annotations

from pathlib import Path

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics, delete_topics
from tests.broker.handlers.transactional_wire import TID, add, begun, end, find, write
from tests.kit.in_process import ClusterNode, ClusterUnderTest, running_cluster
from tests.kit.wire import WireClient, assigned, create_request

OK = ErrorCode.NONE


async def create(client: WireClient, leader: ClusterNode) -> None:
    """Create t, with one partition on a node."""
    request = create_request(assigned("t", [leader.node_id]))
    answer = await client.ask(request, 5, create_topics.Response)
    assert answer.topics[0].error_code == OK


async def roles(cluster: ClusterUnderTest) -> tuple[ClusterNode, ClusterNode, ClusterNode]:
    """The controller, the coordinator on another node, and a node that is not the coordinator."""
    controller = await cluster.controller()
    await find(controller.connect(), TID)
    name = "__transaction_state"
    await cluster.until(lambda: all(name in one.broker.image.topics for one in cluster.running))
    coordinator = cluster.nodes[controller.partition(name).leader]
    while coordinator is controller:  # its changes would wait for the lock that this test holds
        await controller.broker.quorum.transfer_leadership()
        controller = await cluster.controller()
    return controller, coordinator, next(one for one in cluster.running if one is not coordinator)


async def test_a_transaction_is_not_confirmed_for_a_topic_that_its_coordinator_does_not_know(
    tmp_path: Path,
) -> None:
    """It would consider the topic deleted, write no marker, and leave the transaction open."""
    async with running_cluster(tmp_path, "transaction.state.log.num.partitions=1") as cluster:
        controller, coordinator, leader = await roles(cluster)
        admin = controller.connect()
        await create(admin, leader)
        await cluster.until(lambda: all("t" in one.broker.image.topics for one in cluster.running))
        client, producing = coordinator.connect(), leader.connect()
        producer = await begun(client)
        assert await add(client, producer, ("t", 0)) == {("t", 0): OK}

        def is_led_again() -> bool:
            partition = leader.broker.partitions.get(("t", 0))
            return (
                partition is not None
                and partition.is_leader
                and partition.topic.topic_id != old.topic_id
            )

        old = leader.broker.image.topics["t"]
        # As while a log is recovered: decisions after the deletion wait.
        async with coordinator.broker.replicas._lock:
            request = delete_topics.Request(topic_names=["t"], timeout_ms=5_000)
            answer = await admin.ask(request, 4, delete_topics.Response)
            assert answer.responses[0].error_code == OK
            await cluster.until(lambda: "t" not in coordinator.broker.image.topics)
            await create(admin, leader)
            await cluster.until(is_led_again)
            code = await write(producing, producer, b"x")
            assert code == ErrorCode.NOT_ENOUGH_REPLICAS  # ask again
        with trio.fail_after(60):
            while code == ErrorCode.NOT_ENOUGH_REPLICAS:
                code = await write(producing, producer, b"x")
        assert code == OK
        assert (await end(client, producer)).error_code == OK
        log = leader.broker.partitions["t", 0].log
        await cluster.until(lambda: log.last_stable_offset == 2)
