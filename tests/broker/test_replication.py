"""Replication between brokers: followers have what the leader acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import produce
from minikafka.protocol.records import Compression, encode_batch, iter_batches
from minikafka.storage.log import Log
from tests.broker.replicated import NO_LEADER, ReplicatedCluster, replicated, until
from tests.kit.wire import WireClient, one_batch, produce_request, values_of


def bytes_of(log: Log) -> bytes:
    """Everything in a log."""
    content = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, size_bytes_max=10**6, upper_bound_offset=log.log_end_offset)
        assert found.records is not None
        content += found.records.read()
        offset = found.next_offset
    return content


def logs_of(cluster: ReplicatedCluster, topic: str = "t") -> list[Log]:
    """The logs of a topic's first partition, by node."""
    return [node.partition(topic).log for node in cluster.nodes.values()]


async def produce_all(client: WireClient, *values: bytes, topic: str = "t") -> None:
    """Produce each value with acks=all."""
    for value in values:
        answer = await client.produce(topic, value, acks=-1)
        assert answer.error_code == ErrorCode.NONE, answer


async def receive_produced(client: WireClient, version: int = 9) -> produce.PartitionResponse:
    """The response to a produce request that was sent before."""
    _, answer = await client.receive(produce.Response, version)
    return answer.responses[0].partition_responses[0]


# --- acks ----------------------------------------------------------------------------------------


async def test_acks_all_waits_for_all_in_sync_replicas(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        client = cluster.nodes[1].connect()
        logs = logs_of(cluster)
        for number in range(20):
            assert (await client.produce("t", b"%d" % number, acks=-1)).error_code == 0
            assert [log.log_end_offset for log in logs] == [number + 1] * 3
        # Followers learn the last high watermark when their fetch ends.
        await until(lambda: all(log.high_watermark == 20 for log in logs))


@pytest.mark.parametrize("codec", list(Compression))
async def test_replicas_have_the_same_bytes(tmp_path: Path, codec: Compression) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        for number in range(10):
            records = [
                (b"key%d" % one, b"value" * 50, (("h", b"1"),), 1000 + one)
                for one in range(number + 1)
            ]
            batch = bytes(encode_batch(records, compression=codec))
            answer = await client.produce("t", batch=batch, acks=-1)
            assert answer.error_code == 0
        first, second = map(bytes_of, logs_of(cluster))
        assert first == second
        assert len(first) > 1000


async def test_a_batch_larger_than_a_fetch_response_is_replicated(tmp_path: Path) -> None:
    settings = ("replica.fetch.max.bytes=1000", "replica.fetch.response.max.bytes=2000")
    async with replicated(tmp_path, 2, *settings) as cluster:
        await cluster.create_topic("t", (1, 2), (1, 2))
        client = cluster.nodes[1].connect()
        await client.produce("t", b"x" * 50_000, acks=-1)
        for number in range(30):
            await client.produce("t", b"y" * 900, partition=number % 2)
        answer = await client.produce("t", b"z", acks=-1)
        assert answer.error_code == 0
        answer = await client.produce("t", b"z", partition=1, acks=-1)
        first, second = map(bytes_of, logs_of(cluster))
        assert first == second


async def test_more_small_batches_than_one_append_takes_are_replicated(tmp_path: Path) -> None:
    settings = ("replica.fetch.max.bytes=10000000",)
    async with replicated(tmp_path, 1, *settings) as cluster:
        await cluster.create_topic("t", (1, 2))
        log = cluster.nodes[1].partition().log
        batch = memoryview(one_batch(b""))
        for _ in range(12_000):
            cluster.nodes[1].partition().append(batch, now_ms=1000, version=9)
        await cluster.start(2)
        await until(lambda: len(cluster.nodes) == 2)
        await until(lambda: cluster.nodes[2].partition().log.log_end_offset == 12_000)
        assert bytes_of(cluster.nodes[2].partition().log) == bytes_of(log)


async def test_too_few_in_sync_replicas_are_reported_before_the_append(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3), settings={"min.insync.replicas": "2"})
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        await cluster.nodes[2].stop()
        await cluster.nodes[3].stop()
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1, 3)))
        await cluster.fence(3, cluster.changed(in_sync_replicas=(1,)))
        answer = await client.produce("t", b"b", acks=-1)
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert answer.error_message
        log = cluster.nodes[1].partition().log
        assert log.log_end_offset == 1
        assert (await client.produce("t", b"c", acks=1)).error_code == 0
        # KIP-966: nothing is committed in the meantime, so consumers do not see it.
        assert (log.log_end_offset, log.high_watermark) == (2, 1)


async def test_too_few_in_sync_replicas_are_reported_after_the_append(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2), settings={"min.insync.replicas": "2"})
        client = cluster.nodes[1].connect()
        await cluster.nodes[2].stop()
        await client.send(produce_request("t", one_batch(b"a"), acks=-1), 9)
        await until(lambda: len(cluster.nodes[1].partition().commits))
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        answer = await receive_produced(client)
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert cluster.nodes[1].partition().log.log_end_offset == 1


async def test_acks_all_times_out_while_a_member_of_the_isr_is_silent(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await cluster.nodes[2].stop()
        request = produce_request("t", one_batch(b"a"), acks=-1)
        request.timeout_ms = 50
        await client.send(request, 9)
        assert (await receive_produced(client)).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert not cluster.nodes[1].partition().commits


async def test_a_retry_is_not_acknowledged_before_its_first_attempt_is_committed(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        first, second = cluster.nodes[1].connect(), cluster.nodes[1].connect()
        batch = one_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        await cluster.nodes[2].stop()
        await first.send(produce_request("t", batch, acks=-1), 9)
        partition = cluster.nodes[1].partition()
        await until(lambda: len(partition.commits) == 1)
        await second.send(produce_request("t", batch, acks=-1), 9)
        await until(lambda: len(partition.commits) == 2)
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        for client in (first, second):
            answer = await receive_produced(client)
            assert (answer.error_code, answer.base_offset) == (0, 0)
        assert partition.log.log_end_offset == 1


async def test_a_topic_with_synchronous_flushes_is_acknowledged_when_every_disk_has_it(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3), settings={"flush.messages": "1"})
        client = cluster.nodes[1].connect()
        for number in range(5):
            await produce_all(client, b"%d" % number)
            assert [log.recovery_point for log in logs_of(cluster)] == [number + 1] * 3


# --- leaders change ------------------------------------------------------------------------------


async def test_records_acknowledged_by_all_survive_the_leader(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        await produce_all(cluster.nodes[1].connect(), b"a", b"b", b"c")
        await cluster.nodes[1].stop()
        await cluster.fence(1, cluster.changed(leader=2, in_sync_replicas=(2, 3)))
        client = cluster.nodes[2].connect()
        await produce_all(client, b"d")
        answer = await client.fetch("t", 0)
        assert values_of(answer) == [b"a", b"b", b"c", b"d"]
        stored = bytes_of(cluster.nodes[2].partition().log)
        epochs = [header.partition_leader_epoch for _, header in iter_batches(stored)]
        assert epochs == [0, 0, 0, 1]


async def test_acks_1_loses_what_only_the_dead_leader_had(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"kept")
        for node_id in (2, 3):
            await cluster.nodes[node_id].stop()
        assert (await client.produce("t", b"lost", acks=1)).error_code == 0
        await cluster.nodes[1].stop()
        for node_id in (2, 3):
            await cluster.restart(cluster.nodes[node_id])
        await cluster.fence(1, cluster.changed(leader=2, in_sync_replicas=(2, 3)))
        await produce_all(cluster.nodes[2].connect(), b"after")
        await cluster.restart(cluster.nodes[1])
        log = cluster.nodes[1].partition().log
        await until(lambda: log.high_watermark == 2)
        assert bytes_of(log) == bytes_of(cluster.nodes[2].partition().log)
        answer = await cluster.nodes[2].connect().fetch("t", 0)
        assert values_of(answer) == [b"kept", b"after"]


async def test_a_follower_with_a_longer_log_truncates_it(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        await cluster.nodes[2].stop()
        for number in range(50):
            await client.produce("t", b"lost %d" % number)
        await cluster.nodes[1].stop()
        await cluster.restart(cluster.nodes[2])
        await cluster.lead(2, (2,))
        await produce_all(cluster.nodes[2].connect(), b"b")
        await cluster.restart(cluster.nodes[1])
        log = cluster.nodes[1].partition().log
        await until(lambda: log.high_watermark == 2)
        assert bytes_of(log) == bytes_of(cluster.nodes[2].partition().log)
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))


async def test_two_epochs_without_records_can_be_followed(tmp_path: Path) -> None:
    """KIP-279: leaders change quickly, and some epochs have no records."""
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"a")
        for leader in (2, 1, 2, 1):
            await cluster.lead(leader, (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"b")
        first, second = logs_of(cluster)
        assert bytes_of(first) == bytes_of(second)
        assert first.leader_epochs.entries == second.leader_epochs.entries


async def test_an_unclean_election_truncates_committed_records(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        await cluster.nodes[2].stop()
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        await produce_all(client, b"b", b"c")
        await cluster.nodes[1].stop()
        await cluster.restart(cluster.nodes[2])
        await cluster.lead(2, (2,))
        await produce_all(cluster.nodes[2].connect(), b"other")
        await cluster.restart(cluster.nodes[1])
        log = cluster.nodes[1].partition().log
        await until(lambda: log.log_end_offset == 2 and log.leader_epochs.latest_epoch == 1)
        assert bytes_of(log) == bytes_of(cluster.nodes[2].partition().log)


async def test_a_waiting_acks_all_is_answered_when_the_leader_changes(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await cluster.nodes[2].stop()
        await client.send(produce_request("t", one_batch(b"a"), acks=-1), 9)
        await until(lambda: len(cluster.nodes[1].partition().commits))
        await cluster.lead(2, (2,))
        assert (await receive_produced(client)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_produce_to_a_follower_gets_the_current_leader(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[2].connect()
        answer = await client.ask(produce_request("t", one_batch(b"a")), 10, produce.Response)
        one = answer.responses[0].partition_responses[0]
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (1, 0)
        endpoints = [(end.node_id, end.host, end.port) for end in answer.node_endpoints]
        assert endpoints == [(1, "broker1.test", 9092)]
        # By topic id, too.
        topic_id = cluster.image.topics["t"].topic_id
        request = produce.Request(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                produce.TopicData(
                    topic_id=topic_id,
                    partition_data=[produce.PartitionData(index=0, records=one_batch(b"a"))],
                )
            ],
        )
        answer = await client.ask(request, 13, produce.Response)
        assert answer.responses[0].partition_responses[0].current_leader.leader_id == 1


async def test_a_partition_without_a_leader_accepts_nothing(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await produce_all(cluster.nodes[1].connect(), b"a")
        await cluster.lead(NO_LEADER, (1, 2))
        for node in cluster.nodes.values():
            answer = await node.connect().produce("t", b"x")
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.lead(2, (1, 2))
        await produce_all(cluster.nodes[2].connect(), b"b")


async def test_a_deposed_leader_commits_nothing(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        old = cluster.nodes[1].connect()
        await produce_all(old, b"a")
        cluster.nodes[1].gets_no_metadata = True
        await cluster.lead(2, (1, 2, 3))
        request = produce_request("t", one_batch(b"zombie"), acks=-1)
        await old.send(request, 9)
        await until(lambda: cluster.nodes[1].partition().log.log_end_offset == 2)
        await cluster.decide(cluster.changed(in_sync_replicas=(2, 3)))
        await produce_all(cluster.nodes[2].connect(), b"b")
        assert cluster.nodes[1].partition().log.high_watermark == 1
        assert len(cluster.nodes[1].partition().commits) == 1
        cluster.nodes[1].gets_no_metadata = False
        await cluster.nodes[1].catch_up()
        assert (await receive_produced(old)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = cluster.nodes[1].partition().log
        await until(lambda: bytes_of(log) == bytes_of(cluster.nodes[2].partition().log))


async def test_a_follower_may_know_a_new_leader_before_that_leader_does(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        await produce_all(cluster.nodes[1].connect(), b"a")
        cluster.nodes[2].gets_no_metadata = True
        await cluster.lead(2, (1, 2, 3))
        server = cluster.nodes[2].broker.replicas.server
        assert server is not None
        await until(lambda: server.waiting_for_metadata)
        cluster.nodes[2].gets_no_metadata = False
        await cluster.nodes[2].catch_up()
        await produce_all(cluster.nodes[2].connect(), b"b")
