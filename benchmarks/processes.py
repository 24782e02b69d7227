"""Processes under measurement: the broker, its peers, and the load.

Each is a process of its own, so that they compete for the processors as in real life, and the
runner's own work is not measured.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from minikafka import testing
from minikafka.testing import Broker, Setting
from minikafka.testing.process import ServerProcess, wait_until_ready

from .flame import watched
from .interpreters import prefix

ROOT = Path(__file__).resolve().parent.parent
LOAD_SECONDS_MAX = 600.0
_STDERR_SHOWN_CHARACTERS_MAX = 2000
_OF_THE_SCHEDULER = 2
WATCHED = {"MINIKAFKA_TURN_WARNING_MS": "100"}
"""The brokers measure the turns of their event loops, which costs about a microsecond for each."""
_TURN = re.compile(r"\S.* ran for (\d+) ms in one turn$")


class ProcessFailedError(Exception):
    """A process under measurement ended early, was too slow, or printed something unexpected."""


@contextmanager
def _measuring(pid: int) -> Generator[None]:
    """Say which process has ended."""
    try:
        yield
    except (psutil.NoSuchProcess, OSError) as error:
        raise ProcessFailedError(f"process {pid} ended while it was measured") from error


def resident_bytes(pid: int) -> int:
    """The resident memory of a process.

    Raises:
        ProcessFailedError: it has ended.
    """
    with _measuring(pid):
        return int(psutil.Process(pid).memory_info().rss)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process and its threads have used so far, in user and kernel mode.

    Raises:
        ProcessFailedError: it has ended.
    """
    # The kernel's clock of another process, as of clock_getcpuclockid(): nanoseconds, where
    # /proc/PID/stat has hundredths of a second.
    with _measuring(pid):
        return time.clock_gettime((~pid << 3) | _OF_THE_SCHEDULER)


def user_seconds(pid: int) -> float:
    """Processor time in user mode, as the kernel samples it: hundredths of a second.

    Raises:
        ProcessFailedError: it has ended.
    """
    with _measuring(pid):
        return float(psutil.Process(pid).cpu_times().user)


def server_of(address: str) -> int:
    """The process that listens at an address.

    Raises:
        ProcessFailedError: none of this user's processes does.
    """
    port = int(address.rpartition(":")[2])
    for one in psutil.net_connections("tcp"):
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid is not None:
            return int(one.pid)
    raise ProcessFailedError(f"no process listens at {address}")


def longest_turn(folder: Path) -> str:
    """The longest turn that the logs of brokers in a folder tell of, or nothing."""
    found: dict[str, int] = {}
    for log in folder.rglob("broker.log"):
        for line in log.read_text(errors="replace").splitlines():
            turn = _TURN.search(line.rpartition(": ")[2])
            if turn is not None:
                found[turn[0]] = int(turn[1])
    return max(found, key=found.__getitem__, default="")


@contextmanager
def broker(
    folder: Path,
    settings: Mapping[str, Setting] | None = None,
    *,
    listen: str = "127.0.0.1:0",
) -> Generator[Broker]:
    """Run a broker during a block, with Kafka's defaults and its data and log in a folder.

    It continues with the data that an earlier broker left there.

    Raises:
        ProcessFailedError: it did not stop cleanly after the block.
    """
    # Without the control channel of tests: that decodes every request a second time.
    with testing.broker(
        settings,
        directory=folder,
        listen=listen,
        prefix=prefix(),
        defaults={},
        environment=WATCHED,
        control=False,
    ) as server:
        with watched([server.pid]):
            yield server
        check_stop(server.stop(), server.log_path)


def check_stop(exit_code: int, log: Path) -> None:
    """Check that a server has stopped cleanly.

    Raises:
        ProcessFailedError: it has not.
    """
    if exit_code != 0:
        end = log.read_text(errors="replace")[-_STDERR_SHOWN_CHARACTERS_MAX:]
        raise ProcessFailedError(f"a server exited with {exit_code}; {log} ends with:\n{end}")


@contextmanager
def peer(module: str, folder: Path, *arguments: str) -> Generator[ServerProcess]:
    """Run a server of `benchmarks.peers` during a block, then kill it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"benchmarks.peers.{module}"
    command = [sys.executable, "-m", name, *arguments]
    server = ServerProcess(name, command, folder / f"{module}.stderr", cwd=ROOT)
    try:
        wait_until_ready([server])
        yield server
    finally:
        server.kill()


@contextmanager
def one_processor() -> Generator[None]:
    """Pin this process, and those it starts in a block, to one processor.

    For latencies: a wake-up on another processor costs as much as everything else, and the
    scheduler might put only one of two servers on the processor of its client.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class LoadProcess:
    """A process of `benchmarks.load`, which reads its job from stdin as JSON."""

    def __init__(self, module: str, job: Mapping[str, Any]) -> None:
        """Start ``python -m benchmarks.load.MODULE`` and give it the job."""
        self._name = f"benchmarks.load.{module}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job))
        self._process.stdin.close()
        self._process.stdin = None  # communicate() would write to it again

    def is_running(self) -> bool:
        """Whether it is still working."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> dict[str, Any]:
        """Wait until it ends; return what it measured.

        Raises:
            ProcessFailedError: it failed, or took longer than `LOAD_SECONDS_MAX`.
        """
        try:
            output, errors = self._process.communicate(timeout=LOAD_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailedError(
                f"{self._name} was still at work after {LOAD_SECONDS_MAX} s"
            ) from None
        if self._process.returncode != 0:
            raise ProcessFailedError(
                f"{self._name} ended with {self._process.returncode}; its stderr ends:\n"
                + errors[-_STDERR_SHOWN_CHARACTERS_MAX:]
            )
        measured: dict[str, Any] = json.loads(output)
        return measured


class SteadyLoad:
    """A process of `benchmarks.load.steady`, which works until `finish`."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        """Start it, and wait until it is ready to send."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load.steady"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "ready\n":
            self.kill()
            raise ProcessFailedError("benchmarks.load.steady did not start")

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> dict[str, Any]:
        """Stop it; return what it recorded.

        Raises:
            ProcessFailedError: it failed.
        """
        output, _ = self._process.communicate(timeout=LOAD_SECONDS_MAX)
        if self._process.returncode != 0:
            raise ProcessFailedError(
                f"benchmarks.load.steady ended with {self._process.returncode}"
            )
        noted: dict[str, Any] = json.loads(output)
        return noted


def run_load(module: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a load process; return what it measured."""
    return LoadProcess(module, job).finish()
