"""The supervisor of a cluster: starts its nodes, watches them, and stops them.

It keeps `cluster.json` current: whatever happens to a process is written there immediately. It
never restarts a node by itself, because what a cluster does without one is what it is there to
show. It is one loop over file descriptors: the nodes' stdout, the pipe of requests, and a socket
pair that becomes readable when a signal has arrived or a child has ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from ..failure import CommandFailed
from ..output import note
from .files import Cluster, ClusterFiles, Node, NodeState
from .process import NodeProcess, describe_end, tail_of

READY_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 15.0
TAIL_LINES: Final = 10
INSISTING_SECONDS_MIN: Final = 1.0
"""A second signal this long after the first one is not a duplicate: the user is insisting."""
START: Final = "start"

_REQUESTS_BYTES_MAX: Final = 4096
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


class Supervisor:
    """Runs a cluster in the foreground.

    Args:
        files: its directory.
        cluster: its nodes, none of which is running.
        command_of: returns the command that runs a node.
        requests: the read end of the pipe of requests.
    """

    def __init__(
        self,
        files: ClusterFiles,
        cluster: Cluster,
        command_of: Callable[[Node], Sequence[str]],
        requests: int,
    ) -> None:
        self._files = files
        self._cluster = cluster
        self._command_of = command_of
        self._requests = requests
        self._unfinished_request = b""
        self._processes: dict[int, NodeProcess] = {}
        self._stop_signals = 0
        self._last_stop_signal_at = -INSISTING_SECONDS_MIN
        self._stopped_badly: list[int] = []
        self._waker, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Start all nodes, watch them until SIGINT or SIGTERM, and stop them.

        Args:
            on_ready: called with ``HOST:PORT,HOST:PORT,...`` once all are ready.

        Raises:
            CommandFailed: a node did not start, or did not stop cleanly.
        """
        with self._woken_by_signals():
            try:
                self._cluster.supervisor_pid = os.getpid()
                for node in self._cluster.nodes:
                    self._start(node)
                if self._all_ready():
                    on_ready(",".join(node.listener for node in self._cluster.nodes))
                    while not self._stop_signals:
                        self._turn(None)
            finally:
                self._stop_all()
        if self._stopped_badly:
            raise CommandFailed(
                f"did not stop cleanly: node {', '.join(map(str, self._stopped_badly))}; see above"
            )

    @contextmanager
    def _woken_by_signals(self) -> Generator[None]:
        for each in (self._waker, self._woken):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._requests, selectors.EVENT_READ)
        handlers = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        wakeup_before = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup_before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._selector.close()
            self._waker.close()
            self._woken.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGCHLD:
            return
        # The terminal and a parent process may both send a signal for the same Ctrl-C.
        now = time.monotonic()
        if now - self._last_stop_signal_at >= INSISTING_SECONDS_MIN:
            self._stop_signals += 1
        self._last_stop_signal_at = now

    # --- the loop ---

    def _turn(self, timeout_s: float | None) -> None:
        """Wait for events, and handle them."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._woken:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
            elif key.fileobj == self._requests:
                self._take_requests()
            else:
                self._read_output(key.data)
        self._reap()

    def _read_output(self, node: Node) -> None:
        process = self._processes[node.node_id]
        if not process.read_output():
            self._selector.unregister(process)
        if process.ready_address and node.state is NodeState.STARTING:
            node.listener = process.ready_address
            node.state = NodeState.RUNNING
            self._write()
            if node.starts > 1:
                note(f"node {node.node_id} is ready again at {node.listener}")

    def _reap(self) -> None:
        for node_id, process in list(self._processes.items()):
            exit_code = process.exit_code()
            if exit_code is None:
                continue
            node = self._cluster.node(node_id)
            pid = node.pid
            self._forget(node, process, exit_code)
            if not self._stop_signals:
                start = f"minikafka cluster start {node_id} --data-dir {self._files.directory}"
                end = describe_end(exit_code)
                note(f"node {node_id} (process {pid}) {end}; it stays dead until `{start}`")
                self._show_tail(node)
            elif exit_code not in (0, -signal.SIGTERM):
                note(f"node {node_id} (process {pid}) {describe_end(exit_code)} on SIGTERM")
                self._show_tail(node)
                self._stopped_badly.append(node_id)

    def _forget(self, node: Node, process: NodeProcess, exit_code: int) -> None:
        del self._processes[node.node_id]
        with suppress(KeyError):
            self._selector.unregister(process)
        process.close()
        node.pid, node.state, node.exit_code = None, NodeState.STOPPED, exit_code
        self._write()

    def _show_tail(self, node: Node) -> None:
        path = self._files.log_path(node.node_id)
        lines = tail_of(path, TAIL_LINES)
        if lines:
            note(f"the end of {path}:")
        for line in lines:
            note(f"    {line}")

    def _take_requests(self) -> None:
        with suppress(BlockingIOError):
            self._unfinished_request += os.read(self._requests, _REQUESTS_BYTES_MAX)
        *lines, self._unfinished_request = self._unfinished_request.split(b"\n")
        self._unfinished_request = self._unfinished_request[:_REQUESTS_BYTES_MAX]
        for line in lines:
            words = line.decode("utf-8", "replace").split()
            stopped = [
                node
                for node in self._cluster.nodes
                if words == [START, str(node.node_id)] and node.state is NodeState.STOPPED
            ]
            for node in stopped:
                self._start(node)

    # --- starting and stopping ---

    def _start(self, node: Node) -> None:
        process = NodeProcess(self._command_of(node), self._files.log_path(node.node_id))
        self._processes[node.node_id] = process
        self._selector.register(process, selectors.EVENT_READ, node)
        node.pid, node.state = process.pid, NodeState.STARTING
        node.starts += 1
        self._write()

    def _all_ready(self) -> bool:
        """Wait until every node is ready; False if a signal arrives first.

        Raises:
            CommandFailed: a node ended, or was not ready in time.
        """
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._stop_signals:
            states = {node.state for node in self._cluster.nodes}
            if states == {NodeState.RUNNING}:
                return True
            if NodeState.STOPPED in states:
                raise CommandFailed("a node ended before the cluster was ready; see above")
            patience_s = deadline - time.monotonic()
            if patience_s <= 0:
                late = [node for node in self._cluster.nodes if node.state is NodeState.STARTING]
                for node in late:
                    self._show_tail(node)
                raise CommandFailed(
                    f"not ready after {READY_SECONDS_MAX:.0f} s: node "
                    + ", ".join(str(node.node_id) for node in late)
                )
            self._turn(patience_s)
        return False

    def _stop_all(self) -> None:
        """Send SIGTERM to all; kill those still running after a while, or at a second signal."""
        signals_before = self._stop_signals
        self._stop_signals = max(1, self._stop_signals)
        for process in self._processes.values():
            process.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while self._processes and self._stop_signals <= max(1, signals_before):
            patience_s = deadline - time.monotonic()
            if patience_s <= 0:
                break
            self._turn(patience_s)
        for node_id, process in list(self._processes.items()):
            note(f"node {node_id} does not stop; killing it")
            self._stopped_badly.append(node_id)
            process.kill()
            self._forget(self._cluster.node(node_id), process, process.exit_code() or 0)
        self._cluster.supervisor_pid = None
        self._write()

    def _write(self) -> None:
        try:
            self._files.write(self._cluster)
        except OSError as error:  # a full disk is no reason to stop the nodes
            note(f"cannot write to {self._files.directory}: {error.strerror or error}")
