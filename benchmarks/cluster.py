"""A cluster under measurement: ``minikafka cluster up``, its brokers, and ways to break it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from .load.cluster_admin import is_healthy, leaders, metadata_leader, prefer_first_replicas
from .processes import ProcessFailedError, ServerProcess

HEALTHY_SECONDS_MAX = 60.0
_LOOK_AGAIN_SECONDS = 0.02


class ClusterProcess:
    """A running cluster; the caller stops it.

    Args:
        folder: gets its directory and the supervisor's stderr.
        brokers: how many.
        settings: ``key=value`` texts for ``--set``.

    Attributes:
        bootstrap: ``HOST:PORT,...``.
        ready_seconds: from the start of the supervisor to its ``ready`` line.
    """

    def __init__(self, folder: Path, brokers: int, *settings: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._directory = folder / "cluster"
        self._brokers = brokers
        arguments = ["-m", "minikafka.cli.main", "cluster", "up", "--port", "0"]
        arguments += ["--brokers", str(brokers), "--data-dir", str(self._directory)]
        for setting in settings:
            arguments += ["--set", setting]
        self._supervisor = ServerProcess(arguments, folder / "stderr")
        self.ready_seconds = self._supervisor.ready_seconds
        self.bootstrap = ",".join(str(node["listener"]) for node in self.nodes())

    def nodes(self) -> list[dict[str, Any]]:
        """What its file says of its brokers."""
        document = json.loads((self._directory / "cluster.json").read_text())
        nodes: list[dict[str, Any]] = document["nodes"]
        return nodes

    def node(self, node_id: int) -> dict[str, Any]:
        """The same of one."""
        return next(node for node in self.nodes() if node["node_id"] == node_id)

    def processes(self) -> list[psutil.Process]:
        """Those of the brokers that run."""
        return [psutil.Process(node["pid"]) for node in self.nodes() if node["pid"] is not None]

    def end(self, node_id: int, number: signal.Signals) -> float:
        """Send a broker a signal, and wait until it is gone; when that was, by the clock of `time`.

        Returns:
            ``time.monotonic()`` just before the signal.
        """
        pid = self.node(node_id)["pid"]
        moment = time.monotonic()
        os.kill(pid, number)
        self.wait(lambda: self.node(node_id)["pid"] != pid, f"the end of node {node_id}")
        return moment

    def start(self, node_id: int) -> None:
        """Start a broker that is dead, and wait until it serves."""
        with (self._directory / "cluster.requests").open("w") as requests:
            requests.write(f"start {node_id}\n")
        self.wait(lambda: self.node(node_id)["state"] == "running", f"node {node_id} to serve")

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        """Look again and again.

        Raises:
            ProcessFailedError: it is not so after `HEALTHY_SECONDS_MAX`.
        """
        deadline = time.monotonic() + HEALTHY_SECONDS_MAX
        while not is_so():
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"waited {HEALTHY_SECONDS_MAX} s in vain for {what}")
            time.sleep(_LOOK_AGAIN_SECONDS)

    def wait_until_healthy(self) -> None:
        """Wait until every broker lives and every replica is in sync."""
        self.wait(lambda: is_healthy(self.bootstrap, self._brokers), "a healthy cluster")

    def leaders(self, topic: str) -> Sequence[int]:
        """Who leads each partition of a topic."""
        return leaders(self.bootstrap, topic)

    def metadata_leader(self) -> int:
        """Who leads the metadata quorum."""
        return metadata_leader(self.bootstrap)

    def prefer_first_replicas(self) -> None:
        """Give every partition back to its first replica."""
        prefer_first_replicas(self.bootstrap)

    def stop(self) -> None:
        """SIGTERM, and wait for the end.

        Raises:
            ProcessFailedError: a broker did not stop well.
        """
        self._supervisor.stop()

    def kill(self) -> None:
        """``kill -9`` of the supervisor, which its brokers do not survive."""
        self._supervisor.kill()


@contextmanager
def cluster(folder: Path, brokers: int, *settings: str) -> Generator[ClusterProcess]:
    """A cluster for a block."""
    running = ClusterProcess(folder, brokers, *settings)
    try:
        running.wait_until_healthy()
        yield running
    except BaseException:
        running.kill()
        raise
    running.stop()
