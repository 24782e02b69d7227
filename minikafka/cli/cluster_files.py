"""What lies in a cluster's directory, and how its commands find each other there.

    cluster.json        the nodes, always current: written anew, then moved into place
    cluster.lock        held by `minikafka cluster up` for as long as it runs
    cluster.requests    a named pipe: what other commands ask of it
    node-1/data         the data directory of node 1
    node-1/broker.log   what it writes to stderr, over all its lives

`cluster.json` is for programs, too: node_id, pid (null while the node does not run) and listener
stay what they are; there may be more beside them.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from .failure import CommandFailed

DEFAULT_DATA_DIR: Final = "minikafka-cluster"
DATA_DIR_VARIABLE: Final = "MINIKAFKA_CLUSTER"

_FILE: Final = "cluster.json"
_LOCK: Final = "cluster.lock"
_REQUESTS: Final = "cluster.requests"


class NodeState(Enum):
    """What a node's process does; whether it is paused only the operating system knows."""

    STARTING = "starting"
    """It runs and has not said yet that it can serve."""
    RUNNING = "running"
    """It serves."""
    STOPPED = "stopped"
    """There is no process."""


@dataclass(slots=True)
class Node:
    """One node.

    Attributes:
        node_id: its number.
        listener: ``HOST:PORT`` for clients.
        internal_listener: ``HOST:PORT`` for the other nodes; empty for a node that is alone.
        pid: its process, None while there is none.
        state: what that does.
        starts: how often it was started since `minikafka cluster up` began.
        exit_code: how its last process ended, negative for a signal; None before any ended.
    """

    node_id: int
    listener: str
    internal_listener: str = ""
    pid: int | None = None
    state: NodeState = NodeState.STOPPED
    starts: int = 0
    exit_code: int | None = None


@dataclass(slots=True)
class Cluster:
    """All nodes.

    Attributes:
        nodes: in the order of their numbers.
        voters: which of them vote on the metadata log; this never changes.
        supervisor_pid: the process of `minikafka cluster up`, None when it has ended.
    """

    nodes: list[Node]
    voters: list[int]
    supervisor_pid: int | None = None

    def node(self, node_id: int) -> Node:
        """The node of this number.

        Raises:
            CommandFailed: there is none.
        """
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        known = ", ".join(str(node.node_id) for node in self.nodes)
        raise CommandFailed(f"there is no node {node_id} in this cluster; it has {known}")


class ClusterFiles:
    """The directory of one cluster.

    Args:
        directory: where it is; made when the cluster is first written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def node_directory(self, node_id: int) -> Path:
        """Everything of one node."""
        return self.directory / f"node-{node_id}"

    def data_directory(self, node_id: int) -> Path:
        """The logs and the metadata of one node."""
        return self.node_directory(node_id) / "data"

    def log_path(self, node_id: int) -> Path:
        """What a node writes to stderr."""
        return self.node_directory(node_id) / "broker.log"

    # --- cluster.json ---

    def read(self) -> Cluster | None:
        """The cluster; None if there never was one.

        Raises:
            CommandFailed: the file cannot be read or is not ours.
        """
        path = self.directory / _FILE
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
            nodes = [
                Node(
                    node_id=int(entry["node_id"]),
                    listener=str(entry["listener"]),
                    internal_listener=str(entry["internal_listener"]),
                    pid=entry["pid"],
                    state=NodeState(entry["state"]),
                    starts=int(entry["starts"]),
                    exit_code=entry["exit_code"],
                )
                for entry in document["nodes"]
            ]
            return Cluster(nodes, [int(one) for one in document["voters"]], document["supervisor"])
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CommandFailed(f"cannot read {path}: {error.strerror or error}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise CommandFailed(
                f"{path} was not written by this version of `minikafka cluster up` ({error!r}); "
                f"take another directory with --data-dir"
            ) from None

    def read_existing(self) -> Cluster:
        """The cluster.

        Raises:
            CommandFailed: there is none, or its file cannot be read.
        """
        cluster = self.read()
        if cluster is None:
            raise CommandFailed(
                f"there is no cluster in {self.directory}; start one there with "
                f"`minikafka cluster up --data-dir {self.directory}`, or name its directory with "
                f"--data-dir"
            )
        return cluster

    def write(self, cluster: Cluster) -> None:
        """Replace the file in one step: a reader sees the old one or the new one."""
        document = {
            "nodes": [{**asdict(node), "state": node.state.value} for node in cluster.nodes],
            "voters": cluster.voters,
            "supervisor": cluster.supervisor_pid,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        fresh = self.directory / f"{_FILE}.new"
        fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.directory / _FILE)

    # --- one supervisor, and requests to it ---

    @contextmanager
    def supervised(self) -> Generator[int]:
        """Be the supervisor for a block; the pipe's reading end, which never blocks.

        Raises:
            CommandFailed: another process is, or the directory cannot be written to.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with (self.directory / _LOCK).open("ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise CommandFailed(
                        f"a cluster runs in {self.directory} already; look at it with "
                        f"`minikafka cluster status --data-dir {self.directory}`"
                    ) from None
                pipe = self._fresh_pipe()
                try:
                    # Open for writing, too: then no end of a writer looks like the end of all.
                    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
                    try:
                        yield descriptor
                    finally:
                        os.close(descriptor)
                finally:
                    pipe.unlink(missing_ok=True)
        except OSError as error:
            raise CommandFailed(
                f"cannot keep a cluster in {self.directory}: {error.strerror or error}"
            ) from None

    def _fresh_pipe(self) -> Path:
        pipe = self.directory / _REQUESTS
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, stat.S_IRUSR | stat.S_IWUSR)
        return pipe

    def request(self, line: str) -> None:
        """Ask the supervisor for something.

        Raises:
            CommandFailed: there is none.
        """
        try:
            descriptor = os.open(self.directory / _REQUESTS, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            raise self.not_supervised() from None
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)

    def require_supervisor(self) -> None:
        """See that the cluster runs, so that the processes in its file are its own.

        Raises:
            CommandFailed: it does not.
        """
        try:
            os.close(os.open(self.directory / _REQUESTS, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            raise self.not_supervised() from None

    def not_supervised(self) -> CommandFailed:
        """The error that nobody looks after the cluster."""
        return CommandFailed(
            f"the cluster in {self.directory} does not run; start it with "
            f"`minikafka cluster up --data-dir {self.directory}`"
        )
