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
from tests.live_cluster import LiveCluster


class ClusterCommands:
    """Runs `minikafka cluster` on one directory."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._option = ["--data-dir", str(cluster.files.directory)]

    def run(self, *words: str, exit_code: int = 0) -> tuple[str, str]:
        result = CliRunner().invoke(main, ["cluster", *words, *self._option])
        assert result.exit_code == exit_code, result.output
        return result.stdout, result.stderr

    def json(self, *words: str, exit_code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", exit_code=exit_code)[0])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "cluster", brokers=1) as cluster:
        yield cluster


@pytest.fixture
def commands(cluster: LiveCluster) -> ClusterCommands:
    return ClusterCommands(cluster)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid: int) -> None:
    """Of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_ends_all_and_the_next_time_has_the_same_ports(
    cluster: LiveCluster, number: int
) -> None:
    before = cluster.bootstrap
    node = cluster.node(1)
    assert node.listener == before
    assert node.pid is not None
    assert cluster.stop(number) == 0
    assert not is_alive(node.pid)
    assert cluster.node(1).pid is None
    assert cluster.cluster().supervisor_pid is None
    assert cluster.said == ""
    cluster.start()
    assert cluster.bootstrap == before
    assert cluster.stop() == 0


def test_a_signal_that_comes_twice_is_not_insisting(cluster: LiveCluster) -> None:
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.stop(signal.SIGINT) == 0
    assert "killing" not in cluster.said


def test_a_broker_that_dies_stays_dead_until_it_is_started(
    cluster: LiveCluster, commands: ClusterCommands
) -> None:
    pid = cluster.node(1).pid
    stdout, _ = commands.run("kill", "1")
    assert f"sent SIGKILL to node 1 (process {pid}, {cluster.bootstrap})" in stdout
    assert "node 1 was ended by SIGKILL" in stdout
    assert cluster.node(1).pid is None
    _, stderr = commands.run("kill", "1", exit_code=1)
    assert "node 1 does not run; it was ended by SIGKILL. Start it with" in stderr
    stdout, stderr = commands.run("status", exit_code=1)
    assert "was ended by SIGKILL" in stdout
    assert stderr == "minikafka cluster status: no broker runs\n"
    entry = commands.json("start", "1")["nodes"][0]
    assert entry == {"node_id": 1, "pid": cluster.node(1).pid, "listener": cluster.bootstrap}
    assert entry["pid"] != pid
    _, stderr = commands.run("start", "1", exit_code=1)
    assert f"runs already, as process {entry['pid']}" in stderr
    cluster.wait(lambda _: "serves again" in cluster.said, "the supervisor to say so")
    assert "it stays dead until `minikafka cluster start 1" in cluster.said


def test_a_broker_is_asked_to_stop(cluster: LiveCluster, commands: ClusterCommands) -> None:
    stdout, _ = commands.run("kill", "1", "--signal", "term")
    assert "node 1 ended with exit code 0" in stdout
    cluster.wait(lambda _: "INFO minikafka" in cluster.said, "the end of its log")
    assert "ended with exit code 0" in cluster.said


def test_a_paused_broker_is_shown_as_such_and_goes_on(
    cluster: LiveCluster, commands: ClusterCommands
) -> None:
    assert commands.run("pause", "1")[0].startswith("paused node 1 ")
    (node,) = commands.json("status", exit_code=1)["nodes"]
    assert node["process"] == "paused"
    assert commands.json("resume", "1")["nodes"][0]["node_id"] == 1
    assert commands.json("status", "--check")["is_healthy"]


def test_even_a_paused_cluster_stops(cluster: LiveCluster, commands: ClusterCommands) -> None:
    commands.run("pause", "1")
    assert cluster.stop() == 0


def test_what_is_wrong_with_a_command_is_said(commands: ClusterCommands) -> None:
    assert (
        "there is no node 7 in this cluster; it has 1" in commands.run("kill", "7", exit_code=1)[1]
    )
    _, stderr = commands.run("kill", "1", "--signal", "FOO", exit_code=2)
    assert "there is no signal 'FOO'; try KILL, TERM or STOP" in stderr


def test_nothing_is_signalled_when_the_supervisor_is_gone(
    cluster: LiveCluster, commands: ClusterCommands
) -> None:
    pid = cluster.node(1).pid
    assert pid is not None
    cluster.process.kill()
    cluster.end()
    wait_for_end(pid)
    # Its broker has not outlived it, but its number is still in the file.
    assert cluster.node(1).pid == pid
    for words in (["kill", "1"], ["pause", "1"], ["start", "1"]):
        _, stderr = commands.run(*words, exit_code=1)
        assert "does not run; start it with `minikafka cluster up --data-dir" in stderr
    cluster.start()
    assert cluster.stop() == 0


def test_two_cannot_run_one_cluster(cluster: LiveCluster, commands: ClusterCommands) -> None:
    _, stderr = commands.run("up", exit_code=1)
    assert "a cluster runs in" in stderr
    assert commands.json("status")["nodes"][0]["process"] == "running"


def test_a_node_that_does_not_start_ends_the_cluster_with_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = LiveCluster(tmp_path / "c", brokers=1, options=["--port", str(port)])
        with pytest.raises(AssertionError, match="cannot listen on"):
            cluster.start()
    assert cluster.process.returncode == 1
    assert "a node ended before the cluster was ready; see above" in cluster.said
    assert f"the end of {cluster.files.log_path(1)}:" in cluster.said


def test_a_node_that_does_not_start_again_is_shown_with_its_log(
    cluster: LiveCluster, commands: ClusterCommands
) -> None:
    commands.run("kill", "1")
    _, _, port = cluster.bootstrap.rpartition(":")
    with socket.create_server(("127.0.0.1", int(port))):
        _, stderr = commands.run("start", "1", exit_code=1)
    assert "cannot listen on" in stderr
    assert "node 1 ended with exit code 1 before it could serve" in stderr
    commands.run("start", "1")


def test_wrong_usage_of_up(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        directory = ["--data-dir", str(tmp_path / "c")]
        result = CliRunner().invoke(main, ["cluster", "up", *directory, *words])
        assert result.exit_code == 2
        return result.stderr

    assert "needs as many brokers" in refused("--brokers", "2", "--replication-factor", "3")
    assert "--brokers" in refused("--brokers", "0")
    assert "does not exist" in refused("--config", "missing.toml")


def test_status_of_a_cluster_that_is_elsewhere(cluster: LiveCluster, tmp_path: Path) -> None:
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


def test_nodes_have_names_for_what_they_do(cluster: LiveCluster, commands: ClusterCommands) -> None:
    environment = {"MINIKAFKA_BOOTSTRAP": cluster.bootstrap}
    runner = CliRunner(env=environment)
    assert runner.invoke(main, ["topic", "create", "orders", "--partitions", "2"]).exit_code == 0
    for word in ("leader:orders", "leader:orders:1", "controller"):
        (node,) = commands.json("pause", word)["nodes"]
        assert node["node_id"] == 1
        commands.run("resume", "1")
    for word, told in (
        ("leader:orders:2", "topic 'orders' has 2 partitions, no 2"),
        ("leader:nothing", "nothing"),
        ("leader", "'leader' is no node; give a number, all, controller, leader:TOPIC[:PARTITION]"),
        ("leader:orders:x", "is no node"),
        ("first", "is no node"),
    ):
        assert told in commands.run("kill", word, exit_code=1)[1]
    commands.run("pause", "1", "1")
    _, stderr = commands.run("kill", "controller", exit_code=1)
    assert "no broker runs that could say who leads" in stderr


def test_all_means_those_that_it_can_mean(cluster: LiveCluster, commands: ClusterCommands) -> None:
    assert "no node is dead" in commands.run("start", "all", exit_code=1)[1]
    assert [node["node_id"] for node in commands.json("pause", "all")["nodes"]] == [1]
    assert [node["node_id"] for node in commands.json("kill", "all")["nodes"]] == [1]
    assert "no node runs" in commands.run("kill", "all", exit_code=1)[1]
    commands.run("start", "all", "--no-wait")
    assert cluster.node(1).pid is not None
    cluster.wait_until_running(1)
