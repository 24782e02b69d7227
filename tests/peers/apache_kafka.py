"""Apache Kafka itself: one KRaft node on loopback, shared by all test processes of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from minikafka.lab.processes.java import SMALL
from minikafka.protocol.messages import metadata
from minikafka.testing.places import Address
from tests.kit.wire import Wire
from tests.peers import keeper
from tests.peers.java_runtime import java_command, locked

CLUSTER_ID: Final = "bWluaWthZmthLXBlZXJzLQ"
"""Any 16 bytes in base64."""

LOOKS_MAX: Final = 600
LOOK_PAUSE_S: Final = 0.2
LOG_SHOWN_CHARACTERS: Final = 6_000


class StartFailed(Exception):
    """The broker did not come up; the text ends with its log."""


class ApacheKafka:
    """A node that is its own controller.

    Args:
        folder: gets its data, configuration and log.
        settings: Kafka's names and values, on top of `SETTINGS`.
        listeners: further listeners, by name, and their security protocols.
        scram_users: names and passwords that SCRAM knows.
        controller_protocol: the security protocol of the controller's listener.
        heap_mb: memory of the JVM.
        flags: of the JVM; by default those of a small program that ends soon.

    Attributes:
        bootstrap: `HOST:PORT`, once it was started.
        addresses: the same of the further listeners.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        scram_users: Mapping[str, str] | None = None,
        controller_protocol: str = "PLAINTEXT",
        heap_mb: int = 256,
        flags: Sequence[str] = SMALL,
    ) -> None:
        self.folder = folder
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}
        self._settings = {**SETTINGS, **(settings or {})}
        self._listeners = listeners or {}
        self._scram_users = scram_users or {}
        self._controller_protocol = controller_protocol
        self._heap_mb = heap_mb
        self._flags = flags
        self._held: list[Address] = []

    @property
    def log_path(self) -> Path:
        """Where it writes what it does."""
        return self.folder / "apache-kafka.log"

    def log_end(self) -> str:
        """The last of what it has written."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return text[-LOG_SHOWN_CHARACTERS:]

    def start(self, *, watched_pid: int) -> None:
        """Format the disk and start; returns when it serves.

        Args:
            watched_pid: the process with which it ends.

        Raises:
            StartFailed: it ended, or did not serve in time.
        """
        try:
            self._keep(self.prepare(), watched_pid)
        finally:
            self.release_ports()

    def _keep(self, command: Sequence[str], watched_pid: int) -> None:
        process = subprocess.Popen(
            [sys.executable, keeper.__file__, str(watched_pid), str(self.log_path), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # what interrupts the tests must not interrupt it first
        )
        self.wait_until_it_serves(process)
        # The keeper outlives this process if others are still running tests, so do not wait for it.
        process.returncode = 0

    def release_ports(self) -> None:
        """Give the ports back: it serves, or never will again."""
        for address in self._held:
            address.release()

    def prepare(self) -> list[str]:
        """Choose ports, write the configuration, format the disk; returns the command.

        The ports stay this node's until `release_ports`.

        Raises:
            StartFailed: it cannot format its disk.
        """
        self.folder.mkdir(parents=True)
        self._held = [Address("127.0.0.1:0") for _ in range(2 + len(self._listeners))]
        self.bootstrap, controller, *own = map(str, self._held)
        self.addresses = dict(zip(self._listeners, own, strict=True))
        shown = [f"{name}://{where}" for name, where in self.addresses.items()]
        shown.insert(0, f"PLAINTEXT://{self.bootstrap}")
        protocols = [f"{name}:{protocol}" for name, protocol in self._listeners.items()]
        protocols += [f"CONTROLLER:{self._controller_protocol}", "PLAINTEXT:PLAINTEXT"]
        listeners = {
            "listeners": ",".join([*shown, f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(shown),
            "listener.security.protocol.map": ",".join(protocols),
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.folder / "logs"),
        }
        configuration = self.folder / "server.properties"
        lines = [f"{name}={value}" for name, value in {**self._settings, **listeners}.items()]
        configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._format(configuration)
        return java_command(
            "kafka.Kafka", str(configuration), heap_mb=self._heap_mb, flags=self._flags
        )

    def _format(self, configuration: Path) -> None:
        storage = ["format", "--cluster-id", CLUSTER_ID, "--config", str(configuration)]
        for name, password in self._scram_users.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                storage += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        with self.log_path.open("ab") as log:
            finished = subprocess.run(
                java_command("kafka.tools.StorageTool", *storage),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if finished.returncode:
            raise StartFailed(f"Apache Kafka cannot format its disk:\n{self.log_end()}")

    def wait_until_it_serves(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the broker that a process is, or keeps.

        Raises:
            StartFailed: it ended, or did not serve in time.
        """
        for _ in range(LOOKS_MAX):
            if self._serves():
                return
            try:
                code = process.wait(LOOK_PAUSE_S)
            except subprocess.TimeoutExpired:
                continue
            raise StartFailed(f"Apache Kafka ended with {code}:\n{self.log_end()}")
        process.kill()
        raise StartFailed(f"Apache Kafka does not serve:\n{self.log_end()}")

    def _serves(self) -> bool:
        try:
            with Wire(self.bootstrap) as wire:
                answer = wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
        except ConnectionRefusedError:
            return False
        return [broker.node_id for broker in answer.brokers] == [1]


SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "true",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A member of the newer groups learns of its partitions with a heartbeat: every 5 s by default.
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    # Many a test's records are from years ago, and the first look is half a minute after the start.
    "log.retention.check.interval.ms": "86400000",
    "log.initial.task.delay.ms": "86400000",
    # Two processors, shared with all tests.
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
"""One node does everything, and a group begins at once."""


class OwnApacheKafka(ApacheKafka):
    """A node that belongs to one test, which may kill and restart it.

    Attributes:
        ready_seconds: from the last start until it was seen to serve.
    """

    ready_seconds: float
    _process: subprocess.Popen[bytes]
    _command: list[str]

    def __enter__(self) -> Self:
        try:
            self._command = self.prepare()
            self.launch()
        except BaseException:
            self.release_ports()
            raise
        return self

    def launch(self) -> None:
        """Start it (again), with the ports and the data that it had; returns when it serves."""
        started = time.perf_counter()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.wait_until_it_serves(self._process)
        self.ready_seconds = time.perf_counter() - started

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM: an orderly stop."""
        self._process.terminate()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.release_ports()


def shared(run_folder: Path) -> ApacheKafka:
    """The broker of this test run; the first process that asks for it starts it.

    Args:
        run_folder: the same for all processes of the run, and empty when it begins.

    Raises:
        StartFailed: it did not start, now or for another process.
    """
    note = run_folder / "apache-kafka.json"
    node = ApacheKafka(run_folder / "apache-kafka")
    with locked(run_folder / "apache-kafka.lock"):
        if not note.exists():
            try:
                node.start(watched_pid=_run_pid())
                note.write_text(json.dumps({"bootstrap": node.bootstrap}))
            except Exception as error:
                note.write_text(json.dumps({"failure": str(error)}))
                raise
    found = json.loads(note.read_text())
    if "failure" in found:
        raise StartFailed(found["failure"])
    node.bootstrap = found["bootstrap"]
    return node


def _run_pid() -> int:
    """The process that lives as long as the test run: under xdist, the workers' parent."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
