"""Processes of clients, which can be killed; they are started ahead, because that takes a moment.

A child reads its job as one line of JSON and writes what it does, a line of JSON for each thing;
`minikafka.lab.processes.worker` is its program, or `minikafka.lab.processes.spark_worker`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .target import CannotError

_LOOK_AGAIN_S: Final = 0.005
_STARTED_AHEAD: Final = 2
_WORKER: Final = "minikafka.lab.processes.worker"
_SPARK_WORKER: Final = "minikafka.lab.processes.spark_worker"
_SPARK_PATIENCE_S: Final = 120.0
"""A session takes seconds to start, and its first batch some more."""

Line = dict[str, Any]


class Child:
    """One process.

    Attributes:
        lines: what it has written so far; each has ``kind`` and ``at``, a `time.time`.
    """

    def __init__(self, patience_s: float, program: str = _WORKER) -> None:
        self._patience_s = patience_s
        self._process = subprocess.Popen(
            [sys.executable, "-m", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: list[Line] = []
        self._errors = b""
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def give(self, job: Mapping[str, object]) -> None:
        """Say what to do; it begins."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()

    def ask_to_leave(self) -> None:
        """End it in good order; see `wait_until_dead`."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for what it writes.

        Raises:
            CannotError: it ends, or is silent about it for too long.
        """
        deadline = time.monotonic() + self._patience_s
        while not is_so():
            if not self.is_alive and not any(one.is_alive() for one in self._readers):
                if is_so():
                    return
                raise CannotError(f"a client ended before {what}: {self._said()}")
            if time.monotonic() > deadline:
                raise CannotError(f"a client has not {what} for {self._patience_s:.0f} s")
            time.sleep(_LOOK_AGAIN_S)

    def wait_until_dead(self) -> None:
        """Wait for its end and for all that it has written.

        Raises:
            CannotError: it does not end.
        """
        try:
            self._process.wait(self._patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CannotError("a client does not end") from None
        self._release()

    def wait_a_while(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait for something that need not happen."""
        deadline = time.monotonic() + seconds
        while self.is_alive and not is_so() and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)

    def wait_until_paused(self) -> None:
        """Wait until it has stopped itself.

        Raises:
            CannotError: it has not in time.
        """
        self.wait_until(lambda: any(one["kind"] == "pause" for one in self.lines), "paused")

    def resume(self) -> None:
        """Let it go on after it has stopped itself."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._release()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def _release(self) -> None:
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = (self._errors + line)[-4_000:]

    def _said(self) -> str:
        return f"exit code {self._process.returncode}\n{self._errors.decode(errors='replace')}"


class Children:
    """Gives children that have started already.

    Args:
        patience_s: how long each may take for what it always does in the end.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._ready: list[Child] = []

    def take(self, job: Mapping[str, object]) -> Child:
        """A child that does this job from now on."""
        while len(self._ready) < _STARTED_AHEAD:
            self._ready.append(Child(self._patience_s))
        child = self._ready.pop(0)
        child.give(job)
        self._ready.append(Child(self._patience_s))
        return child

    def take_spark(self, job: Mapping[str, object]) -> Child:
        """A Spark query that does this job; none is started ahead."""
        child = Child(max(self._patience_s, _SPARK_PATIENCE_S), _SPARK_WORKER)
        child.give(job)
        return child

    def close(self) -> None:
        """End those that wait for a job."""
        for child in self._ready:
            child.kill()
        self._ready.clear()
