"""Group coordinators follow the leaders of their partitions: committed offsets never go back."""

from __future__ import annotations

from pathlib import Path

from minikafka.broker.coordinators.internal_topics import OFFSETS_TOPIC
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat as heartbeat_api
from minikafka.protocol.messages import offset_commit, offset_fetch
from tests.broker.replicated import ReplicatedCluster, replicated, until
from tests.kit.wire import WireClient


def commit_request(offset: int) -> offset_commit.Request:
    """Commit an offset of t-0 for a group without members."""
    partition = offset_commit.RequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return offset_commit.Request(
        group_id="g",
        member_id="",
        topics=[offset_commit.RequestTopic(name="t", partitions=[partition])],
    )


async def commit(client: WireClient, offset: int) -> int:
    """The error code of a commit."""
    answer = await client.ask(commit_request(offset), 8, offset_commit.Response)
    return answer.topics[0].partitions[0].error_code


async def committed(client: WireClient, *, require_stable: bool = False) -> tuple[int, int]:
    """(error code, committed offset of t-0)."""
    request = offset_fetch.Request(
        require_stable=require_stable,
        groups=[
            offset_fetch.RequestGroup(
                group_id="g",
                topics=[offset_fetch.RequestGroupTopic(name="t", partition_indexes=[0])],
            )
        ],
    )
    answer = await client.ask(request, 8, offset_fetch.Response)
    group = answer.groups[0]
    if group.error_code:
        return group.error_code, -1
    return 0, group.topics[0].partitions[0].committed_offset


async def coordinated(cluster: ReplicatedCluster, *replicas: int) -> None:
    """Create the coordinator's topic, with one partition."""
    settings = {"cleanup.policy": "compact"}
    await cluster.create_topic(OFFSETS_TOPIC, replicas, settings=settings)
    await cluster.create_topic("t", replicas)


async def loaded(cluster: ReplicatedCluster, node_id: int) -> WireClient:
    """A connection to a coordinator that has loaded its groups."""
    client = cluster.nodes[node_id].connect()
    while (await committed(client))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    return client


async def test_the_next_coordinator_knows_what_was_committed(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await coordinated(cluster, 1, 2, 3)
        first = await loaded(cluster, 1)
        assert await commit(first, 41) == 0
        assert await commit(first, 42) == 0
        assert await committed(first) == (0, 42)
        assert (await committed(cluster.nodes[2].connect()))[0] == ErrorCode.NOT_COORDINATOR
        await cluster.nodes[1].stop()
        await cluster.fence(1, cluster.changed(OFFSETS_TOPIC, leader=2, in_sync_replicas=(2, 3)))
        second = await loaded(cluster, 2)
        assert await committed(second) == (0, 42)
        assert await commit(second, 43) == 0
        assert await committed(second) == (0, 43)


async def test_a_replaced_coordinator_answers_waiting_requests_with_not_coordinator(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await coordinated(cluster, 1, 2)
        client, other = await loaded(cluster, 1), await loaded(cluster, 1)
        assert await commit(client, 1) == 0
        await cluster.nodes[2].stop()
        await client.send(commit_request(2), 8)
        partition = cluster.nodes[1].partition(OFFSETS_TOPIC)
        await until(lambda: len(partition.commits))
        # What is not on all in-sync replicas is not visible.
        assert await committed(other) == (0, 1)
        await cluster.lead(2, (2,), topic=OFFSETS_TOPIC)
        _, answer = await client.receive(offset_commit.Response, 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await committed(other))[0] == ErrorCode.NOT_COORDINATOR
        request = heartbeat_api.Request(group_id="g", generation_id=1, member_id="m")
        heartbeat = await other.ask(request, 4, heartbeat_api.Response)
        assert heartbeat.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_coordinator_that_may_have_been_replaced_returns_no_stable_offsets(
    tmp_path: Path,
) -> None:
    """It would not know the last commits, and a client that resumes there writes records twice."""
    async with replicated(tmp_path, 2, "broker.session.timeout.ms=60000") as cluster:
        await coordinated(cluster, 1, 2)
        client = await loaded(cluster, 1)
        assert await commit(client, 7) == 0
        broker = cluster.nodes[1].under_test.broker
        now = broker.clock.monotonic()
        broker.lifecycle.shown(now)
        assert await committed(client, require_stable=True) == (0, 7)
        broker.lifecycle.shown(now - 60)  # since then the controller may have given it to others
        wait = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        assert await committed(client, require_stable=True) == wait
        assert await committed(client) == (0, 7)
        broker.lifecycle.shown(now - 121)  # and most likely has
        elsewhere = (ErrorCode.NOT_COORDINATOR, -1)
        assert await committed(client, require_stable=True) == elsewhere
        assert await committed(client) == (0, 7)
        broker.lifecycle.shown(now)
        assert await committed(client, require_stable=True) == (0, 7)
        broker.lifecycle.controller_lost()  # there will be another one
        assert await committed(client, require_stable=True) == wait
        broker.lifecycle.shown(now)
        cluster.nodes[1].partition(OFFSETS_TOPIC).is_frozen = True  # it is being handed over
        assert await committed(client, require_stable=True) == wait


async def test_a_new_coordinator_returns_nothing_that_could_still_be_lost(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await coordinated(cluster, 1, 2, 3)
        first = await loaded(cluster, 1)
        assert await commit(first, 1) == 0
        await cluster.nodes[3].stop()
        await first.send(commit_request(2), 8)
        offsets = cluster.nodes[2].partition(OFFSETS_TOPIC)
        await until(lambda: offsets.log.log_end_offset == 2)
        await cluster.nodes[1].stop()
        # Broker 3 is in the ISR and silent, so it is unknown whether it has the last commit.
        await cluster.fence(1, cluster.changed(OFFSETS_TOPIC, leader=2, in_sync_replicas=(2, 3)))
        second = cluster.nodes[2].connect()
        assert (await committed(second))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.restart(cluster.nodes[3])
        assert await committed(await loaded(cluster, 2)) == (0, 2)


async def test_commits_need_the_topics_min_insync_replicas(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic(OFFSETS_TOPIC, (1, 2), settings={"min.insync.replicas": "2"})
        await cluster.create_topic("t", (1, 2))
        client = await loaded(cluster, 1)
        assert await commit(client, 1) == 0
        await cluster.nodes[2].stop()
        await client.send(commit_request(2), 8)
        partition = cluster.nodes[1].partition(OFFSETS_TOPIC)
        await until(lambda: len(partition.commits))
        await cluster.fence(2, cluster.changed(OFFSETS_TOPIC, in_sync_replicas=(1,)))
        _, answer = await client.receive(offset_commit.Response, 8)
        code = answer.topics[0].partitions[0].error_code
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await commit(client, 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await committed(client) == (0, 1)
        # The first one is in the log, and is committed when the other replica is back.
        await cluster.restart(cluster.nodes[2])
        await until(lambda: cluster.now(OFFSETS_TOPIC).in_sync_replicas == (1, 2))
        await until(lambda: partition.log.high_watermark == 2)
        assert await committed(client) == (0, 2)
        assert await commit(client, 4) == 0


async def test_a_coordinator_that_leads_again_reloads_its_log(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await coordinated(cluster, 1, 2)
        assert await commit(await loaded(cluster, 1), 1) == 0
        await cluster.lead(2, (1, 2), topic=OFFSETS_TOPIC)
        assert await commit(await loaded(cluster, 2), 2) == 0
        await cluster.lead(1, (1, 2), topic=OFFSETS_TOPIC)
        assert await committed(await loaded(cluster, 1)) == (0, 2)
