"""Three nodes of Apache Kafka on this machine, each broker and controller; needs Java and Maven."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from ..processes import ProcessFailedError
from .apache_kafka import DEFAULTS, FLAGS, HEAP_MB, require_java

_START_SECONDS_MAX: Final = 120.0
_LOOK_AGAIN_SECONDS: Final = 0.1
_LOG_SHOWN_CHARACTERS: Final = 4000


class ApacheCluster:
    """A cluster with Kafka's defaults, and three replicas of everything.

    Args:
        folder: an empty one, for the nodes' data, configurations and logs.
        nodes: how many.

    Attributes:
        bootstrap: the addresses of all nodes.

    Raises:
        ProcessFailedError: there is no Java or no Maven, or a node does not start.
    """

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        require_java()
        from minikafka.lab.processes.java import free_ports

        self._folder = folder
        ports = free_ports(2 * nodes)
        self._ports = dict(enumerate(ports[:nodes], start=1))
        self._controllers = dict(enumerate(ports[nodes:], start=1))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> list[int]:
        """The processes of the nodes that run."""
        return [one.pid for one in self._processes.values() if one.poll() is None]

    def address(self, node: int) -> str:
        """``HOST:PORT`` of a node."""
        return f"127.0.0.1:{self._ports[node]}"

    def __enter__(self) -> Self:
        try:
            for node in self._ports:
                self._format(node)
                self.start(node)
            self._wait_until_it_serves()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all nodes."""
        for node in list(self._processes):
            self.kill(node)

    def kill(self, node: int) -> None:
        """SIGKILL, and wait for the end."""
        self._processes[node].kill()
        self._processes[node].wait()

    def start(self, node: int) -> None:
        """Start a node (again), without waiting until it serves."""
        from tests.peers.java_runtime import java_command

        command = java_command(
            "kafka.Kafka", str(self._properties(node)), heap_mb=HEAP_MB, flags=FLAGS
        )
        with self._log(node).open("ab") as log:
            self._processes[node] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def _format(self, node: int) -> None:
        from tests.peers.apache_kafka import CLUSTER_ID, SETTINGS
        from tests.peers.java_runtime import java_command

        self._properties(node).parent.mkdir(parents=True)
        settings = {**SETTINGS, **DEFAULTS, **self._settings(node)}
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        self._properties(node).write_text("".join(lines), encoding="utf-8")
        arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(self._properties(node)))
        with self._log(node).open("ab") as log:
            finished = subprocess.run(
                java_command("kafka.tools.StorageTool", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if finished.returncode:
            raise ProcessFailedError(f"Apache Kafka cannot format its disk:\n{self._end(node)}")

    def _settings(self, node: int) -> Mapping[str, str]:
        voters = [f"{one}@127.0.0.1:{port}" for one, port in self._controllers.items()]
        copies = str(min(3, len(self._ports)))
        public = f"PLAINTEXT://{self.address(node)}"
        return {
            "node.id": str(node),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"{public},CONTROLLER://127.0.0.1:{self._controllers[node]}",
            "advertised.listeners": public,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self._properties(node).parent / "logs"),
            "default.replication.factor": copies,
            "min.insync.replicas": str(max(1, int(copies) - 1)),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
        }

    def _properties(self, node: int) -> Path:
        return self._folder / f"apache-{node}" / "server.properties"

    def _log(self, node: int) -> Path:
        return self._folder / f"apache-{node}" / "apache-kafka.log"

    def _end(self, node: int) -> str:
        return self._log(node).read_text(encoding="utf-8", errors="replace")[
            -_LOG_SHOWN_CHARACTERS:
        ]

    def _wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while self._brokers() != sorted(self._ports):
            for node, process in self._processes.items():
                if process.poll() is not None:
                    code = process.returncode
                    raise ProcessFailedError(f"Apache Kafka ended with {code}:\n{self._end(node)}")
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"Apache Kafka does not serve:\n{self._end(1)}")
            time.sleep(_LOOK_AGAIN_SECONDS)

    def _brokers(self) -> Sequence[int]:
        """The brokers that every node knows; nothing as long as they do not agree."""
        from minikafka.protocol.messages import metadata
        from minikafka.testing.wire import Wire

        found: list[Any] = []
        for node in self._ports:
            try:
                with Wire(self.address(node)) as wire:
                    answer = wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
            except OSError:
                return []
            found.append(sorted(broker.node_id for broker in answer.brokers))
        return found[0] if all(one == found[0] for one in found) else []
