"""DeleteRecords on several replicas: the answer comes when all live ones have deleted (KIP-107)."""

from __future__ import annotations

from pathlib import Path

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_records
from tests.broker.replicated import replicated, until
from tests.broker.test_replication import logs_of, produce_all
from tests.kit.wire import WireClient


async def delete(client: WireClient, offset: int, timeout_ms: int = 10_000) -> tuple[int, int]:
    """(error code, low watermark)."""
    request = delete_records.Request(
        topics=[
            delete_records.Topic(
                name="t", partitions=[delete_records.Partition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=timeout_ms,
    )
    answer = await client.ask(request, 2, delete_records.Response)
    one = answer.topics[0].partitions[0]
    return one.error_code, one.low_watermark


async def test_all_replicas_delete_before_the_answer(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3, "replica.fetch.wait.max.ms=60000") as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b", b"c", b"d")
        assert await delete(client, 2) == (0, 2)
        assert [log.log_start_offset for log in logs_of(cluster)] == [2, 2, 2]
        assert await delete(client, 1) == (0, 2)
        assert await delete(client, -1) == (0, 4)
        assert [log.log_start_offset for log in logs_of(cluster)] == [4, 4, 4]
        await produce_all(client, b"e")
        follower = cluster.nodes[2].connect()
        assert (await delete(follower, 3))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_the_answer_waits_for_a_silent_replica_until_it_is_fenced(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        client, other = cluster.nodes[1].connect(), cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b")
        await cluster.nodes[3].stop()
        assert await delete(client, 1, timeout_ms=30) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        partition = cluster.nodes[1].partition()
        assert not partition.deletions
        request = delete_records.Request(
            topics=[
                delete_records.Topic(
                    name="t", partitions=[delete_records.Partition(partition_index=0, offset=2)]
                )
            ],
            timeout_ms=60_000,
        )
        await other.send(request, 2)
        await until(lambda: len(partition.deletions))
        await cluster.fence(3, cluster.changed(in_sync_replicas=(1, 2)))
        _, answer = await other.receive(delete_records.Response, 2)
        one = answer.topics[0].partitions[0]
        assert (one.error_code, one.low_watermark) == (0, 2)
        # A replica that comes back starts where the others start.
        await cluster.restart(cluster.nodes[3])
        await until(lambda: cluster.now().in_sync_replicas == (1, 2, 3))
        await until(lambda: cluster.nodes[3].partition().log.log_start_offset == 2)


async def test_a_waiting_request_is_answered_when_the_leader_changes(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b")
        await until(lambda: cluster.nodes[2].partition().log.high_watermark == 2)
        await cluster.nodes[2].stop()
        request = delete_records.Request(
            topics=[
                delete_records.Topic(
                    name="t", partitions=[delete_records.Partition(partition_index=0, offset=1)]
                )
            ],
            timeout_ms=60_000,
        )
        await client.send(request, 2)
        await until(lambda: len(cluster.nodes[1].partition().deletions))
        await cluster.lead(2, (2,))
        _, answer = await client.receive(delete_records.Response, 2)
        code = answer.topics[0].partitions[0].error_code
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_behind_the_leaders_retention_starts_over(tmp_path: Path) -> None:
    """KAFKA-9491: its high watermark moves with its log start."""
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        await cluster.nodes[2].stop()
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        await produce_all(client, *[b"%d" % number for number in range(10)])
        assert await delete(client, 5) == (0, 5)
        await cluster.restart(cluster.nodes[2])
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        log = cluster.nodes[2].partition().log
        assert (log.log_start_offset, log.log_end_offset) == (5, 11)
        await until(lambda: log.high_watermark == 11)
