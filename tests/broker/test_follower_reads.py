"""Consumers at followers and at new leaders (KIP-207, KIP-320, KIP-392)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_producers, fetch
from minikafka.protocol.messages import list_offsets as list_offsets_api
from minikafka.protocol.records import encode_batch
from tests.broker.replicated import replicated, until
from tests.broker.test_replication import (
    produce_all,
)
from tests.kit.wire import WireClient, fetch_request, values_of


async def test_consumers_read_from_followers_up_to_their_high_watermark(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"a", b"b")
        follower = cluster.nodes[2].partition()
        await until(lambda: follower.log.high_watermark == 2)
        reader = cluster.nodes[2].connect()
        assert values_of(await reader.fetch("t", 0)) == [b"a", b"b"]
        # Long polls wait for the follower's high watermark.
        await reader.send(fetch_request("t", 2, max_wait_ms=60_000), 11)
        await produce_all(cluster.nodes[1].connect(), b"c")
        _, answer = await reader.receive(fetch.Response, 11)
        assert values_of(answer.responses[0].partitions[0]) == [b"c"]
        # Old consumers cannot read from followers.
        request = fetch_request("t", 0)
        old = await reader.ask(request, 10, fetch.Response)
        code = old.responses[0].partitions[0].error_code
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_every_replica_describes_its_producers(tmp_path: Path) -> None:
    """`kafka-transactions find-hanging --broker-id` asks one broker for all of its replicas."""
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2))
        batch = encode_batch(
            [(None, b"x", (), 5)], producer_id=7, producer_epoch=3, base_sequence=0
        )
        client = cluster.nodes[1].connect()
        assert (await client.produce("t", batch=bytes(batch))).error_code == ErrorCode.NONE
        await until(lambda: cluster.nodes[2].partition().log.log_end_offset == 1)
        asked = [describe_producers.TopicRequest(name="t", partition_indexes=[0])]
        request = describe_producers.Request(topics=asked)
        found = {
            number: (await node.connect().ask(request, 0, describe_producers.Response))
            .topics[0]
            .partitions[0]
            for number, node in cluster.nodes.items()
        }
        assert found[1].active_producers == found[2].active_producers
        assert [one.producer_id for one in found[2].active_producers] == [7]
        assert found[3].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_fenced_epoch_gets_the_current_leader(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await cluster.lead(2, (1, 2))
        request = fetch_request("t", 0)
        request.topics[0].partitions[0].current_leader_epoch = 0
        request.topics[0].topic_id = cluster.image.topics["t"].topic_id
        answer = await cluster.nodes[1].connect().ask(request, 16, fetch.Response)
        one = answer.responses[0].partitions[0]
        assert one.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (2, 1)
        assert [end.node_id for end in answer.node_endpoints] == [2]


@pytest.mark.parametrize(
    "selector",
    ["RackAwareReplicaSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"],
)
async def test_consumers_are_sent_to_a_replica_in_their_rack(tmp_path: Path, selector: str) -> None:
    async with replicated(tmp_path, 3, f"replica.selector.class={selector}") as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        leader = cluster.nodes[1].connect()
        await produce_all(leader, b"a")
        request = fetch_request("t", 0)
        request.rack_id = "rack2"
        answer = (await leader.ask(request, 11, fetch.Response)).responses[0].partitions[0]
        assert (answer.preferred_read_replica, values_of(answer)) == (2, [])
        # The follower knows the high watermark without waiting for the end of its own fetch.
        assert (await leader.produce("t", b"b", acks=-1)).error_code == 0
        await until(lambda: cluster.nodes[2].partition().log.high_watermark == 2)
        reader = cluster.nodes[2].connect()
        answer = (await reader.ask(request, 11, fetch.Response)).responses[0].partitions[0]
        assert (answer.preferred_read_replica, values_of(answer)) == (-1, [b"a", b"b"])
        request.rack_id = "nowhere"
        answer = (await leader.ask(request, 11, fetch.Response)).responses[0].partitions[0]
        assert (answer.preferred_read_replica, values_of(answer)) == (-1, [b"a", b"b"])


async def list_offsets(client: WireClient, timestamp: int, replica_id: int = -1) -> tuple[int, int]:
    """(error code, offset) of a ListOffsets request."""
    request = list_offsets_api.Request(
        replica_id=replica_id,
        topics=[
            list_offsets_api.Topic(
                name="t",
                partitions=[list_offsets_api.Partition(partition_index=0, timestamp=timestamp)],
            )
        ],
    )
    answer = await client.ask(request, 7, list_offsets_api.Response)
    one = answer.topics[0].partitions[0]
    return one.error_code, one.offset


async def test_only_leaders_list_offsets_except_for_debugging(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"a", b"b")
        leader, follower = (node.connect() for node in cluster.nodes.values())
        assert await list_offsets(leader, -1) == (0, 2)
        assert (await list_offsets(follower, -1))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await list_offsets(follower, -1, replica_id=-2) == (0, 2)


async def test_a_new_leader_reports_no_smaller_end_than_its_predecessor(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, 2, "replica.fetch.wait.max.ms=60000") as cluster:
        await cluster.create_topic("t", (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"a")
        assert cluster.nodes[2].partition().log.high_watermark == 0
        await cluster.nodes[1].stop()
        await cluster.lead(2, (1, 2))
        client = cluster.nodes[2].connect()
        assert (await list_offsets(client, -1))[0] == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await list_offsets(client, 5))[0] == ErrorCode.OFFSET_NOT_AVAILABLE
        assert await list_offsets(client, -2) == (0, 0)
        await cluster.fence(1, cluster.changed(in_sync_replicas=(2,)))
        assert await list_offsets(client, -1) == (0, 1)
        assert await list_offsets(client, 5) == (0, 0)
