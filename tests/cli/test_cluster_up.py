"""`minikafka cluster up`, and the commands that act on what it runs."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import Any

import pytest
from click.testing import CliRunner

from minikafka.cli.main import main
from minikafka.testing import BrokerStartError
from tests.cli.play_cluster import PlayCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PlayCluster]:
    with PlayCluster(tmp_path / "cluster", brokers=1) as cluster:
        yield cluster


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_stops_the_cluster_which_keeps_its_ports(
    cluster: PlayCluster, number: int
) -> None:
    before = cluster.bootstrap
    node = cluster.node(1)
    assert node.listener == before
    assert node.pid is not None
    assert cluster.stop(number) == 0
    assert not is_alive(node.pid)
    assert cluster.node(1).pid is None
    assert cluster.cluster().supervisor_pid is None
    assert cluster.stderr == ""
    cluster.start()
    assert cluster.bootstrap == before
    assert cluster.stop() == 0


def test_a_duplicate_signal_kills_nothing(cluster: PlayCluster) -> None:
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.stop(signal.SIGINT) == 0
    assert "killing" not in cluster.stderr


def test_a_broker_that_dies_stays_dead_until_it_is_started(cluster: PlayCluster) -> None:
    pid = cluster.node(1).pid
    stdout, _ = cluster.run("kill", "1")
    assert f"sent SIGKILL to node 1 (process {pid}, {cluster.bootstrap})" in stdout
    assert "node 1 was killed by SIGKILL" in stdout
    assert cluster.node(1).pid is None
    _, stderr = cluster.run("kill", "1", exit_code=1)
    assert "node 1 is not running; it was killed by SIGKILL. Start it with" in stderr
    stdout, stderr = cluster.run("status", exit_code=1)
    assert "was killed by SIGKILL" in stdout
    assert stderr == "minikafka cluster status: no broker is running\n"
    entry = cluster.json("start", "1")["nodes"][0]
    assert entry == {"node_id": 1, "pid": cluster.node(1).pid, "listener": cluster.bootstrap}
    assert entry["pid"] != pid
    _, stderr = cluster.run("start", "1", exit_code=1)
    assert f"is already running, as process {entry['pid']}" in stderr
    cluster.wait(lambda _: "is ready again" in cluster.stderr, "the supervisor's note")
    assert "it stays dead until `minikafka cluster start 1" in cluster.stderr


def test_sigterm_shuts_a_broker_down(cluster: PlayCluster) -> None:
    stdout, _ = cluster.run("kill", "1", "--signal", "term")
    assert "node 1 exited with code 0" in stdout
    cluster.wait(lambda _: "INFO minikafka" in cluster.stderr, "the end of its log")
    assert "exited with code 0" in cluster.stderr


def test_a_paused_broker_is_shown_as_paused_and_resumes(cluster: PlayCluster) -> None:
    assert cluster.run("pause", "1")[0].startswith("paused node 1 ")
    (node,) = cluster.json("status", exit_code=1)["nodes"]
    assert node["process"] == "paused"
    assert cluster.json("resume", "1")["nodes"][0]["node_id"] == 1
    assert cluster.json("status", "--check")["is_healthy"]


def test_even_a_paused_cluster_stops(cluster: PlayCluster) -> None:
    cluster.run("pause", "1")
    assert cluster.stop() == 0


def test_unknown_nodes_and_signals_are_named(cluster: PlayCluster) -> None:
    assert (
        "there is no node 7 in this cluster; it has 1" in cluster.run("kill", "7", exit_code=1)[1]
    )
    _, stderr = cluster.run("kill", "1", "--signal", "FOO", exit_code=2)
    assert "there is no signal 'FOO'; try KILL, TERM or STOP" in stderr


def test_nothing_is_signalled_once_the_supervisor_is_dead(cluster: PlayCluster) -> None:
    pid = cluster.node(1).pid
    assert pid is not None
    cluster.process.kill()
    wait_for_end(pid)
    # Its broker is dead as well, but the pid is still in the file.
    assert cluster.node(1).pid == pid
    for words in (["kill", "1"], ["pause", "1"], ["start", "1"]):
        _, stderr = cluster.run(*words, exit_code=1)
        assert "is not running; start it with `minikafka cluster up --data-dir" in stderr
    cluster.start()
    assert cluster.stop() == 0


def test_a_cluster_has_one_supervisor(cluster: PlayCluster) -> None:
    _, stderr = cluster.run("up", exit_code=1)
    assert "a cluster is already running in" in stderr
    assert cluster.json("status")["nodes"][0]["process"] == "running"


def test_a_node_that_does_not_start_ends_the_cluster_with_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = PlayCluster(tmp_path / "c", brokers=1, options=["--port", str(port)])
        with pytest.raises(BrokerStartError, match="cannot listen on"):
            cluster.start()
    assert cluster.process.exit_code == 1
    assert "a node ended before the cluster was ready; see above" in cluster.stderr
    assert f"the end of {cluster.files.log_path(1)}:" in cluster.stderr


def test_a_node_that_does_not_start_again_is_shown_with_its_log(cluster: PlayCluster) -> None:
    cluster.run("kill", "1")
    _, _, port = cluster.bootstrap.rpartition(":")
    with socket.create_server(("127.0.0.1", int(port))):
        _, stderr = cluster.run("start", "1", exit_code=1)
    assert "cannot listen on" in stderr
    assert "node 1 exited with code 1 before it was ready" in stderr
    cluster.run("start", "1")


def test_wrong_usage_of_up(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        directory = ["--data-dir", str(tmp_path / "c")]
        result = CliRunner().invoke(main, ["cluster", "up", *directory, *words])
        assert result.exit_code == 2
        return result.stderr

    assert "needs as many brokers" in refused("--brokers", "2", "--replication-factor", "3")
    assert "--brokers" in refused("--brokers", "0")
    assert "does not exist" in refused("--config", "missing.toml")


def test_status_of_a_cluster_without_a_directory(cluster: PlayCluster, tmp_path: Path) -> None:
    def status(*words: str) -> Any:
        return CliRunner().invoke(main, ["cluster", "status", *words])

    document = json.loads(status("--bootstrap", cluster.bootstrap, "--json").stdout)
    assert document["is_healthy"]
    assert document["nodes"][0]["process"] is None
    assert document["nodes"][0]["broker"] == "alive"
    assert "there is no cluster in" in status("--data-dir", str(tmp_path / "none")).stderr
    both = status("--bootstrap", cluster.bootstrap, "--data-dir", str(tmp_path))
    assert "exclude each other" in both.stderr


def test_help_teaches() -> None:
    text = CliRunner().invoke(main, ["cluster", "--help"]).stdout
    for word in ("cluster up", "cluster kill", "cluster pause", "cluster resume", "cluster start"):
        assert f"minikafka {word}" in text


def test_nodes_can_be_named_by_their_role(cluster: PlayCluster) -> None:
    environment = {"MINIKAFKA_BOOTSTRAP": cluster.bootstrap}
    runner = CliRunner(env=environment)
    assert runner.invoke(main, ["topic", "create", "orders", "--partitions", "2"]).exit_code == 0
    for word in ("leader:orders", "leader:orders:1", "controller"):
        (node,) = cluster.json("pause", word)["nodes"]
        assert node["node_id"] == 1
        cluster.run("resume", "1")
    for word, expected in (
        ("leader:orders:2", "topic 'orders' has no partition 2; it has 2"),
        ("leader:nothing", "nothing"),
        (
            "leader",
            "'leader' is not a node; give a number, all, controller, leader:TOPIC[:PARTITION]",
        ),
        ("leader:orders:x", "is not a node"),
        ("first", "is not a node"),
    ):
        assert expected in cluster.run("kill", word, exit_code=1)[1]
    cluster.run("pause", "1", "1")
    _, stderr = cluster.run("kill", "controller", exit_code=1)
    assert "no broker is running that could name it; give a node's number" in stderr


def test_all_means_all_nodes_that_the_command_applies_to(cluster: PlayCluster) -> None:
    assert "no node is dead" in cluster.run("start", "all", exit_code=1)[1]
    assert [node["node_id"] for node in cluster.json("pause", "all")["nodes"]] == [1]
    assert [node["node_id"] for node in cluster.json("kill", "all")["nodes"]] == [1]
    assert "no node is running" in cluster.run("kill", "all", exit_code=1)[1]
    cluster.run("start", "all", "--no-wait")
    assert cluster.node(1).pid is not None
    cluster.wait_until_running(1)
