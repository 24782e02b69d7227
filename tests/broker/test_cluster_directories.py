"""Data directories that belong to another cluster or quorum, or to any cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.opening import BrokerOptions, open_broker
from minikafka.broker.settings.config import load_config
from minikafka.broker.system.start_error import StartError
from minikafka.protocol.errors import ErrorCode
from tests.broker.test_cluster import create
from tests.kit.in_process import ClusterUnderTest, running_cluster


async def test_a_node_of_another_cluster_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path / "a", voters=1) as first:
        async with running_cluster(tmp_path / "b", voters=1) as second:
            await second.start(2)
        # Node 2 knows its cluster, and is configured to join another one.
        stray = first.node(2)
        stray.data_dir = tmp_path / "b" / "node2"
        first.begin(2)
        await first.until(lambda: "belongs to cluster" in caplog.text)
        assert first.nodes[1].live() == [1]


async def test_a_directory_of_another_quorum_is_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.stop(1)
        other = ClusterUnderTest(cluster._nursery, tmp_path, 3)  # the same directories
        with pytest.raises(StartError, match="--quorum"):
            await other.node(1).run(other.settings)
        other.close()


async def test_a_directory_of_a_cluster_is_refused_by_a_broker_that_is_alone(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2)
        assert await create(cluster.nodes[1].connect(), "t", factor=2) == ErrorCode.NONE
        await cluster.stop(2)
        data_dir = cluster.nodes[1].data_dir
        await cluster.stop(1)
    options = BrokerOptions(load_config(None, ["node.id=1"], {}), data_dir)
    with pytest.raises(StartError, match=r"replicas on brokers 2.*--quorum"):
        open_broker(options)
