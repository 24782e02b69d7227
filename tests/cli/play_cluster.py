"""``minikafka cluster up`` in a process of its own, and the commands that act on it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from click.testing import CliRunner

from minikafka.cli.cluster.files import Cluster, ClusterFiles, Node, NodeState
from minikafka.cli.main import main
from minikafka.testing import DEFAULTS
from minikafka.testing.process import ServerProcess, wait_until_ready
from minikafka.testing.settings import assignments
from tests.kit.live import check_log
from tests.kit.waiting import look_until


class PlayCluster:
    """A cluster under `directory`, with further `options` of `cluster up`."""

    def __init__(self, directory: Path, brokers: int = 3, options: Sequence[str] = ()) -> None:
        self.files = ClusterFiles(directory)
        self.process: ServerProcess  # the supervisor
        self._log_path = directory.with_suffix(".supervisor")
        self._arguments = ["--brokers", str(brokers), "--data-dir", str(directory), *options]
        self._arguments += assignments(DEFAULTS)

    @property
    def bootstrap(self) -> str:
        return self.process.address

    @property
    def stderr(self) -> str:
        """What the supervisor has written so far."""
        return self._log_path.read_text()

    def start(self) -> None:
        """Start it and wait until all brokers are ready; the second time, on the same ports."""
        is_first = self.files.read() is None and "--port" not in self._arguments
        port = ["--port", "0"] if is_first else []
        command = [sys.executable, "-m", "minikafka", "cluster", "up", *self._arguments, *port]
        self.process = ServerProcess("minikafka cluster up", command, self._log_path)
        try:
            wait_until_ready([self.process])
        except BaseException:
            self.process.wait()
            raise

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop everything; return the supervisor's exit code."""
        self.process.send_signal(number)
        return self.process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.exit_code is None:
            self.stop()
        else:
            self.process.wait()  # it ended by itself: its pipes are still open
        if exc is not None:
            exc.add_note(f"stderr of the supervisor:\n{self.stderr}")

    def run(self, *words: str, exit_code: int | None = 0) -> tuple[str, str]:
        """Run `minikafka cluster WORDS` on this cluster; return stdout and stderr.

        With `exit_code` None, it may succeed or fail.
        """
        option = ["--data-dir", str(self.files.directory)]
        result = CliRunner().invoke(main, ["cluster", *words, *option])
        assert exit_code in {None, result.exit_code}, result.output
        return result.stdout, result.stderr

    def json(self, *words: str, exit_code: int | None = 0) -> Any:
        """The same with --json; return the document."""
        return json.loads(self.run(*words, "--json", exit_code=exit_code)[0])

    def cluster(self) -> Cluster:
        """The present content of `cluster.json`."""
        return self.files.read_existing()

    def node(self, node_id: int) -> Node:
        return self.cluster().node(node_id)

    def wait(self, is_so: Callable[[Cluster], bool], what: str) -> None:
        """Wait for a condition on `cluster.json`, or on the supervisor's stderr."""
        look_until(lambda: is_so(self.cluster()), what=what, show=lambda: self.stderr)

    def wait_until_running(self, node_id: int) -> None:
        self.wait(
            lambda cluster: cluster.node(node_id).state is NodeState.RUNNING,
            f"node {node_id} to be ready",
        )

    def check_logs(self) -> None:
        """Fail if the log of a node shows a bug."""
        for node in self.cluster().nodes:
            log = self.files.log_path(node.node_id).read_text(encoding="utf-8", errors="replace")
            check_log(log, f"node {node.node_id}")
