"""Administration of a cluster: quorum, leaders, reassignments, settings, brokers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.quorum.quorum import Quorum
from minikafka.broker.quorum.reports import QuorumStatistics, ReplicaStatistics
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    alter_partition_reassignments,
    create_topics,
    describe_cluster,
    describe_configs,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_partition_reassignments,
    unregister_broker,
)
from minikafka.protocol.messages import describe_quorum as describe_quorum_api
from tests.broker.test_cluster import create, leaders
from tests.kit.in_process import ClusterNode, ClusterUnderTest, running_broker, running_cluster
from tests.kit.wire import WireClient, assigned, create_request, values_of

METADATA_TOPIC = "__cluster_metadata"


async def describe_quorum(
    client: WireClient, topic: str = METADATA_TOPIC, partition: int = 0, version: int = 2
) -> tuple[describe_quorum_api.Response, describe_quorum_api.PartitionDataResponse]:
    asked = describe_quorum_api.TopicDataRequest(
        topic_name=topic,
        partitions=[describe_quorum_api.PartitionDataRequest(partition_index=partition)],
    )
    request = describe_quorum_api.Request(topics=[asked])
    response = await client.ask(request, version, describe_quorum_api.Response)
    return response, response.topics[0].partitions[0]


# --- the quorum ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_broker_alone_is_its_own_quorum(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path, "node.id=7") as under_test:
        response, quorum = await describe_quorum(under_test.connect(), version=version)
        assert (response.error_code, quorum.error_code) == (0, 0)
        assert (quorum.leader_id, quorum.leader_epoch) == (7, 1)
        (voter,) = quorum.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (7, quorum.high_watermark)
        assert (quorum.observers, response.nodes) == ([], [])


@pytest.mark.parametrize(("topic", "partition"), [("t", 0), (METADATA_TOPIC, 1)])
async def test_only_the_metadata_has_a_quorum(tmp_path: Path, topic: str, partition: int) -> None:
    async with running_broker(tmp_path) as under_test:
        _, quorum = await describe_quorum(under_test.connect(), topic, partition)
        assert quorum.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_every_node_returns_the_controllers_view_of_the_quorum(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4)
        controller = await cluster.controller()
        for node in cluster.running:
            response, quorum = await describe_quorum(node.connect())
            assert quorum.leader_id == controller.node_id
            assert quorum.leader_epoch == controller.broker.quorum.epoch
            assert [one.replica_id for one in quorum.current_voters] == [1, 2, 3]
            assert [one.replica_id for one in quorum.observers] == [4]
            assert all(one.last_fetch_timestamp > 0 for one in quorum.current_voters)
            assert [one.node_id for one in response.nodes] == [1, 2, 3]
            assert f"1@127.0.0.1:{response.nodes[0].listeners[0].port}" in cluster.quorum


async def test_a_voter_with_a_new_directory_is_an_observer_until_it_is_admitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A voter is a node together with its directory (KIP-853)."""
    old, new, unknown = b"o" * 16, b"n" * 16, bytes(16)
    voters = (
        ReplicaStatistics(1, 9, 0.0, 0.0, old),
        ReplicaStatistics(2, 5, 0.0, None, new, is_admitted=False),
        ReplicaStatistics(3, -1, None, None),
    )
    statistics = QuorumStatistics(1, 4, 9, voters, (ReplicaStatistics(4, 9, 0.0, 0.0, old),))
    async with running_broker(tmp_path) as under_test:
        monkeypatch.setattr(Quorum, "statistics", lambda _: statistics)
        _, quorum = await describe_quorum(under_test.connect())

        def shown(states: list[describe_quorum_api.ReplicaState]) -> list[tuple[int, bytes]]:
            return [(one.replica_id, one.replica_directory_id) for one in states]

        assert shown(quorum.current_voters) == [(1, old), (2, unknown), (3, unknown)]
        assert shown(quorum.observers) == [(2, new), (4, old)]


# --- registered brokers -------------------------------------------------------------------------


async def test_fenced_brokers_are_listed_on_request_and_unregistered_ones_never(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4)
        first = cluster.nodes[1]
        await cluster.kill(4)
        await cluster.until(lambda: first.live() == [1, 2, 3])
        client = first.connect()

        async def shown(*, fenced: bool) -> list[tuple[int, bool]]:
            request = describe_cluster.Request(
                include_cluster_authorized_operations=False, include_fenced_brokers=fenced
            )
            response = await client.ask(request, 2, describe_cluster.Response)
            return [(one.broker_id, one.is_fenced) for one in response.brokers]

        live = [(1, False), (2, False), (3, False)]
        assert await shown(fenced=False) == live
        assert await shown(fenced=True) == [*live, (4, True)]
        request = unregister_broker.Request(broker_id=4)
        for code in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED):
            answer = await client.ask(request, 0, unregister_broker.Response)
            assert answer.error_code == code
        assert await shown(fenced=True) == live


async def test_the_only_broker_of_a_cluster_stays_registered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        for broker_id, code in (
            (1, ErrorCode.INVALID_REQUEST),
            (2, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ):
            request = unregister_broker.Request(broker_id=broker_id)
            answer = await client.ask(request, 0, unregister_broker.Response)
            assert answer.error_code == code
        await client.create_topic("t")


async def test_a_groups_coordinator_is_the_leader_of_its_partition(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        found: dict[str, int] = {}
        for node in cluster.running:
            request = find_coordinator.Request(key_type=0, coordinator_keys=["a", "b", "c", "d"])
            response = await node.connect().ask(request, 4, find_coordinator.Response)
            for one in response.coordinators:
                assert one.error_code == ErrorCode.NONE, one
                assert one.host == f"broker{one.node_id}.test"
                assert found.setdefault(one.key, one.node_id) == one.node_id
        offsets = cluster.nodes[1].broker.image.topics["__consumer_offsets"]
        assert {len(one.replicas) for one in offsets.partitions} == {3}
        assert set(found.values()) <= {one.leader for one in offsets.partitions}


async def test_without_a_leader_the_coordinator_is_not_available(
    tmp_path: Path,
) -> None:
    async with running_cluster(
        tmp_path, "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1"
    ) as cluster:
        request = find_coordinator.Request(key_type=0, coordinator_keys=["a"])
        client = cluster.nodes[1].connect()
        answer = await client.ask(request, 4, find_coordinator.Response)
        leader = answer.coordinators[0].node_id
        other = next(one for one in cluster.running if one.node_id != leader)
        await cluster.kill(leader)
        await cluster.until(lambda: leader not in other.live())
        answer = await other.connect().ask(request, 4, find_coordinator.Response)
        assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_producer_ids_are_unique_in_the_cluster(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        given: set[int] = set()
        for node in cluster.running:
            client = node.connect()
            for _ in range(3):
                request = init_producer_id.Request(
                    transactional_id=None, transaction_timeout_ms=1000
                )
                answer = await client.ask(request, 4, init_producer_id.Response)
                assert answer.error_code == ErrorCode.NONE
                given.add(answer.producer_id)
        assert len(given) == 9


# --- leaders and replicas -----------------------------------------------------------------------


async def elect(
    client: WireClient, kind: int, partitions: list[int] | None, version: int = 2
) -> elect_leaders.Response:
    asked = (
        None
        if partitions is None
        else [elect_leaders.TopicPartitions(topic="t", partitions=partitions)]
    )
    request = elect_leaders.Request(election_type=kind, topic_partitions=asked, timeout_ms=10_000)
    return await client.ask(request, version, elect_leaders.Response)


def outcomes(response: elect_leaders.Response) -> dict[int, int]:
    return {
        one.partition_id: one.error_code
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


async def whole(cluster: ClusterUnderTest, node: ClusterNode) -> None:
    """Wait until all replicas are in sync."""
    await cluster.until(
        lambda: all(
            len(one.in_sync_replicas) == len(one.replicas)
            for one in node.broker.image.topics["t"].partitions
        )
    )


async def test_preferred_leaders_get_their_partitions_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "auto.leader.rebalance.enable=false") as cluster:
        node = cluster.nodes[1]
        client = node.connect()
        assert await create(client, "t") == ErrorCode.NONE
        preferred = leaders(node, "t")
        moved = preferred.index(3)
        await cluster.kill(3)
        await cluster.until(lambda: 3 not in leaders(node, "t"))
        answer = await elect(client, 0, [moved])
        assert outcomes(answer) == {moved: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        await cluster.start(3)
        await whole(cluster, node)
        answer = await elect(client, 0, [0, 1, 2, 9])
        assert outcomes(answer) == {
            number: ErrorCode.NONE if number == moved else ErrorCode.ELECTION_NOT_NEEDED
            for number in range(3)
        } | {9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert leaders(node, "t") == preferred
        assert outcomes(await elect(client, 0, None)) == {}


async def test_an_unclean_election_takes_any_live_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4, 5)
        node = cluster.nodes[1]
        client = node.connect()
        await client.ask(create_request(assigned("t", [4, 5])), 7, create_topics.Response)
        await whole(cluster, node)
        number = 0
        last = node.partition("t", number).leader
        await cluster.kill(9 - last)
        await cluster.until(lambda: node.partition("t", number).in_sync_replicas == (last,))
        await cluster.kill(last)
        await cluster.until(lambda: node.partition("t", number).leader == -1)
        await cluster.start(9 - last)
        assert node.partition("t", number).leader == -1
        answer = await elect(client, 1, [number])
        assert outcomes(answer) == {number: ErrorCode.NONE}
        assert node.partition("t", number).leader == 9 - last


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_impossible_election_is_an_error(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        answer = await elect(client, 0, [0], version)
        assert outcomes(answer) == {0: ErrorCode.ELECTION_NOT_NEEDED}
        if version:
            assert (await elect(client, 7, [0], version)).error_code == ErrorCode.INVALID_REQUEST


async def reassign(client: WireClient, replicas: dict[int, list[int] | None]) -> dict[int, int]:
    topic = alter_partition_reassignments.ReassignableTopic(
        name="t",
        partitions=[
            alter_partition_reassignments.ReassignablePartition(
                partition_index=number, replicas=wanted
            )
            for number, wanted in replicas.items()
        ],
    )
    request = alter_partition_reassignments.Request(topics=[topic])
    answer = await client.ask(request, 1, alter_partition_reassignments.Response)
    assert answer.error_code == ErrorCode.NONE
    return {one.partition_index: one.error_code for one in answer.responses[0].partitions}


async def ongoing(client: WireClient, topics: Any = None) -> dict[int, tuple[list[int], ...]]:
    request = list_partition_reassignments.Request(topics=topics)
    answer = await client.ask(request, 0, list_partition_reassignments.Response)
    return {
        one.partition_index: (one.adding_replicas, one.removing_replicas)
        for topic in answer.topics
        for one in topic.partitions
    }


async def test_a_partition_moves_to_other_brokers_with_its_records(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4)
        node = cluster.nodes[1]
        client = node.connect()
        assert await create(client, "t", partitions=1, factor=2) == ErrorCode.NONE
        old = node.partition("t")
        leader = cluster.nodes[old.leader]
        await cluster.until(lambda: ("t", 0) in leader.broker.partitions)
        await leader.connect().produce("t", b"kept", acks=-1)
        target = [one for one in (1, 2, 3, 4) if one not in old.replicas]
        assert await reassign(client, {0: target, 5: [1]}) == {
            0: ErrorCode.NONE,
            5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        await cluster.until(lambda: node.partition("t").replicas == tuple(target))
        assert await ongoing(client) == {}
        await cluster.until(lambda: node.partition("t").leader in target)
        leader = cluster.nodes[node.partition("t").leader]
        await cluster.until(
            lambda: (
                ("t", 0) in leader.broker.partitions and leader.broker.partitions["t", 0].is_leader
            )
        )
        assert values_of(await leader.connect().fetch("t", 0)) == [b"kept"]
        losing = [cluster.nodes[number] for number in old.replicas]
        await cluster.until(lambda: all(("t", 0) not in one.broker.partitions for one in losing))


async def test_a_reassignment_to_a_dead_broker_stays_pending_until_it_is_cancelled(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4)
        node = cluster.nodes[1]
        client = node.connect()
        assert await create(client, "t", partitions=1, factor=1) == ErrorCode.NONE
        await reassign(client, {0: [2]})
        await cluster.until(lambda: node.partition("t").replicas == (2,))
        await cluster.kill(4)
        await cluster.until(lambda: 4 not in node.live())
        assert await reassign(client, {0: [2, 4]}) == {0: ErrorCode.NONE}
        assert await ongoing(client) == {0: ([4], [])}
        asked = [list_partition_reassignments.Topic(name="t", partition_indexes=[0, 1])]
        assert await ongoing(client, asked) == {0: ([4], [])}
        assert await reassign(client, {0: None}) == {0: ErrorCode.NONE}
        assert await ongoing(client) == {}
        assert await reassign(client, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        assert node.partition("t").replicas == (2,)


# --- settings -----------------------------------------------------------------------------------


async def change_settings(client: WireClient, *changes: tuple[int, str, str, str]) -> list[int]:
    request = incremental_alter_configs.Request(
        resources=[
            incremental_alter_configs.Resource(
                resource_type=kind,
                resource_name=resource,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=name, config_operation=0, value=value
                    )
                ],
            )
            for kind, resource, name, value in changes
        ],
        validate_only=False,
    )
    answer = await client.ask(request, 1, incremental_alter_configs.Response)
    return [one.error_code for one in answer.responses]


async def setting(client: WireClient, kind: int, resource: str, name: str) -> str | None:
    asked = describe_configs.Resource(
        resource_type=kind, resource_name=resource, configuration_keys=[name]
    )
    request = describe_configs.Request(resources=[asked])
    answer = await client.ask(request, 4, describe_configs.Response)
    assert answer.results[0].error_code == ErrorCode.NONE
    return answer.results[0].configs[0].value


async def test_settings_change_everywhere_and_log_levels_on_one_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray_logs = logging.getLogger("minikafka.broker.replicas.strays")
    monkeypatch.setattr(stray_logs, "level", stray_logs.level)  # as it was, afterwards
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        node = next(one for one in cluster.running if one is not controller)
        client = node.connect()
        assert await create(client, "t") == ErrorCode.NONE
        number = str(node.node_id)
        codes = await change_settings(
            client,
            (2, "t", "retention.ms", "7777"),
            (4, "", "log.retention.ms", "8888"),
            (4, str(controller.node_id), "log.retention.bytes", "9999"),
            (4, "99", "log.retention.bytes", "9999"),
            (8, number, "minikafka.broker.replicas.strays", "DEBUG"),
        )
        refused = ErrorCode.INVALID_REQUEST
        assert codes == [0, 0, 0, refused, 0]
        of_another = (8, str(controller.node_id), "minikafka.broker.replicas.strays", "DEBUG")
        assert await change_settings(client, of_another) == [refused]
        # The node that got the request shows it immediately, the others a little later.
        assert await setting(client, 2, "t", "retention.ms") == "7777"
        assert await setting(client, 4, number, "log.retention.ms") == "8888"
        assert await setting(client, 4, number, "log.retention.bytes") == "-1"
        other = controller.connect()
        assert await setting(other, 4, str(controller.node_id), "log.retention.bytes") == "9999"
