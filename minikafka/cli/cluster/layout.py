"""The layout of a cluster on one machine: addresses, voters, and the command of each node."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from ..failure import CommandFailed
from .files import Cluster, ClusterFiles, Node

HOST: Final = "127.0.0.1"
DEFAULT_BROKERS: Final = 3
DEFAULT_PORT: Final = 9092
DEFAULT_FIRST_ID: Final = 1
PORT_MAX: Final = 65_535
REPLICAS_MAX: Final = 3
"""Default limit; --replication-factor may ask for more."""

_VOTERS_MAX: Final = 5
_INTERNAL_PORT_OFFSET: Final = 10_000


class NodeOptions(NamedTuple):
    """What all nodes have in common.

    Attributes:
        replication_factor: of topics, unless the settings say otherwise.
        config_file: a TOML file of settings.
        assignments: ``key=value`` texts of ``--set``.
        log_level: of their logs.
    """

    replication_factor: int
    config_file: Path | None
    assignments: Sequence[str]
    log_level: str


def voters_of(brokers: int) -> int:
    """How many of the brokers vote: an odd number, at most five.

    As a majority decides, an even number survives no more failures than the odd one below it.
    """
    return min(brokers - (brokers + 1) % 2, _VOTERS_MAX)


def lay_out(
    before: Cluster | None,
    brokers: int | None,
    port: int | None,
    free_port: Callable[[], int],
    first_id: int | None = None,
) -> Cluster:
    """Decide which nodes there are, and where they listen.

    Args:
        before: the cluster that the directory already holds.
        brokers: how many nodes; None for as many as before.
        port: of the first node, with the others above it; None for the same ports as before, 0 for
            free ones.
        free_port: returns a port that is not in use.
        first_id: of the first node, with the others above it; None for the same ids as before, or
            from 1 on.

    Raises:
        CommandFailed: there would be fewer nodes than before, others, or no such ports.
    """
    known = [] if before is None else before.nodes
    count = brokers or len(known) or DEFAULT_BROKERS
    if count < len(known):
        raise CommandFailed(
            f"this directory holds a cluster of {len(known)} brokers, any of which may have the "
            f"only copy of a partition; give --brokers {len(known)} or more, or another --data-dir"
        )
    lowest = known[0].node_id if known else DEFAULT_FIRST_ID if first_id is None else first_id
    if first_id not in {None, lowest}:
        raise CommandFailed(
            f"this directory holds a cluster whose first broker is {lowest}; leave out "
            f"--first-id {first_id}, or give another --data-dir"
        )
    voters = list(range(lowest, lowest + voters_of(count))) if before is None else before.voters
    keeps_ports = bool(known) and port is None
    first = DEFAULT_PORT if port is None else port
    nodes: list[Node] = []
    for index in range(count):
        if keeps_ports and index < len(known):
            listener, internal = known[index].listener, known[index].internal_listener
        elif first == 0 or keeps_ports:
            listener, internal = _address(free_port()), _address(free_port())
        else:
            listener, internal = _address(first + index), _address(_internal_port(first + index))
        # The node of a cluster of one has no internal address yet.
        internal = internal or _address(free_port())
        nodes.append(Node(lowest + index, listener, "" if count == 1 else internal))
    return Cluster(nodes, voters)


def _internal_port(port: int) -> int:
    if port + _INTERNAL_PORT_OFFSET <= PORT_MAX:
        return port + _INTERNAL_PORT_OFFSET
    return port - _INTERNAL_PORT_OFFSET


def _address(port: int) -> str:
    if port > PORT_MAX:
        raise CommandFailed(f"there is no port {port}; give a lower --port, or 0 for free ones")
    return f"{HOST}:{port}"


def quorum_of(cluster: Cluster) -> str:
    """The value of `minikafka serve --quorum`: ``1@127.0.0.1:19092,...``."""
    return ",".join(
        f"{node.node_id}@{node.internal_listener}"
        for node in cluster.nodes
        if node.node_id in cluster.voters
    )


def replication_settings(replication_factor: int) -> dict[str, str]:
    """Settings for this many copies of everything, of which acks=all needs all but one.

    So with three copies, acks=all waits for two, and one broker may be missing.
    """
    return {
        "default.replication.factor": str(replication_factor),
        "min.insync.replicas": str(max(1, replication_factor - 1)),
        "offsets.topic.replication.factor": str(replication_factor),
    }


def serve_command(
    cluster: Cluster, node: Node, files: ClusterFiles, options: NodeOptions
) -> list[str]:
    words = [sys.executable, "-m", "minikafka.cli.main", "serve"]
    words += ["--node-id", str(node.node_id), "--listen", node.listener]
    words += ["--data-dir", str(files.data_directory(node.node_id).absolute())]
    words += ["--log-level", options.log_level]
    if len(cluster.nodes) > 1:
        words += ["--quorum", quorum_of(cluster)]
        words += ["--set", f"minikafka.internal.listener={node.internal_listener}"]
    if options.config_file is not None:
        words += ["--config", str(options.config_file.absolute())]
    given = names_in(options.config_file)
    for name, value in replication_settings(options.replication_factor).items():
        if name not in given:
            words += ["--set", f"{name}={value}"]
    for assignment in options.assignments:
        words += ["--set", assignment]
    return words


def names_in(config_file: Path | None) -> set[str]:
    """The settings in a file; empty if it is not valid, which the node reports better."""
    if config_file is None:
        return set()
    try:
        return set(_names(tomllib.loads(config_file.read_text(encoding="utf-8")), ""))
    except (OSError, ValueError):
        return set()


def _names(table: Mapping[str, Any], prefix: str) -> list[str]:
    names: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            names += _names(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            names.append(prefix + key)
    return names
