"""The commands on a cluster of three, one of which dies and is restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.play_cluster import PlayCluster
from tests.kit.waiting import look_until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PlayCluster]:
    with PlayCluster(tmp_path / "cluster") as cluster:
        yield cluster


def is_healthy(cluster: PlayCluster) -> bool:
    return cluster.json("status", exit_code=None)["is_healthy"] is True


def partition_of(cli: CommandLine) -> dict[str, Any]:
    (topic,) = cli.json("topic", "describe", "orders")["topics"]
    (partition,) = topic["partitions"]
    document: dict[str, Any] = partition
    return document


def knows(cli: CommandLine, topic: str) -> bool:
    return topic in cli.ok("topic", "list").splitlines()


def test_a_leader_dies_and_comes_back(cluster: PlayCluster) -> None:
    cli = CommandLine(cluster.bootstrap)
    created = cli.ok("topic", "create", "orders", "--partitions", "1")
    assert created == "created orders: 1 partition, replication factor 3\n"
    cli.ok("produce", "orders", stdin="a\nb\n")
    look_until(lambda: is_healthy(cluster), "a healthy cluster")

    before = partition_of(cli)
    leader = before["leader"]
    assert sorted(before["replicas"]) == sorted(before["in_sync_replicas"]) == [1, 2, 3]
    assert [log["log_end_offset"] for log in before["replica_logs"]] == [2, 2, 2]
    document = cluster.json("status")
    assert [node["broker"] for node in document["nodes"]] == ["alive"] * 3
    assert document["quorum"]["voters"] == [1, 2, 3]
    assert document["partitions"]["total"] == 1

    stdout, _ = cluster.run("kill", "leader:orders")
    assert f"node {leader} was killed by SIGKILL" in stdout
    look_until(lambda: partition_of(cli)["leader"] not in (None, leader), "a new leader")
    assert cli.ok("produce", "orders", stdin="c\n") == ""
    assert leader in partition_of(cli)["offline_replicas"]
    assert {"node_id": leader, "log_start_offset": None} == {
        key: log[key]
        for log in partition_of(cli)["replica_logs"]
        if log["node_id"] == leader
        for key in ("node_id", "log_start_offset")
    }
    stdout, stderr = cluster.run("status", "--check", exit_code=1)
    assert "0 without a leader, 1 under-replicated" in stdout
    assert "orders" in stdout.split("partitions in trouble")[1]
    assert "the cluster is not healthy" in stderr

    cluster.run("start", str(leader))
    look_until(lambda: is_healthy(cluster), "a healthy cluster")
    cluster.run("status", "--check")
    look_until(
        lambda: [log["log_end_offset"] for log in partition_of(cli)["replica_logs"]] == [3, 3, 3],
        "three equal logs",
    )
    assert partition_of(cli)["high_watermark"] == 3
    assert cli.ok("consume", "orders", "--from-beginning", "--max-records", "3") == "a\nb\nc\n"
    cluster.check_logs()


def test_a_restart_with_another_broker_keeps_everything(cluster: PlayCluster) -> None:
    cli = CommandLine(cluster.bootstrap)
    cli.ok("topic", "create", "orders", "--partitions", "1")
    cli.ok("produce", "orders", stdin="a\n")
    assert cluster.stop() == 0
    with PlayCluster(cluster.files.directory, brokers=4) as larger:
        assert larger.bootstrap.startswith(cluster.bootstrap)
        look_until(lambda: is_healthy(larger), "a healthy cluster")
        document = larger.json("status")
        assert [node["quorum_role"] for node in document["nodes"]].count("observer") == 1
        assert document["nodes"][3]["broker"] == "alive"
        cli = CommandLine(larger.bootstrap)
        assert cli.ok("consume", "orders", "--from-beginning", "--max-records", "1") == "a\n"
        cli.ok("topic", "create", "wide", "--partitions", "8")
        brokers = [CommandLine(node["listener"]) for node in document["nodes"]]
        # Brokers learn of it at different times.
        look_until(lambda: all(knows(one, "wide") for one in brokers), "a topic on all brokers")
        (topic,) = cli.json("topic", "describe", "wide")["topics"]
        assert any(4 in partition["replicas"] for partition in topic["partitions"])
