"""Kafka Streams with exactly_once_v2 on three of our brokers; an instance and a broker die."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.testing import Cluster
from tests.kit.live import check_logs
from tests.peers.counting import counting, instance

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture
def cluster(jars: object, tmp_path: Path) -> Generator[Cluster]:
    """Three brokers whose logs show no bug at the end."""
    with Cluster(3, SETTINGS, directory=tmp_path / "cluster", control=False) as running:
        yield running
        check_logs(running)


CLASSIC = {
    "group.protocol": "classic",
    "consumer.session.timeout.ms": 3000,
    "consumer.heartbeat.interval.ms": 300,
}


def test_every_word_is_counted_once_although_an_instance_and_a_broker_die(
    cluster: Cluster, tmp_path: Path
) -> None:
    with (
        counting(cluster) as counted,
        instance(cluster, tmp_path, "first", **CLASSIC) as first,
        instance(cluster, tmp_path, "second", **CLASSIC) as second,
    ):
        counted.send_a_part()
        counted.read_until(counted.sent // 2, first, second)
        counted.send_a_part()
        first.kill()
        counted.read_until(counted.sent, second)
        counted.send_a_part()
        first.start()
        victim = cluster.leader("counted", 0)
        cluster.kill(victim)
        counted.read_until(counted.sent, first, second)
        cluster.start(victim)
        counted.send_a_part()
        counted.read_until(counted.sent, first, second)
    counted.check()
