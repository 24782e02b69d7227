"""What commands of a cluster find in its directory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minikafka.cli.cluster.files import Cluster, ClusterFiles, Node, NodeState
from minikafka.cli.failure import CommandFailed

CLUSTER = Cluster(
    nodes=[
        Node(1, "127.0.0.1:9092", "127.0.0.1:19092", 4242, NodeState.RUNNING, 1, None),
        Node(2, "127.0.0.1:9093", "127.0.0.1:19093", None, NodeState.STOPPED, 2, -9),
    ],
    voters=[1],
    supervisor_pid=4000,
)


def test_a_written_cluster_is_read_back(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "deep" / "down")
    assert files.read() is None
    files.write(CLUSTER)
    assert files.read() == CLUSTER
    assert files.read_existing().node(2).exit_code == -9


def test_the_file_says_which_process_is_which_broker(tmp_path: Path) -> None:
    ClusterFiles(tmp_path).write(CLUSTER)
    document = json.loads((tmp_path / "cluster.json").read_text())
    first, second = document["nodes"]
    assert {"node_id": 1, "pid": 4242, "listener": "127.0.0.1:9092"}.items() <= first.items()
    assert second["pid"] is None


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    files.write(CLUSTER)
    with (tmp_path / "cluster.json").open() as before:
        files.write(Cluster(nodes=[], voters=[]))
        assert json.load(before)["voters"] == [1]
    assert files.read() == Cluster(nodes=[], voters=[])


def test_a_missing_cluster_comes_with_the_command_that_starts_one(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="minikafka cluster up --data-dir"):
        ClusterFiles(tmp_path).read_existing()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nodes": [{}]}', '{"nodes": 7}'])
def test_a_cluster_file_of_another_format_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(CommandFailed, match=r"cluster\.json was not written by"):
        ClusterFiles(tmp_path).read()


def test_an_unknown_node_is_named_with_the_existing_ones() -> None:
    with pytest.raises(CommandFailed, match="no node 7 in this cluster; it has 1, 2"):
        CLUSTER.node(7)


def test_one_supervisor_and_requests_to_it(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    with pytest.raises(CommandFailed, match="is not running"):
        files.request("start 1")
    with files.supervised() as requests:
        files.require_supervisor()
        files.request("start 1")
        files.request("start 2")
        assert os.read(requests, 100) == b"start 1\nstart 2\n"
        with pytest.raises(CommandFailed, match="look at it with"), files.supervised():
            raise AssertionError("two supervisors")
        # The second one took nothing away from the first.
        files.request("start 3")
        assert os.read(requests, 100) == b"start 3\n"
    with pytest.raises(CommandFailed, match="is not running"):
        files.require_supervisor()


def test_the_pipe_of_a_killed_supervisor_is_not_a_supervisor(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    os.mkfifo(tmp_path / "cluster.requests")
    with pytest.raises(CommandFailed, match="is not running"):
        files.require_supervisor()
    with files.supervised():
        files.require_supervisor()


def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CommandFailed, match="cannot keep a cluster in"),
        ClusterFiles(tmp_path / "file" / "below").supervised(),
    ):
        raise AssertionError("a directory below a file")
