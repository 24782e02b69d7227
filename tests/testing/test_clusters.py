"""Clusters that tests start: nodes that are killed, paused and started again."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka import testing
from minikafka.testing.topics import wait_for_leaders
from minikafka.testing.wire import Wire
from minikafka_client.sync import AdminClient
from minikafka_client.types import NewTopic


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Generator[testing.Cluster]:
    nodes = [testing.NodeOptions({"broker.rack": rack}) for rack in "abc"]
    directory = tmp_path_factory.mktemp("cluster")
    settings = {"num.partitions": 2, "broker.session.timeout.ms": 3_000}
    with testing.cluster(nodes, settings, directory=directory) as cluster:
        with AdminClient(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("orders")])
        for broker in cluster.nodes.values():
            with Wire(broker.bootstrap) as wire:
                wait_for_leaders(wire, "orders")
        yield cluster


def test_all_nodes_serve_and_topics_are_replicated(kafka: testing.Cluster) -> None:
    assert list(kafka.nodes) == kafka.running == [1, 2, 3]
    with AdminClient(kafka.bootstrap) as admin:
        brokers = admin.describe_cluster().brokers
        described = admin.describe_topics(["orders"])["orders"]
    assert [(broker.node_id, broker.rack) for broker in brokers] == [(1, "a"), (2, "b"), (3, "c")]
    listeners = [f"{broker.host}:{broker.port}" for broker in brokers]
    assert ",".join(listeners) == kafka.bootstrap
    assert [len(partition.replicas) for partition in described.partitions] == [3, 3]
    assert kafka.nodes[2].data_dir == kafka.directory / "node-2" / "data"


def test_a_dead_leader_is_followed_by_another_and_comes_back(kafka: testing.Cluster) -> None:
    leader = kafka.leader("orders", 1)
    address = kafka.nodes[leader].bootstrap
    kafka.kill(leader)
    assert leader not in kafka.running
    assert kafka.leader("orders", 1) != leader
    kafka.start(leader)
    assert kafka.running == [1, 2, 3]
    assert kafka.nodes[leader].bootstrap == address
    assert "Traceback" not in kafka.log(leader)


def test_a_paused_leader_is_followed_by_another(kafka: testing.Cluster) -> None:
    leader = kafka.leader("orders")
    kafka.pause(leader)
    while kafka.leader("orders") == leader:
        pass
    kafka.resume(leader)
    assert kafka.running == [1, 2, 3]


def test_all_nodes_are_meant_when_none_is_named(kafka: testing.Cluster) -> None:
    before = kafka.bootstrap
    assert kafka.stop(2) == {2: 0}
    kafka.kill()
    assert kafka.running == []
    assert kafka.stop() == {}
    kafka.start()
    assert kafka.running == [1, 2, 3]
    assert kafka.bootstrap == before
    assert kafka.leader("orders") in (1, 2, 3)


def test_who_leads_is_not_known_for_ever(kafka: testing.Cluster) -> None:
    with pytest.raises(TimeoutError, match="missing-0 has had no leader for 0 s"):
        kafka.leader("missing", timeout_s=0.0)
    with pytest.raises(TimeoutError, match="orders-7 has had no leader"):
        kafka.leader("orders", 7, timeout_s=0.0)


def test_a_node_that_does_not_exist_is_an_error(kafka: testing.Cluster) -> None:
    with pytest.raises(ValueError, match="there is no node 4; the cluster has 1, 2, 3"):
        kafka.kill(4)
    assert kafka.running == [1, 2, 3]


def test_a_node_that_runs_is_not_started_twice(kafka: testing.Cluster) -> None:
    kafka.kill(2)
    with pytest.raises(RuntimeError, match="node 1 is already running"):
        kafka.start(2, 1)
    assert kafka.running == [1, 3]
    kafka.start()
    assert kafka.running == [1, 2, 3]


def test_a_cluster_needs_nodes() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        testing.cluster(0)


def test_nodes_that_do_not_start_leave_nothing_behind() -> None:
    nodes = [testing.NodeOptions(), testing.NodeOptions({"num.partitoins": 3})]
    cluster = testing.cluster(nodes)
    with pytest.raises(testing.BrokerStartError, match=r"(?s)node 2 ended.*did you mean"):
        cluster.__enter__()
    assert cluster.running == []
    assert not cluster.directory.exists()


async def test_a_cluster_of_one_for_trio() -> None:
    async with testing.cluster(1) as kafka:
        assert kafka.bootstrap == kafka.nodes[1].bootstrap
    assert kafka.running == []


def test_what_was_never_started_has_no_nodes(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="was not started"):
        _ = testing.cluster(directory=tmp_path).bootstrap
