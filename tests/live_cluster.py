"""A real cluster, each broker a process of its own, for tests that kill, pause and restart them.

    with LiveCluster(tmp_path) as cluster:
        client(cluster.bootstrap)
        cluster.kill(1)
        cluster.start_node(1)      # the same port, the same data

It is `minikafka cluster up`, whose directory is `cluster.files`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from minikafka.cli.cluster_files import Cluster, ClusterFiles, Node, NodeState
from tests.interop.waiting import Progress
from tests.live_broker import CALM

LOG_SHOWN_CHARACTERS = 4_000
BUG_MARKS = ("after a bug", "Traceback")
"""What a broker's log never says, whatever happens to the others."""


class LiveCluster:
    """``minikafka cluster up`` with everything under `directory`.

    Args:
        directory: the cluster's.
        brokers: how many.
        settings: Kafka's names and values, for all of them.
        options: further words of the command line.
        launcher: words before the command.

    Attributes:
        files: its directory, as the commands see it.
        bootstrap: `HOST:PORT,...`, also after restarts.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        settings: dict[str, str] | None = None,
        options: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        self.files = ClusterFiles(directory)
        self.bootstrap = ""
        quick = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
        self._words = ["--brokers", str(brokers), "--data-dir", str(directory), *options]
        for name, value in {**CALM, **quick, **(settings or {})}.items():
            self._words += ["--set", f"{name}={value}"]
        if not any(word == "--port" for word in options):
            self._first_port = ["--port", "0"]
        else:
            self._first_port = []
        self._launcher = launcher
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self._said: list[str] = []
        self._progress = Progress()

    # --- the whole cluster ---

    @property
    def process(self) -> subprocess.Popen[str]:
        """The supervisor."""
        assert self._process is not None, "the cluster was not started"
        return self._process

    @property
    def said(self) -> str:
        """What the supervisor has written to stderr."""
        return "".join(self._said)

    def start(self) -> None:
        """Start it and wait until all brokers serve; fails with the logs if they do not."""
        port = [] if self.bootstrap else self._first_port  # the second time: the same ports
        command = [*self._launcher, sys.executable, "-m", "minikafka.cli.main", "cluster", "up"]
        self._process = subprocess.Popen(
            [*command, *self._words, *port],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready: "):
            self.end()
            raise AssertionError(f"the cluster said {line!r}:\n{self.said}")
        self.bootstrap = line.removeprefix("ready: ").strip()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line)
            self._progress.announce()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask all to stop; returns the supervisor's exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for the supervisor's end."""
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            assert self._listener is not None
            self._listener.join()
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.returncode is None:
            self.stop()
        if exc is not None:
            exc.add_note(f"the supervisor said:\n{self.said[-LOG_SHOWN_CHARACTERS:]}")
            for node in self.cluster().nodes:
                exc.add_note(f"node {node.node_id}'s log ends with:\n{self.log_end(node.node_id)}")

    # --- its nodes ---

    def cluster(self) -> Cluster:
        """What `cluster.json` says now."""
        return self.files.read_existing()

    def node(self, node_id: int) -> Node:
        """The same of one node."""
        return self.cluster().node(node_id)

    def address(self, node_id: int) -> tuple[str, int]:
        """Where a node listens."""
        host, _, port = self.node(node_id).listener.rpartition(":")
        return host, int(port)

    def log(self, node_id: int) -> str:
        """What a node has written to stderr so far, over all its lives."""
        return self.files.log_path(node_id).read_text(encoding="utf-8", errors="replace")

    def log_end(self, node_id: int) -> str:
        """The last part of it."""
        return self.log(node_id)[-LOG_SHOWN_CHARACTERS:]

    def check_logs(self) -> None:
        """Fail if a node's log shows a bug."""
        for node in self.cluster().nodes:
            log = self.log(node.node_id)
            found = [mark for mark in BUG_MARKS if mark in log]
            if found:
                at = min(log.index(mark) for mark in found)
                shown = log[max(0, at - LOG_SHOWN_CHARACTERS) : at + LOG_SHOWN_CHARACTERS]
                raise AssertionError(f"node {node.node_id}'s log shows {found}:\n{shown}")

    def send(self, node_id: int, number: signal.Signals) -> None:
        """Signal a node's process."""
        pid = self.node(node_id).pid
        assert pid is not None, f"node {node_id} does not run"
        os.kill(pid, number)

    def kill(self, node_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        """End a node, by default without a warning, and wait until it is gone."""
        self.send(node_id, number)
        self.wait(lambda cluster: cluster.node(node_id).pid is None, f"the end of node {node_id}")

    def pause(self, node_id: int) -> None:
        """SIGSTOP."""
        self.send(node_id, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        self.send(node_id, signal.SIGCONT)

    def start_node(self, node_id: int) -> None:
        """Start a dead node and wait until it serves."""
        self.request_start(node_id)
        self.wait_until_running(node_id)

    def restart(self, node_id: int) -> None:
        """SIGTERM, which must end well, and start it again."""
        self.kill(node_id, signal.SIGTERM)
        assert self.node(node_id).exit_code == 0, self.log_end(node_id)
        self.start_node(node_id)

    def request_start(self, node_id: int) -> None:
        """Start a dead node."""
        self.files.request(f"start {node_id}")

    def wait_until_running(self, node_id: int) -> None:
        """Wait until a node that is being started serves."""
        self.wait(
            lambda cluster: cluster.node(node_id).state is NodeState.RUNNING,
            f"node {node_id} to serve",
        )

    def wait(self, is_so: Callable[[Cluster], bool], what: str) -> None:
        """Wait until the cluster's file says so; the supervisor speaks up when it changes."""
        self._progress.wait_until(lambda: is_so(self.cluster()), what=what, show=lambda: self.said)
