"""What is shown of a cluster, put together from its processes and what it says of itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from minikafka.cli.cluster.files import Cluster, Node, NodeState
from minikafka.cli.cluster.process import is_paused, is_still_running
from minikafka.cli.cluster.report import (
    BrokerReport,
    ClusterReport,
    Quorum,
    TroubledPartition,
    Voter,
)
from minikafka.cli.cluster.view import process_of, status_document, view_of

QUORUM = Quorum(2, 5, 100, (Voter(1, 90, -1, -1), Voter(2, 101, -1, -1)), (Voter(3, -1, -1, -1),))
REPORT = ClusterReport(
    cluster_id="abc",
    controller_id=2,
    brokers=(
        BrokerReport(1, "h", 1, None, is_fenced=False),
        BrokerReport(2, "h", 2, "r", is_fenced=False),
    ),
    quorum=QUORUM,
    partitions=3,
    leads={1: 2, 2: 1},
    holds={1: 3, 2: 3},
    in_sync={1: 3, 2: 3},
    under_replicated=(),
    offline=(),
)
RUNNING = Cluster([Node(1, "h:1", "", os.getpid(), NodeState.RUNNING, 1)], [1], 7)


def troubled(leader: int) -> TroubledPartition:
    return TroubledPartition("t", 0, leader, 4, (1, 2), (1,))


def nodes_of(document: dict[str, Any], key: str) -> list[Any]:
    return [node[key] for node in document["nodes"]]


def test_a_complete_cluster_is_healthy() -> None:
    document = status_document(RUNNING, REPORT)
    assert document["is_healthy"]
    assert document["quorum"] == {
        "leader_id": 2,
        "leader_epoch": 5,
        "high_watermark": 100,
        "voters": [1, 2],
        "observers": [3],
        "waiting": [],
    }
    assert nodes_of(document, "node_id") == [1, 2, 3]
    assert nodes_of(document, "quorum_role") == ["voter", "leader", "observer"]
    assert nodes_of(document, "metadata_lag") == [11, 0, None]
    assert nodes_of(document, "broker") == ["alive", "alive", "unknown"]
    assert nodes_of(document, "process") == ["running", None, None]
    assert nodes_of(document, "listener") == ["h:1", "h:2", None]
    assert nodes_of(document, "leads") == [2, 1, 0]
    summary, _ = view_of(document)
    assert summary == [
        "cluster abc",
        "metadata quorum: led by node 2 in epoch 5, 100 committed, 2 voters",
        "3 partitions: all have a leader and all their replicas in sync",
    ]


def test_a_cluster_in_trouble_is_not_healthy() -> None:
    fenced = BrokerReport(2, "h", 2, None, is_fenced=True)
    for report in (
        REPORT._replace(under_replicated=(troubled(1),)),
        REPORT._replace(offline=(troubled(-1),)),
        REPORT._replace(quorum=QUORUM._replace(leader_id=-1)),
        REPORT._replace(brokers=(fenced,)),
        REPORT._replace(brokers=()),
        None,
    ):
        assert not status_document(RUNNING, report)["is_healthy"], report
    dead = Cluster([Node(1, "h:1")], [1], 7)
    assert not status_document(dead, REPORT)["is_healthy"]
    assert status_document(None, REPORT._replace(quorum=None))["is_healthy"]


def test_partitions_in_trouble_are_shown_with_what_is_missing() -> None:
    report = REPORT._replace(under_replicated=(troubled(1),) * 30, offline=(troubled(-1),))
    document = status_document(None, report)
    assert document["partitions"]["offline"][0]["leader"] is None
    summary, (_, partitions) = view_of(document)
    assert summary[-1] == "3 partitions: 1 without a leader, 30 under-replicated"
    assert partitions.title == "partitions in trouble, 11 more"
    assert partitions.rows[0] == ["t", 0, None, 4, "1,2", "1", "2"]
    assert len(partitions.rows) == 20


def test_a_quorum_without_a_leader_is_shown_as_such() -> None:
    report = REPORT._replace(quorum=QUORUM._replace(leader_id=-1))
    summary, _ = view_of(status_document(None, report))
    assert "no leader in epoch 5" in summary[1]


def test_a_voter_with_a_new_directory_is_shown_until_it_is_admitted() -> None:
    voters = (Voter(1, 90, -1, -1), Voter(2, 101, -1, -1, b"\x01" * 16))
    quorum = QUORUM._replace(voters=voters, observers=(Voter(1, 90, -1, -1, b"\xff" * 16),))
    document = status_document(RUNNING, REPORT._replace(quorum=quorum))
    assert nodes_of(document, "quorum_role") == ["waits to be admitted", "leader"]
    assert nodes_of(document, "directory_id") == ["_" * 21 + "w", "AQEBAQEBAQEBAQEBAQEBAQ"]
    assert document["quorum"]["waiting"] == [1]
    assert not document["is_healthy"]
    summary, (nodes,) = view_of(document)
    assert summary[1].endswith("2 voters, of which 1 not admitted")
    assert nodes.columns[5:7] == ["quorum", "directory"]
    assert nodes.rows[0][5] == "waits to be admitted"


def test_without_an_answer_only_processes_are_shown() -> None:
    cluster = Cluster([Node(1, "h:1", exit_code=-9), Node(2, "h:2")], [1])
    document = status_document(cluster, None)
    assert nodes_of(document, "process") == ["was killed by SIGKILL", "stopped"]
    assert nodes_of(document, "broker") == [None, None]
    assert view_of(document).summary == []


def test_a_leader_that_does_not_report_its_end_has_what_is_committed() -> None:
    quorum = QUORUM._replace(leader_id=9)
    assert quorum.lag_of(1) == 10  # another voter's end counts for nothing, the watermark does
    assert quorum.lag_of(7) is None


def test_a_stopped_process_is_recognized_as_paused() -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:  # type: ignore[call-overload]  # the pipes are its arguments
        try:
            process.stdout.read(3)
            assert not is_paused(process.pid)
            assert is_still_running(process.pid)
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            assert process_of(Node(1, "h:1", pid=process.pid)) == "paused"
            assert not is_still_running(process.pid)
        finally:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert not is_still_running(process.pid)
    assert not is_paused(process.pid)
    assert not is_still_running(process.pid)
