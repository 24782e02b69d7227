"""Kafka's own tools change the voters of our metadata quorum."""

from __future__ import annotations

import socket
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from minikafka import testing
from minikafka_client import QuorumReplica
from minikafka_client.sync import AdminClient
from tests.kit.waiting import look_until
from tests.peers.test_java_tools import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

FEATURES = "org.apache.kafka.tools.FeatureCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture(autouse=True)
def _has_java(jars: object) -> None:
    """All of these need it."""


def as_uuid(directory_id: bytes) -> str:
    """As Kafka writes it."""
    return urlsafe_b64encode(directory_id).decode().rstrip("=")


def configured(
    directory: Path, cluster_id: str, node_id: int, directory_id: bytes, port: int
) -> str:
    """Settings of the controller to be added, as the tool reads them; returns the file's name."""
    logs = directory / "logs"
    logs.mkdir()
    (logs / "meta.properties").write_text(
        f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
        f"directory.id={as_uuid(directory_id)}\n"
    )
    file = directory / "controller.properties"
    file.write_text(
        f"node.id={node_id}\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\ncontroller.quorum.bootstrap.servers=h:1\n"
        f"log.dirs={logs}\n"
    )
    return str(file)


def the_observer(admin: AdminClient) -> QuorumReplica:
    """The only one, with its directory.

    One that stands still for ten seconds is forgotten. When it is back, it is an observer at once,
    but the leader knows its directory only with its first answer.
    """
    found: list[QuorumReplica] = []

    def is_known() -> bool:
        found[:] = admin.describe_metadata_quorum().observers
        return any(one.directory_id for one in found)

    look_until(is_known, "an observer")
    (observer,) = found
    return observer


def test_a_controller_is_added_and_removed(tmp_path: Path) -> None:
    with socket.socket() as first, socket.socket() as second:
        ports: list[int] = []
        for held in (first, second):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            ports.append(held.getsockname()[1])
        nodes = [
            testing.NodeOptions(
                internal_listen=f"127.0.0.1:{port}",
                arguments=("--quorum", f"1@127.0.0.1:{ports[0]}"),
            )
            for port in ports
        ]
        with (
            testing.cluster(nodes, directory=tmp_path / "cluster") as cluster,
            AdminClient(cluster.bootstrap) as admin,
        ):
            here = ("--bootstrap-server", cluster.bootstrap)
            run_tool(FEATURES, *here, "upgrade", "--feature", "kraft.version=1")
            assert "kraft.version" in run_tool(FEATURES, *here, "describe")
            observer = the_observer(admin)
            cluster_id = admin.describe_cluster().cluster_id
            assert cluster_id is not None
            config = configured(tmp_path, cluster_id, 2, observer.directory_id, ports[1])
            run_tool(QUORUM, *here, "--command-config", config, "add-controller")
            quorum = admin.describe_metadata_quorum()
            assert [one.node_id for one in quorum.voters] == [1, 2]
            assert "LeaderId:" in run_tool(QUORUM, *here, "describe", "--status")
            run_tool(
                QUORUM,
                *here,
                "remove-controller",
                "--controller-id",
                "1",
                "--controller-directory-id",
                as_uuid(quorum.voters[0].directory_id),
            )
            quorum = admin.describe_metadata_quorum()
            assert [one.node_id for one in quorum.voters] == [2]
