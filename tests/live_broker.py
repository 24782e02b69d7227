"""A real broker in a process of its own, for tests that need one to talk to, kill or restart.

with LiveBroker(tmp_path) as broker:
client(broker.bootstrap)
broker.kill()
broker.start()      # the same port, the same data
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from types import TracebackType
from typing import Self

START_PATIENCE_S = 90
STOP_PATIENCE_S = 60
CALM = {"log.retention.check.interval.ms": "86400000"}
"""Many a test's records are from years ago, and a broker that is shared by tests runs for long."""
LOG_SHOWN_CHARACTERS = 3_000


class LiveBroker:
    """``minikafka serve`` with its data under `directory`.

    Args:
        directory: gets the data directory `data` and the broker's log `broker.log`.
        settings: Kafka's names and values, e.g. `{"num.partitions": "3"}`.
        options: further words of the command line.
        launcher: words before the command, e.g. `("prlimit", "--nofile=256")`.

    Attributes:
        bootstrap: `HOST:PORT`; the port stays the same over restarts.
        data_dir: where the logs are.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        options: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.bootstrap = "127.0.0.1:0"
        self.data_dir = directory / "data"
        self._log_path = directory / "broker.log"
        self._words = [
            word
            for item in {**CALM, **(settings or {})}.items()
            for word in ("--set", "=".join(item))
        ]
        self._words += options
        self._launcher = launcher
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process."""
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def log(self) -> str:
        """What it has written to stderr so far, over all restarts."""
        return self._log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it serves; fails with its log if it does not."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start it."""
        command = [*self._launcher, sys.executable, "-m", "minikafka.cli.main", "serve"]
        command += ["--data-dir", str(self.data_dir), "--listen", self.bootstrap, *self._words]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def wait_until_ready(self) -> None:
        """Wait until a broker that was launched serves; fails with its log if it does not."""
        line = self._first_line()
        if not line.startswith("ready: "):
            self.kill()
            raise AssertionError(f"the broker said {line!r}:\n{self.log[-LOG_SHOWN_CHARACTERS:]}")
        self.bootstrap = line.removeprefix("ready: ")

    def _first_line(self) -> str:
        stdout = self.process.stdout
        assert stdout is not None
        line = b""
        with DefaultSelector() as selector:
            selector.register(stdout, EVENT_READ)
            while not line.endswith(b"\n") and selector.select(START_PATIENCE_S):
                piece = os.read(stdout.fileno(), 1000)
                if not piece:
                    break
                line += piece
        return line.decode().strip()

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.process.kill()
        self.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; returns its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        try:
            return self.process.wait(STOP_PATIENCE_S)
        finally:
            if self.process.returncode is None:
                self.process.kill()
                self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()

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
            exc.add_note(f"the broker's log ends with:\n{self.log[-LOG_SHOWN_CHARACTERS:]}")
