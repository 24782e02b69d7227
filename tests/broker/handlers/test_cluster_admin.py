"""What administrators ask of a cluster: quorum, leaders, reassignments, settings, brokers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from minikafka.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from minikafka.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.broker.cluster_harness import ClusterUnderTest, Node, running_cluster
from tests.broker.harness import WireClient, running_broker, values_of
from tests.broker.test_cluster import create, leaders

METADATA_TOPIC = "__cluster_metadata"


async def describe_quorum(
    client: WireClient, topic: str = METADATA_TOPIC, partition: int = 0, version: int = 2
) -> tuple[DescribeQuorumResponse, PartitionDataResponse]:
    asked = TopicDataRequest(
        topic_name=topic, partitions=[PartitionDataRequest(partition_index=partition)]
    )
    request = DescribeQuorumRequest(topics=[asked])
    response = await client.ask(request, version, DescribeQuorumResponse)
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


async def test_every_node_tells_what_the_controller_knows_of_the_quorum(tmp_path: Path) -> None:
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


# --- who is there -------------------------------------------------------------------------------


async def test_fenced_brokers_are_shown_to_those_who_ask_and_unregistered_ones_to_nobody(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4)
        first = cluster.nodes[1]
        await cluster.kill(4)
        await cluster.until(lambda: first.live() == [1, 2, 3])
        client = first.connect()

        async def shown(*, fenced: bool) -> list[tuple[int, bool]]:
            request = DescribeClusterRequest(
                include_cluster_authorized_operations=False, include_fenced_brokers=fenced
            )
            response = await client.ask(request, 2, DescribeClusterResponse)
            return [(one.broker_id, one.is_fenced) for one in response.brokers]

        live = [(1, False), (2, False), (3, False)]
        assert await shown(fenced=False) == live
        assert await shown(fenced=True) == [*live, (4, True)]
        request = UnregisterBrokerRequest(broker_id=4)
        for code in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED):
            answer = await client.ask(request, 0, UnregisterBrokerResponse)
            assert answer.error_code == code
        assert await shown(fenced=True) == live


async def test_a_broker_that_is_its_whole_cluster_stays_registered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        for broker_id, code in (
            (1, ErrorCode.INVALID_REQUEST),
            (2, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ):
            request = UnregisterBrokerRequest(broker_id=broker_id)
            answer = await client.ask(request, 0, UnregisterBrokerResponse)
            assert answer.error_code == code
        await client.create_topic("t")


async def test_a_groups_coordinator_is_the_leader_of_its_partition(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        found: dict[str, int] = {}
        for node in cluster.running:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b", "c", "d"])
            response = await node.connect().ask(request, 4, FindCoordinatorResponse)
            for one in response.coordinators:
                assert one.error_code == ErrorCode.NONE, one
                assert one.host == f"broker{one.node_id}.test"
                assert found.setdefault(one.key, one.node_id) == one.node_id
        offsets = cluster.nodes[1].broker.image.topics["__consumer_offsets"]
        assert {len(one.replicas) for one in offsets.partitions} == {3}
        assert set(found.values()) <= {one.leader for one in offsets.partitions}


async def test_without_a_leader_there_is_no_coordinator_for_the_moment(
    tmp_path: Path,
) -> None:
    async with running_cluster(
        tmp_path, "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1"
    ) as cluster:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
        client = cluster.nodes[1].connect()
        answer = await client.ask(request, 4, FindCoordinatorResponse)
        leader = answer.coordinators[0].node_id
        other = next(one for one in cluster.running if one.node_id != leader)
        await cluster.kill(leader)
        await cluster.until(lambda: leader not in other.live())
        answer = await other.connect().ask(request, 4, FindCoordinatorResponse)
        assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_producer_ids_are_given_out_once_in_the_whole_cluster(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        given: set[int] = set()
        for node in cluster.running:
            client = node.connect()
            for _ in range(3):
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
                answer = await client.ask(request, 4, InitProducerIdResponse)
                assert answer.error_code == ErrorCode.NONE
                given.add(answer.producer_id)
        assert len(given) == 9


# --- leaders and replicas -----------------------------------------------------------------------


async def elect(
    client: WireClient, kind: int, partitions: list[int] | None, version: int = 2
) -> ElectLeadersResponse:
    asked = None if partitions is None else [TopicPartitions(topic="t", partitions=partitions)]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=10_000)
    return await client.ask(request, version, ElectLeadersResponse)


def outcomes(response: ElectLeadersResponse) -> dict[int, int]:
    return {
        one.partition_id: one.error_code
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


async def whole(cluster: ClusterUnderTest, node: Node) -> None:
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


async def test_an_unclean_election_takes_whoever_is_alive(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4, 5)
        node = cluster.nodes[1]
        client = node.connect()
        wanted = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[4, 5])],
            configs=[],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        await client.ask(request, 7, CreateTopicsResponse)
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
async def test_an_election_that_cannot_be_decided_says_so(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        answer = await elect(client, 0, [0], version)
        assert outcomes(answer) == {0: ErrorCode.ELECTION_NOT_NEEDED}
        if version:
            assert (await elect(client, 7, [0], version)).error_code == ErrorCode.INVALID_REQUEST


async def reassign(client: WireClient, replicas: dict[int, list[int] | None]) -> dict[int, int]:
    topic = ReassignableTopic(
        name="t",
        partitions=[
            ReassignablePartition(partition_index=number, replicas=wanted)
            for number, wanted in replicas.items()
        ],
    )
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    answer = await client.ask(request, 1, AlterPartitionReassignmentsResponse)
    assert answer.error_code == ErrorCode.NONE
    return {one.partition_index: one.error_code for one in answer.responses[0].partitions}


async def ongoing(client: WireClient, topics: Any = None) -> dict[int, tuple[list[int], ...]]:
    request = ListPartitionReassignmentsRequest(topics=topics)
    answer = await client.ask(request, 0, ListPartitionReassignmentsResponse)
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


async def test_a_reassignment_to_a_dead_broker_goes_on_until_it_is_cancelled(
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
        asked = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])]
        assert await ongoing(client, asked) == {0: ([4], [])}
        assert await reassign(client, {0: None}) == {0: ErrorCode.NONE}
        assert await ongoing(client) == {}
        assert await reassign(client, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        assert node.partition("t").replicas == (2,)


# --- settings -----------------------------------------------------------------------------------


async def change_settings(client: WireClient, *changes: tuple[int, str, str, str]) -> list[int]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=resource,
                configs=[AlterableConfig(name=name, config_operation=0, value=value)],
            )
            for kind, resource, name, value in changes
        ],
        validate_only=False,
    )
    answer = await client.ask(request, 1, IncrementalAlterConfigsResponse)
    return [one.error_code for one in answer.responses]


async def setting(client: WireClient, kind: int, resource: str, name: str) -> str | None:
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=resource, configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[asked])
    answer = await client.ask(request, 4, DescribeConfigsResponse)
    assert answer.results[0].error_code == ErrorCode.NONE
    return answer.results[0].configs[0].value


async def test_settings_change_everywhere_and_log_levels_where_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray_logs = logging.getLogger("minikafka.broker.strays")
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
            (8, number, "minikafka.broker.strays", "DEBUG"),
        )
        refused = ErrorCode.INVALID_REQUEST
        assert codes == [0, 0, 0, refused, 0]
        of_another = (8, str(controller.node_id), "minikafka.broker.strays", "DEBUG")
        assert await change_settings(client, of_another) == [refused]
        # The node that was asked shows it at once, the others a little later.
        assert await setting(client, 2, "t", "retention.ms") == "7777"
        assert await setting(client, 4, number, "log.retention.ms") == "8888"
        assert await setting(client, 4, number, "log.retention.bytes") == "-1"
        other = controller.connect()
        assert await setting(other, 4, str(controller.node_id), "log.retention.bytes") == "9999"
