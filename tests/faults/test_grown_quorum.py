"""The voters of a cluster under load: one becomes three, one of which is killed, and one again."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from minikafka import testing
from tests.cli.conftest import CommandLine
from tests.faults.campaign import with_seed
from tests.faults.cluster_campaign import GO_ON_RECORDS, under_load
from tests.kit.waiting import look_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _held_port(stack: ExitStack) -> int:
    """A port that nobody else gets while nodes come and go: bound, and not listening."""
    held = stack.enter_context(socket.socket())
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    return port


def roles(cli: CommandLine) -> dict[int, str]:
    document = cli.json("quorum", "status")
    return {one["node"]: one["role"] for one in document["replicas"]}


def voters(cli: CommandLine) -> list[int]:
    return sorted(node for node, role in roles(cli).items() if role != "observer")


@with_seed
def test_nothing_acknowledged_is_lost_while_the_quorum_grows_and_shrinks(
    tmp_path: Path, seed: int
) -> None:
    with ExitStack() as stack:
        ports = [_held_port(stack) for _ in range(3)]
        # All of them know the first one only.
        nodes = [
            testing.NodeOptions(
                internal_listen=f"127.0.0.1:{port}",
                arguments=("--quorum", f"1@127.0.0.1:{ports[0]}"),
            )
            for port in ports
        ]
        cluster = stack.enter_context(testing.cluster(nodes, directory=tmp_path / "cluster"))
        cli = CommandLine(cluster.bootstrap)
        assert roles(cli) == {1: "leader", 2: "observer", 3: "observer"}
        broken = stack.enter_context(under_load(cluster, tmp_path, seed))
        load = broken.load

        assert "kraft.version is 0" in cli.fails("quorum", "add", "2")
        cli.ok("quorum", "upgrade")
        for node in ("2", "3"):
            cli.ok("quorum", "add", node)
            load.go_on(GO_ON_RECORDS)
        assert voters(cli) == [1, 2, 3]
        assert "voter already" in cli.fails("quorum", "add", "3")

        cluster.kill(1)
        load.go_on(GO_ON_RECORDS)
        survivors = CommandLine(",".join(cluster.nodes[node].bootstrap for node in (2, 3)))
        look_until(lambda: "leader" in roles(survivors).values(), "another leader")
        assert voters(survivors) == [1, 2, 3]
        cluster.start(1)
        load.go_on(GO_ON_RECORDS)

        for node in ("1", "3"):
            cli.ok("quorum", "remove", node)
            load.go_on(GO_ON_RECORDS)
        # A new leader knows observers from when they have asked it.
        observed = {1: "observer", 2: "leader", 3: "observer"}
        look_until(lambda: roles(cli) == observed, "all of them, and that one leads")
        assert "not a voter" in cli.fails("quorum", "remove", "3")
        assert "only voter" in cli.fails("quorum", "remove", "2")
        broken.check_promises()
