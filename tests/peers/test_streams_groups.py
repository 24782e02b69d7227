"""Kafka Streams with ``group.protocol=streams`` (KIP-1071) and exactly_once_v2 on our brokers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.testing import Cluster
from tests.kit.live import check_logs
from tests.peers.counting import counting, instance

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.num.standby.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture
def cluster(jars: object, tmp_path: Path) -> Generator[Cluster]:
    """Three brokers whose logs show no bug at the end."""
    with Cluster(3, SETTINGS, directory=tmp_path / "cluster", control=False) as running:
        yield running
        check_logs(running)


STREAMS = {"group.protocol": "streams"}


def test_every_word_is_counted_once_although_an_instance_and_the_coordinator_die(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The broker makes the repartition and the changelog topic; standbys take over."""
    with (
        counting(cluster) as counted,
        instance(cluster, tmp_path, "first", **STREAMS) as first,
        instance(cluster, tmp_path, "second", **STREAMS) as second,
    ):
        counted.send_a_part()
        counted.read_until(counted.sent // 2, first, second)
        counted.send_a_part()
        first.kill()
        counted.read_until(counted.sent, second)
        counted.send_a_part()
        first.start()
        coordinator = cluster.leader("__consumer_offsets", 0)
        cluster.kill(coordinator)
        counted.read_until(counted.sent, first, second)
        cluster.start(coordinator)
        counted.send_a_part()
        counted.read_until(counted.sent, first, second)
    counted.check()
