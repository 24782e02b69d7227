"""The commands on a cluster of three, one of which dies and comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from tests.cli.conftest import CommandLine, until
from tests.live_cluster import LiveCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "cluster") as cluster:
        yield cluster


def run(cluster: LiveCluster, *words: str) -> tuple[int, str, str]:
    """Run `minikafka cluster` on the cluster's directory."""
    option = ["--data-dir", str(cluster.files.directory)]
    result = CliRunner().invoke(main, ["cluster", *words, *option])
    return result.exit_code, result.stdout, result.stderr


def status(cluster: LiveCluster) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(cluster, "status", "--json")[1])
    return document


def is_healthy(cluster: LiveCluster) -> bool:
    return run(cluster, "status", "--check")[0] == 0


def partition_of(cli: CommandLine) -> dict[str, Any]:
    (topic,) = cli.json("topic", "describe", "orders")["topics"]
    (partition,) = topic["partitions"]
    document: dict[str, Any] = partition
    return document


def knows(cli: CommandLine, topic: str) -> bool:
    return topic in cli.ok("topic", "list").splitlines()


def test_a_leader_dies_and_comes_back(cluster: LiveCluster) -> None:
    cli = CommandLine(cluster.bootstrap)
    told = cli.ok("topic", "create", "orders", "--partitions", "1")
    assert told == "created orders: 1 partition, replication factor 3\n"
    cli.ok("produce", "orders", stdin="a\nb\n")
    until(lambda: is_healthy(cluster), "a healthy cluster")

    before = partition_of(cli)
    leader = before["leader"]
    assert sorted(before["replicas"]) == sorted(before["in_sync_replicas"]) == [1, 2, 3]
    assert [log["log_end_offset"] for log in before["replica_logs"]] == [2, 2, 2]
    document = status(cluster)
    assert [node["broker"] for node in document["nodes"]] == ["alive"] * 3
    assert document["quorum"]["voters"] == [1, 2, 3]
    assert document["partitions"]["total"] == 1

    exit_code, stdout, _ = run(cluster, "kill", "leader:orders")
    assert exit_code == 0
    assert f"node {leader} was ended by SIGKILL" in stdout
    until(lambda: partition_of(cli)["leader"] not in (None, leader), "a new leader")
    assert cli.ok("produce", "orders", stdin="c\n") == ""
    assert leader in partition_of(cli)["offline_replicas"]
    assert {"node_id": leader, "log_start_offset": None} == {
        key: log[key]
        for log in partition_of(cli)["replica_logs"]
        if log["node_id"] == leader
        for key in ("node_id", "log_start_offset")
    }
    exit_code, stdout, stderr = run(cluster, "status", "--check")
    assert exit_code == 1
    assert "0 without a leader, 1 under-replicated" in stdout
    assert "orders" in stdout.split("partitions in trouble")[1]
    assert "not everything is as it should be" in stderr

    assert run(cluster, "start", str(leader))[0] == 0
    until(lambda: is_healthy(cluster), "a healthy cluster")
    until(
        lambda: [log["log_end_offset"] for log in partition_of(cli)["replica_logs"]] == [3, 3, 3],
        "three equal logs",
    )
    assert partition_of(cli)["high_watermark"] == 3
    assert cli.ok("consume", "orders", "--from-beginning", "--max-records", "3") == "a\nb\nc\n"
    cluster.check_logs()


def test_a_broker_is_added_and_everything_is_there_the_next_time(cluster: LiveCluster) -> None:
    cli = CommandLine(cluster.bootstrap)
    cli.ok("topic", "create", "orders", "--partitions", "1")
    cli.ok("produce", "orders", stdin="a\n")
    assert cluster.stop() == 0
    larger = LiveCluster(cluster.files.directory, brokers=4, options=[])
    larger.bootstrap = cluster.bootstrap  # the same ports
    with larger:
        assert larger.bootstrap.startswith(cluster.bootstrap)
        until(lambda: is_healthy(larger), "a healthy cluster")
        document = status(larger)
        assert [node["quorum_role"] for node in document["nodes"]].count("observer") == 1
        assert document["nodes"][3]["broker"] == "alive"
        cli = CommandLine(larger.bootstrap)
        assert cli.ok("consume", "orders", "--from-beginning", "--max-records", "1") == "a\n"
        cli.ok("topic", "create", "wide", "--partitions", "8")
        brokers = [CommandLine(node["listener"]) for node in document["nodes"]]
        # Each broker hears of it in its own time.
        until(lambda: all(knows(one, "wide") for one in brokers), "a topic on all brokers")
        (topic,) = cli.json("topic", "describe", "wide")["topics"]
        assert any(4 in partition["replicas"] for partition in topic["partitions"])
