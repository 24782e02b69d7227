"""The directory of a cluster, through which its commands find each other.

    cluster.json        the nodes, always current: written to a new file that replaces the old one
    cluster.lock        held by `minikafka cluster up` for as long as it runs
    cluster.requests    a named pipe of requests to `minikafka cluster up`
    node-1/data         the data directory of node 1
    node-1/broker.log   its stderr, across restarts

`cluster.json` is for programs, too: node_id, pid (null while the node is not running) and listener
will not change their meaning; other fields may be added.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import click

from ..failure import CommandFailed
from .process import is_paused

DEFAULT_DATA_DIR: Final = "minikafka-cluster"
DATA_DIR_VARIABLE: Final = "MINIKAFKA_CLUSTER"

_FILE: Final = "cluster.json"
_LOCK: Final = "cluster.lock"
_REQUESTS: Final = "cluster.requests"


def data_dir_option(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_DATA_DIR,
        envvar=DATA_DIR_VARIABLE,
        show_default=True,
        help=f"Directory of the cluster; also read from {DATA_DIR_VARIABLE}.",
    )(function)


class NodeState(Enum):
    """The state of a node's process, except paused, which only the operating system knows."""

    STARTING = "starting"
    """Running, but not ready to serve yet."""
    RUNNING = "running"
    """Ready."""
    STOPPED = "stopped"
    """There is no process."""


@dataclass(slots=True)
class Node:
    """One node.

    Attributes:
        node_id: its id.
        listener: ``HOST:PORT`` for clients.
        internal_listener: ``HOST:PORT`` for other nodes; empty in a cluster of one.
        pid: its process, None while there is none.
        state: of that process.
        starts: how often it was started since `minikafka cluster up` began.
        exit_code: of its last process, negative for a signal; None if none has ended.
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
        nodes: by ascending id.
        voters: the ids of the controllers, which never change.
        supervisor_pid: the process of `minikafka cluster up`, None when it has ended.
    """

    nodes: list[Node]
    voters: list[int]
    supervisor_pid: int | None = None

    def node(self, node_id: int) -> Node:
        """The node with this id.

        Raises:
            CommandFailed: there is none.
        """
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        known = ", ".join(str(node.node_id) for node in self.nodes)
        raise CommandFailed(f"there is no node {node_id} in this cluster; it has {known}")

    def bootstrap(self) -> str:
        """``HOST:PORT,...`` of the brokers that can answer: neither dead nor paused."""
        return ",".join(
            node.listener for node in self.nodes if node.pid is not None and not is_paused(node.pid)
        )


class ClusterFiles:
    """The directory of one cluster; created when the cluster is first written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def node_directory(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"

    def data_directory(self, node_id: int) -> Path:
        return self.node_directory(node_id) / "data"

    def log_path(self, node_id: int) -> Path:
        return self.node_directory(node_id) / "broker.log"

    # --- cluster.json ---

    def read(self) -> Cluster | None:
        """The cluster; None if there never was one.

        Raises:
            CommandFailed: the file cannot be read, or has another format.
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
                f"choose another directory with --data-dir"
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
        document = {
            "nodes": [{**asdict(node), "state": node.state.value} for node in cluster.nodes],
            "voters": cluster.voters,
            "supervisor": cluster.supervisor_pid,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        fresh = self.directory / f"{_FILE}.new"
        fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.directory / _FILE)  # a reader sees the old file or the new one

    # --- one supervisor, and requests to it ---

    @contextmanager
    def supervised(self) -> Generator[int]:
        """Be the supervisor in a block, with the non-blocking read end of the pipe of requests.

        Raises:
            CommandFailed: there already is a supervisor, or the directory cannot be written to.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with (self.directory / _LOCK).open("ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise CommandFailed(
                        f"a cluster is already running in {self.directory}; look at it with "
                        f"`minikafka cluster status --data-dir {self.directory}`"
                    ) from None
                pipe = self._fresh_pipe()
                try:
                    # Also open for writing: otherwise the pipe ends when a writer closes it.
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
        """Send a request to the supervisor.

        Raises:
            CommandFailed: there is no supervisor.
        """
        descriptor = self._open_requests()
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)

    def require_supervisor(self) -> None:
        """Check that the cluster is running, so that the pids in its file are those of its nodes.

        Raises:
            CommandFailed: it is not.
        """
        os.close(self._open_requests())

    def _open_requests(self) -> int:
        try:
            return os.open(self.directory / _REQUESTS, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # without a reader, ENXIO
            raise CommandFailed(
                f"the cluster in {self.directory} is not running; start it with "
                f"`minikafka cluster up --data-dir {self.directory}`"
            ) from None
