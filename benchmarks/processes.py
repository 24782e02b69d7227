"""Processes under measurement: the broker, its peers, and the load.

Every one is a process of its own, so that they compete for the processors as they do in real life
and the runner's own work stays outside. A server prints ``ready: HOST:PORT`` when it can serve.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
LOAD_SECONDS_MAX = 600.0
_STDERR_SHOWN_CHARACTERS_MAX = 2000


class ProcessFailedError(Exception):
    """A process under measurement ended early, was too slow, or printed what it should not."""


class ServerProcess:
    """A running server.

    Attributes:
        host: where it listens.
        port: the same.
        ready_seconds: from the start of the process to its ``ready`` line.
    """

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start it and wait until it is ready.

        Args:
            arguments: for the Python interpreter.
            log: takes its stderr.

        Raises:
            ProcessFailedError: it did not become ready.
        """
        self._log = log
        self._name = " ".join(arguments[:3])
        with log.open("ab") as stderr:
            started = time.perf_counter()
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                bufsize=0,
            )
        try:
            line = self._first_line()
            self.ready_seconds = time.perf_counter() - started
            if not line.startswith("ready: "):
                raise ProcessFailedError(f"{self._name} printed {line!r}, not `ready: HOST:PORT`")
        except BaseException:
            self.kill()
            raise
        self.host, _, port = line.removeprefix("ready: ").strip().rpartition(":")
        self.port = int(port)
        self._usage = psutil.Process(self._process.pid)

    @property
    def address(self) -> str:
        """``HOST:PORT``."""
        return f"{self.host}:{self.port}"

    def _first_line(self) -> str:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            readable = bool(selector.select(READY_SECONDS_MAX))
        line = self._process.stdout.readline().decode() if readable else ""
        if not line:
            end = self._log.read_text(errors="replace")[-_STDERR_SHOWN_CHARACTERS_MAX:]
            what = "ended" if readable else f"was not ready after {READY_SECONDS_MAX} s"
            raise ProcessFailedError(f"{self._name} {what}; its stderr ends:\n{end}")
        return line

    def resident_bytes(self) -> int:
        """The memory it has in RAM now.

        Raises:
            ProcessFailedError: it is gone.
        """
        try:
            return int(self._usage.memory_info().rss)
        except psutil.NoSuchProcess as error:
            raise ProcessFailedError(f"{self._name} ended while it was measured") from error

    def cpu_seconds(self) -> float:
        """Processor time it has used so far, its own and the kernel's for it."""
        times = self._usage.cpu_times()
        return float(times.user + times.system)

    def kill(self) -> None:
        """``kill -9`` and wait for the end."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def stop(self) -> None:
        """SIGTERM and wait for the end.

        Raises:
            ProcessFailedError: it had failed before, or does not stop.
        """
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
            code = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise ProcessFailedError(
                f"{self._name} did not stop within {STOP_SECONDS_MAX} s of SIGTERM"
            ) from None
        finally:
            self.kill()
        if code not in (0, -signal.SIGTERM):
            end = self._log.read_text(errors="replace")[-_STDERR_SHOWN_CHARACTERS_MAX:]
            raise ProcessFailedError(f"{self._name} ended with {code}; its stderr ends:\n{end}")


def start_broker(folder: Path, *settings: str) -> ServerProcess:
    """Start a broker whose logs and stderr are under a folder; the caller stops it.

    Args:
        folder: holds ``data/`` and ``stderr``; a broker that was there before is continued.
        settings: ``key=value`` texts for ``--set``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["-m", "minikafka.cli.main", "serve", "--listen", "127.0.0.1:0"]
    arguments += ["--data-dir", str(folder / "data")]
    for setting in settings:
        arguments += ["--set", setting]
    return ServerProcess(arguments, folder / "stderr")


@contextmanager
def broker(folder: Path, *settings: str) -> Generator[ServerProcess]:
    """A broker for a block; stopped with SIGTERM after it."""
    server = start_broker(folder, *settings)
    try:
        yield server
    except BaseException:
        server.kill()
        raise
    server.stop()


@contextmanager
def peer(module: str, folder: Path, *arguments: str) -> Generator[ServerProcess]:
    """A server of `benchmarks.peers` for a block; killed after it."""
    folder.mkdir(parents=True, exist_ok=True)
    server = ServerProcess(
        ["-m", f"benchmarks.peers.{module}", *arguments], folder / f"{module}.stderr"
    )
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def one_processor() -> Generator[None]:
    """Keep this process, and what it starts in a block, on one processor.

    For latencies: a wake-up on another processor costs as much as everything else, and the
    scheduler puts one server beside its client and the other server elsewhere, as it likes.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class LoadProcess:
    """A process of `benchmarks.load` at work; it reads its job from stdin as JSON."""

    def __init__(self, module: str, job: Mapping[str, Any]) -> None:
        """Start ``python -m benchmarks.load.MODULE`` and hand it the job."""
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
        """Whether it is still at work."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> dict[str, Any]:
        """Wait for its end and return what it measured.

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
    """`benchmarks.load.steady` at work until it is told to end."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        """Start it, and wait until it is about to send."""
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
            raise ProcessFailedError("benchmarks.load.steady did not begin")

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> dict[str, Any]:
        """Have it end, and return what it noted.

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
    """Start a load process and wait for what it measured."""
    return LoadProcess(module, job).finish()
