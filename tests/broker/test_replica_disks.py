"""A disk fails under a replica: another in-sync replica leads, and the ISR leaves it out."""

from __future__ import annotations

import errno
from pathlib import Path

import trio.testing

from minikafka.protocol.errors import ErrorCode
from minikafka.storage.repair import QuarantinedRange
from tests.broker.replicated import replicated, until
from tests.broker.test_replication import bytes_of, produce_all
from tests.kit.wire import values_of

BROKEN = OSError(errno.EIO, "Input/output error")


async def test_another_replica_leads_when_the_disk_under_the_leader_fails(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3), (1,))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b")
        cluster.nodes[1].partition().log.fail(BROKEN)
        cluster.nodes[1].partition("t", 1).log.fail(BROKEN)
        await until(lambda: cluster.now().leader in (2, 3))
        assert cluster.now().in_sync_replicas == (2, 3)
        answer = await client.produce("t", b"c")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        leader = cluster.nodes[cluster.now().leader].connect()
        await produce_all(leader, b"c")
        assert values_of(await leader.fetch("t", 0)) == [b"a", b"b", b"c"]
        # The other partition has no other replica.
        assert cluster.now("t", 1).leader == 1


async def test_a_recovered_log_follows_the_new_leader(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b", b"c")
        cluster.refusal = ErrorCode.NOT_CONTROLLER
        log = cluster.nodes[1].partition().log
        log.flush()
        log.segments[-1].file.truncate(80)  # one batch is lost
        log.fail(BROKEN)
        await cluster.nodes[1].broker.replicas.reopen("t", 0)
        # It has less than the other replica now, which must not be truncated to it.
        assert cluster.nodes[1].partition().log.log_end_offset < 3
        assert not cluster.nodes[1].partition().is_leader
        assert (await client.produce("t", b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert cluster.nodes[2].partition().log.log_end_offset == 3
        cluster.refusal = None
        await until(lambda: cluster.now().leader == 2)
        await produce_all(cluster.nodes[2].connect(), b"d")
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        first, second = (node.partition().log for node in cluster.nodes.values())
        assert bytes_of(first) == bytes_of(second)


async def test_a_follower_whose_disk_fails_leaves_the_isr_immediately(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        cluster.nodes[2].partition().log.fail(BROKEN)
        # Not only after replica.lag.time.max.ms.
        await produce_all(client, b"b")
        assert cluster.now().in_sync_replicas == (1,)
        await cluster.nodes[2].broker.replicas.reopen("t", 0)
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        await produce_all(client, b"c")


async def test_a_follower_fetches_again_what_its_disk_damaged(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a", b"b", b"c")
        await cluster.lead(NOBODY, (1, 2))
        log = cluster.nodes[2].partition().log
        log.quarantined = (QuarantinedRange(1, 2),)
        await cluster.lead(1, (1, 2))
        await until(lambda: log.log_end_offset == 3 and not log.quarantined)
        assert bytes_of(log) == bytes_of(cluster.nodes[1].partition().log)


async def test_the_last_in_sync_replica_leads_again_when_its_disk_is_back(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        await produce_all(client, b"a")
        await cluster.nodes[2].stop()
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        cluster.nodes[1].partition().log.fail(BROKEN)
        answer = await client.produce("t", b"b")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.nodes[1].broker.replicas.reopen("t", 0)
        await produce_all(client, b"b")


NOBODY = -1
