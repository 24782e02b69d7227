"""Clients hear of a broker that left for one more session timeout, as they do with Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.cluster_view import known_brokers
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.cluster_harness import ClusterUnderTest, Node, running_cluster

_LONG = "broker.session.timeout.ms=3600000"


def known(node: Node) -> list[int]:
    return [one.broker_id for one in known_brokers(node.broker)]


async def listed(node: Node) -> list[tuple[int, str]]:
    """What Metadata answers."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    answer = await node.connect().ask(request, 12, MetadataResponse)
    return [(one.node_id, one.host) for one in answer.brokers]


async def _end(cluster: ClusterUnderTest, node_id: int, how: str) -> None:
    await (cluster.kill(node_id) if how == "kill" else cluster.stop(node_id))
    await cluster.until(lambda: not any(node_id in node.live() for node in cluster.running))


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_whoever_leaves_is_named_until_its_session_would_have_ended(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, _LONG) as cluster:
        await _end(cluster, 2, how)
        for node in cluster.running:
            assert await listed(node) == [(n, f"broker{n}.test") for n in (1, 2, 3)]
        clock = cluster.nodes[1].broker.clock
        later = clock.monotonic() + 3600.0
        monkeypatch.setattr(clock, "monotonic", lambda: later)
        assert [number for number, _ in await listed(cluster.nodes[1])] == [1, 3]


async def test_who_comes_back_and_goes_again_is_named_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, _LONG) as cluster:
        for _ in range(2):
            await _end(cluster, 2, "kill")
            assert known(cluster.nodes[1]) == [1, 2, 3]
            await cluster.start(2)
            assert known(cluster.nodes[1]) == [1, 2, 3]
            assert cluster.nodes[1].broker.departures.recent() == []


async def test_a_broker_that_starts_names_nobody_who_left_before(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, _LONG) as cluster:
        await _end(cluster, 2, "kill")
        await cluster.kill(3)
        await cluster.start(3)
        assert known(cluster.nodes[3]) == [1, 3]
