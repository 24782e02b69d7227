"""Apache Kafka under attack: three brokers and a controller, each a java process.

The controller is a process of its own, so that a fault hits the replicas of a partition and not the
quorum that has to elect another leader. Clients reach the brokers through `Proxy`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from minikafka.protocol.messages import metadata
from minikafka.testing.wire import Wire

from .java import LOG_CONFIG, free_ports, jar_folder, java_command, version_of
from .proxy import Loss, Proxy
from .target import Action, CannotError

CLUSTER_ID: Final = "bWluaWthZmthLXRoZS1sYWI"
"""Any 16 bytes in base64."""

SETTINGS: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "1500",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.retention.check.interval.ms": "86400000",
    "log.initial.task.delay.ms": "86400000",
}
"""Short sessions, so that a run takes seconds, and little memory."""

_CONTROLLER: Final = 100
_NODES: Final = (1, 2, 3)
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 60.0
_FETCH_WAITS_S: Final = 0.4
"""Longer than ``replica.fetch.wait.max.ms``."""
_LOOK_AGAIN_S: Final = 0.1
_ASK_S: Final = 2.0
_LOG_SHOWN: Final = 3_000
_LOSSES: Final[Mapping[Action, Loss]] = {
    Action.LOSE_REQUEST: "request",
    Action.LOSE_ACK: "answer",
    Action.REFUSE: "refusal",
    Action.KILL_BEFORE_APPEND: "death before",
    Action.KILL_AFTER_APPEND: "death after",
    Action.KILL_AFTER_ACK: "death after answer",
}


class ApacheKafkaTarget:
    """Three brokers of Apache Kafka; see `minikafka.lab.processes.target.Target`.

    Args:
        home: an unpacked distribution, or a folder with its jars; KAFKA_HOME if None.

    Raises:
        NoApacheKafkaError: Apache Kafka or Java is missing.
        CannotError: it does not start; the message ends with its log.
    """

    name = "apache-kafka"
    session_ms = 1_000
    is_direct = False
    patience_s = 30.0
    can = frozenset(Action) - {Action.ISOLATE, Action.JUMP_CLOCK, Action.LOSE_POWER}
    nodes: Collection[int] = _NODES

    def __init__(self, home: Path | None = None) -> None:
        jars = jar_folder(home)
        self.version = version_of(jars)
        self._class_path = f"{jars}/*"
        self._folder = tempfile.TemporaryDirectory(prefix="minikafka-lab-apache-")
        self._root = Path(self._folder.name)
        self._log_config = self._root / "log4j2.properties"
        self._log_config.write_text(LOG_CONFIG)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        ports = free_ports(1 + len(_NODES))
        self._controller = f"127.0.0.1:{ports[0]}"
        self._addresses = {
            node: f"127.0.0.1:{port}" for node, port in zip(_NODES, ports[1:], strict=True)
        }
        self._proxy = Proxy(",".join(self._addresses.values()))
        self.bootstrap = self._proxy.bootstrap
        self.properties: Mapping[str, str] = {}
        try:
            self._format()
            for node in (_CONTROLLER, *_NODES):
                self._launch(node)
            for node in _NODES:
                self._wait_until_it_serves(node)
        except BaseException:
            self.close()
            raise

    def do(self, action: Action, node: int) -> None:
        """See `minikafka.lab.processes.target.Target.do`.

        Raises:
            CannotError: it failed, or is not in `can`.
        """
        actions: Mapping[Action, Callable[[], object]] = {
            Action.KILL: lambda: self._kill(node),
            Action.STOP: lambda: self._stop(node),
            Action.START: lambda: self._start(node),
            Action.PAUSE: lambda: self._pause(node),
            Action.FALL_BEHIND: lambda: self._pause(node),
            Action.RESUME: lambda: self._resume(node),
            Action.HEAL: self._resume_all,
            Action.WIPE: lambda: self._wipe(node),
        }
        if action in _LOSSES:
            self._arm(action, node)
        elif action in actions:
            actions[action]()
        else:
            raise CannotError(f"{self.name} has no way to {action.value}")

    def restore(self) -> None:
        """Have all nodes run and serve clients again.

        Raises:
            CannotError: a node does not start.
        """
        self._proxy.disarm()
        self._resume_all()
        down = [node for node in _NODES if self._processes[node].poll() is not None]
        for node in down:
            self._launch(node)
        for node in down:
            self._wait_until_it_serves(node)

    def close(self) -> None:
        """End the processes."""
        self._resume_all()
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._proxy.close()
        self._folder.cleanup()

    # --- nodes ---

    def _arm(self, action: Action, node: int) -> None:
        is_unreplicated = action in {Action.KILL_AFTER_APPEND, Action.KILL_AFTER_ACK}

        def kill() -> None:
            self._kill(node)
            self._resume_all()

        if is_unreplicated:  # the followers do not fetch what is about to come
            for other in _NODES:
                if other != node:
                    self._pause(other)
            time.sleep(_FETCH_WAITS_S)  # a fetch that waits at the leader would get the record
        is_death = action not in {Action.LOSE_REQUEST, Action.LOSE_ACK, Action.REFUSE}
        self._proxy.arm(self._addresses[node], _LOSSES[action], kill if is_death else None)

    def _kill(self, node: int) -> None:
        self._paused.discard(node)
        self._processes[node].kill()
        self._processes[node].wait()

    def _stop(self, node: int) -> None:
        process = self._processes[node]
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise CannotError(f"node {node} does not stop:\n{self._log(node)}") from None

    def _start(self, node: int) -> None:
        if self._processes[node].poll() is not None:
            self._launch(node)
            self._wait_until_it_serves(node)

    def _pause(self, node: int) -> None:
        self._paused.add(node)
        self._processes[node].send_signal(signal.SIGSTOP)

    def _resume(self, node: int) -> None:
        self._paused.discard(node)
        self._processes[node].send_signal(signal.SIGCONT)

    def _resume_all(self) -> None:
        for node in [*self._paused]:
            self._resume(node)

    def _wipe(self, node: int) -> None:
        for log in (self._root / f"node-{node}" / "logs").glob("*-[0-9]*"):
            if not log.name.startswith("__"):
                shutil.rmtree(log)

    def _launch(self, node: int) -> None:
        command = self._java("kafka.Kafka", str(self._configuration(node)))
        with (self._root / f"node-{node}" / "log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def _wait_until_it_serves(self, node: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._serves(node):
            code = self._processes[node].poll()
            if code is not None or time.monotonic() > deadline:
                raise CannotError(f"node {node} does not start ({code}):\n{self._log(node)}")
            time.sleep(_LOOK_AGAIN_S)

    def _serves(self, node: int) -> bool:
        try:
            with Wire(self._addresses[node], timeout_s=_ASK_S) as wire:
                answer = wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
        except OSError:
            return False
        return node in [broker.node_id for broker in answer.brokers]

    def _log(self, node: int) -> str:
        text = (self._root / f"node-{node}" / "log").read_text(errors="replace")
        return text[-_LOG_SHOWN:]

    # --- configuration ---

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        return java_command(
            main_class, *arguments, class_path=self._class_path, log_config=self._log_config
        )

    def _configuration(self, node: int) -> Path:
        return self._root / f"node-{node}" / "server.properties"

    def _format(self) -> None:
        """Write configurations and format disks."""
        formatting: dict[int, subprocess.Popen[bytes]] = {}
        for node in (_CONTROLLER, *_NODES):
            folder = self._root / f"node-{node}"
            folder.mkdir()
            lines = [f"{name}={value}" for name, value in self._settings_of(node).items()]
            self._configuration(node).write_text("\n".join(lines) + "\n", encoding="utf-8")
            words = ["format", "--cluster-id", CLUSTER_ID]
            words += ["--config", str(self._configuration(node))]
            with (folder / "log").open("ab") as log:
                formatting[node] = subprocess.Popen(
                    self._java("kafka.tools.StorageTool", *words),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        for node, process in formatting.items():
            if process.wait():
                raise CannotError(f"node {node} cannot format its disk:\n{self._log(node)}")

    def _settings_of(self, node: int) -> dict[str, str]:
        own = {
            "node.id": str(node),
            "log.dirs": str(self._root / f"node-{node}" / "logs"),
            "controller.quorum.voters": f"{_CONTROLLER}@{self._controller}",
        }
        if node == _CONTROLLER:
            own |= {"process.roles": "controller", "listeners": f"CONTROLLER://{self._controller}"}
        else:
            own |= {
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://{self._addresses[node]}",
                "inter.broker.listener.name": "PLAINTEXT",
            }
        return {**SETTINGS, **own}
