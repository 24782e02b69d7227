"""Voters of the metadata quorum that come and go while brokers serve (KIP-853)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.opening import open_broker
from minikafka.broker.system.start_error import StartError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    add_raft_voter,
    api_versions,
    describe_quorum,
    remove_raft_voter,
    update_features,
)
from tests.kit.in_process import (
    ClusterNode,
    ClusterUnderTest,
    options,
    running_broker,
    running_cluster,
)

SHORT_MS = 300
LONG_MS = 30_000


async def upgrade(node: ClusterNode, level: int = 1) -> update_features.Response:
    update = update_features.FeatureUpdateKey(feature="kraft.version", max_version_level=level)
    request = update_features.Request(feature_updates=[update])
    return await node.connect().ask(request, 2, update_features.Response)


async def add(
    node: ClusterNode,
    voter: int,
    directory_id: bytes,
    *,
    listeners: tuple[tuple[str, str, int], ...] = (),
    cluster_id: str | None = None,
    timeout_ms: int = LONG_MS,
) -> add_raft_voter.Response:
    request = add_raft_voter.Request(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter,
        voter_directory_id=directory_id,
        listeners=[
            add_raft_voter.Listener(name=name, host=host, port=port)
            for name, host, port in listeners
        ],
    )
    return await node.connect().ask(request, 1, add_raft_voter.Response)


async def remove(
    node: ClusterNode, voter: int, directory_id: bytes, *, cluster_id: str | None = None
) -> remove_raft_voter.Response:
    request = remove_raft_voter.Request(
        cluster_id=cluster_id, voter_id=voter, voter_directory_id=directory_id
    )
    return await node.connect().ask(request, 0, remove_raft_voter.Response)


def directory_of(node: ClusterNode) -> bytes:
    return node.broker.quorum.statistics().voters[0].directory_id


async def describe(
    node: ClusterNode,
) -> tuple[list[int], list[int], dict[int, bytes], list[tuple[int, int]]]:
    """(voters, observers, directories, (node, port) of the voters)."""
    asked = describe_quorum.TopicDataRequest(
        topic_name="__cluster_metadata",
        partitions=[describe_quorum.PartitionDataRequest(partition_index=0)],
    )
    request = describe_quorum.Request(topics=[asked])
    response = await node.connect().ask(request, 2, describe_quorum.Response)
    quorum = response.topics[0].partitions[0]
    replicas = [*quorum.current_voters, *quorum.observers]
    return (
        [one.replica_id for one in quorum.current_voters],
        [one.replica_id for one in quorum.observers],
        {one.replica_id: one.replica_directory_id for one in replicas},
        [(one.node_id, one.listeners[0].port) for one in response.nodes],
    )


async def directories(node: ClusterNode) -> dict[int, bytes]:
    return (await describe(node))[2]


def votes_in(node: ClusterNode) -> frozenset[int]:
    return node.broker.quorum.voter_ids


async def grow(cluster: ClusterUnderTest, *voters: int) -> None:
    """Record the voters, and add some, one after the other."""
    via = cluster.running[-1]
    assert (await upgrade(via)).error_code == ErrorCode.NONE
    known = await directories(via)
    for voter in voters:
        response = await add(via, voter, known[voter])
        assert response.error_code == ErrorCode.NONE, response.error_message


async def test_a_broker_alone_becomes_a_cluster_of_three_voters_and_shrinks_back(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path / "node1", "node.id=1") as alone:
        await alone.connect().create_topic("old")
    async with running_cluster(tmp_path, voters=1, start=False) as cluster:
        await cluster.start(1)
        await cluster.start(2, 3)
        first, second, third = (cluster.nodes[one] for one in (1, 2, 3))
        assert (await describe(third))[:2] == ([1], [2, 3])
        await grow(cluster, 2, 3)
        voters, observers, known, nodes = await describe(second)
        assert (voters, observers) == ([1, 2, 3], [])
        assert all(any(known[one]) for one in voters)
        assert nodes == [
            (one, cluster.nodes[one].broker.node.internal_endpoint.port) for one in voters
        ]
        await cluster.until(lambda: votes_in(second) == votes_in(third) == {1, 2, 3})

        await cluster.kill(1)
        await cluster.controller()
        await second.connect().create_topic("new", partitions=2)
        await cluster.start(1)
        assert {"old", "new"} <= set(first.broker.image.topics)

        # The controller is asked to remove itself, and another one goes on.
        leader = await cluster.controller()
        response = await remove(third, leader.node_id, known[leader.node_id])
        assert response.error_code == ErrorCode.NONE, response.error_message
        await cluster.until(lambda: not leader.is_active_controller)
        left = await cluster.controller()
        assert left.node_id in {1, 2, 3} - {leader.node_id}
        (other,) = {1, 2, 3} - {leader.node_id, left.node_id}
        response = await remove(third, other, known[other])
        assert response.error_code == ErrorCode.NONE, response.error_message
        await cluster.until(lambda: all(votes_in(one) == {left.node_id} for one in cluster.running))
        await left.connect().create_topic("last")
        await cluster.until(
            lambda: all("last" in one.broker.image.topics for one in cluster.running)
        )


async def test_recorded_voters_find_each_other_after_a_restart_of_all(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2, 3)
        await grow(cluster, 2, 3)
        await cluster.until(lambda: all(len(votes_in(one)) == 3 for one in cluster.running))
        await cluster.kill(1, 2, 3)
        # Without the only node that the settings name.
        cluster.begin(2)
        cluster.begin(3)
        await cluster.until(lambda: len(cluster.running) == 2)
        leader = await cluster.controller()
        assert leader.broker.node.topology.is_recorded
        await cluster.nodes[2].connect().create_topic("t")


async def test_a_recorded_voter_does_not_start_alone(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2)
        await grow(cluster, 2)
        await cluster.until(lambda: len(votes_in(cluster.nodes[1])) == 2)
        await cluster.kill(1)
        alone = options(tmp_path / "node1", "node.id=1")
        with pytest.raises(StartError, match=r"--quorum 1@127\.0\.0\.1:"):
            open_broker(alone)


async def test_kraft_version_is_finalized_once_the_voters_are_recorded(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        node = cluster.nodes[1]

        async def level() -> list[int]:
            request = api_versions.Request(client_software_name="test", client_software_version="1")
            response = await node.connect().ask(request, 4, api_versions.Response)
            supported = {one.name: one.max_version for one in response.supported_features}
            assert supported["kraft.version"] == 1
            return [
                one.max_version_level
                for one in response.finalized_features
                if one.name == "kraft.version"
            ]

        assert await level() == []
        for _ in range(2):  # the second time it is that already
            assert (await upgrade(node)).error_code == ErrorCode.NONE
            assert await level() == [1]
        refused = await upgrade(node, 0)
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "cannot go back" in (refused.error_message or "")


async def test_a_broker_without_an_internal_listener_cannot_record_its_address(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, "node.id=4") as under_test:
        update = update_features.FeatureUpdateKey(feature="kraft.version", max_version_level=1)
        request = update_features.Request(feature_updates=[update])
        response = await under_test.connect().ask(request, 2, update_features.Response)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "--quorum 4@host:port" in (response.error_message or "")


async def test_voters_of_the_configuration_cannot_be_changed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2)
        node = cluster.nodes[2]
        known = await directories(node)
        added = await add(node, 2, known[2])
        removed = await remove(node, 1, known[1])
        codes = {added.error_code, removed.error_code}
        assert codes == {ErrorCode.UNSUPPORTED_VERSION}
        assert "kraft.version is 0" in (added.error_message or "")


async def test_changes_that_are_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2)
        await grow(cluster)
        node = cluster.nodes[2]
        known = await directories(node)
        other = b"another director"

        async def refused(
            response: add_raft_voter.Response | remove_raft_voter.Response, words: str
        ) -> ErrorCode:
            assert words in (response.error_message or "")
            return ErrorCode(response.error_code)

        assert (
            await refused(await add(node, 1, known[1]), "voter already")
            == ErrorCode.DUPLICATE_VOTER
        )
        assert (
            await refused(await add(node, 2, other, timeout_ms=SHORT_MS), "has the data directory")
            == ErrorCode.REQUEST_TIMED_OUT
        )
        assert (
            await refused(await add(node, 9, other, timeout_ms=SHORT_MS), "not known")
            == ErrorCode.REQUEST_TIMED_OUT
        )
        assert (
            await refused(await add(node, 2, bytes(16)), "data directory")
            == ErrorCode.INVALID_REQUEST
        )
        listeners = (("PLAINTEXT", "b", 9092),)
        assert (
            await refused(await add(node, 2, known[2], listeners=listeners), "CONTROLLER")
            == ErrorCode.INVALID_REQUEST
        )
        assert (
            await refused(await add(node, 2, known[2], cluster_id="other"), "'other'")
            == ErrorCode.INCONSISTENT_CLUSTER_ID
        )
        assert (
            await refused(await remove(node, 1, known[1]), "only voter")
            == ErrorCode.INVALID_REQUEST
        )
        assert (
            await refused(await remove(node, 1, other), "has the data directory")
            == ErrorCode.VOTER_NOT_FOUND
        )
        assert (
            await refused(await remove(node, 2, known[2]), "not a voter")
            == ErrorCode.VOTER_NOT_FOUND
        )
        assert (
            await refused(await remove(node, 1, bytes(16)), "data directory")
            == ErrorCode.INVALID_REQUEST
        )
        assert (await describe(node))[:2] == ([1], [2])


async def test_a_voter_is_added_with_the_address_that_the_request_names(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2)
        await grow(cluster)
        node = cluster.nodes[2]
        port = node.broker.node.internal_endpoint.port
        known = await directories(node)
        listeners = (("PLAINTEXT", "b", 1), ("CONTROLLER", "127.0.0.1", port))
        response = await add(node, 2, known[2], listeners=listeners)
        assert response.error_code == ErrorCode.NONE, response.error_message
        assert (await describe(node))[3][1] == (2, port)
