"""Replication throttles (KIP-73) slow down replicas that catch up, but not those in sync."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from minikafka.broker.replicas.throttle import Throttle
from minikafka.metadata.records import SettingRecord
from tests.broker.replicated import ReplicatedCluster, replicated, until
from tests.broker.test_replication import bytes_of, produce_all


def test_a_bucket_fills_at_its_rate() -> None:
    throttle = Throttle(100.0)
    assert throttle.wait_s(1000.0) == 0
    throttle.passed(150, 1000.0)
    assert throttle.wait_s(1000.0) == pytest.approx(0.51)
    assert throttle.wait_s(1000.4) == pytest.approx(0.11)
    assert throttle.wait_s(1000.52) == 0
    assert throttle.wait_s(990.0) == 0  # a clock that goes back takes no bytes away
    throttle.passed(1000, 2000.0)
    assert throttle.set_rate(10.0)
    assert not throttle.set_rate(10.0)
    assert throttle.wait_s(2000.0) == 0


async def add_a_replica(cluster: ReplicatedCluster, side: str, replicas: str) -> None:
    """A partition with a second replica to be filled, 50 batches of 1 KB, throttled."""
    await cluster.create_topic(
        "t", (1,), settings={f"{side}.replication.throttled.replicas": replicas}
    )
    client = cluster.nodes[1].connect()
    for _ in range(50):
        await client.produce("t", b"x" * 1000)
    await cluster.decide(cluster.changed(replicas=(1, 2), adding_replicas=(2,)))


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("replicas", ["0:2", "*"])
async def test_a_throttled_replica_waits_for_its_quota(
    tmp_path: Path, side: str, replicas: str
) -> None:
    name = f"{side}.replication.throttled.rate"
    settings = ("replica.fetch.max.bytes=5000", f"{name}=1")
    async with replicated(tmp_path, 2, *settings) as cluster:
        await add_a_replica(cluster, side, replicas)
        log = cluster.nodes[2].partition().log
        await until(lambda: log.log_end_offset > 0)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert log.log_end_offset < 10
        assert cluster.now().in_sync_replicas == (1,)
        await cluster.decide(SettingRecord(4, "", name, "100000000"))
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        assert bytes_of(log) == bytes_of(cluster.nodes[1].partition().log)


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_in_sync_and_unthrottled_replicas_are_not_slowed_down(
    tmp_path: Path, side: str
) -> None:
    settings = ("replica.fetch.max.bytes=5000", f"{side}.replication.throttled.rate=1")
    async with replicated(tmp_path, 2, *settings) as cluster:
        await add_a_replica(cluster, side, "1:2,0:3")
        await until(lambda: cluster.now().in_sync_replicas == (1, 2))
        await cluster.decide(SettingRecord(2, "t", f"{side}.replication.throttled.replicas", "*"))
        await produce_all(cluster.nodes[1].connect(), *[b"y" * 1000] * 20)
        assert cluster.nodes[2].partition().log.log_end_offset == 70
