"""One node's process under a supervisor, which it does not outlive."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_READY: Final = b"ready: "
_READ_AT_ONCE_BYTES: Final = 4096
_LINE_BYTES_MAX: Final = 4096
_PR_SET_PDEATHSIG: Final = 1
_TAIL_READ_BYTES: Final = 16_384


class NodeProcess:
    """A running ``minikafka serve``.

    Args:
        command: the words that start it.
        log: takes what it writes to stderr.

    Attributes:
        ready_address: where it serves; empty until it says so.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                # A Ctrl-C in the terminal is for the supervisor, which then stops all in order.
                process_group=0,
                preexec_fn=_end_with_supervisor(),
            )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._said = b""
        self.ready_address = ""

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def fileno(self) -> int:
        """Its stdout; readable when there may be something to `listen` to."""
        return self._stdout.fileno()

    def listen(self) -> bool:
        """Take in what it has said; False when it will say nothing more."""
        try:
            piece = os.read(self._stdout.fileno(), _READ_AT_ONCE_BYTES)
        except BlockingIOError:
            return True
        if self.ready_address:
            return bool(piece)
        self._said = (self._said + piece)[-_LINE_BYTES_MAX:]
        for line in self._said.split(b"\n")[:-1]:
            if line.startswith(_READY):
                self.ready_address = line.removeprefix(_READY).decode("utf-8", "replace").strip()
        return bool(piece)

    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """SIGTERM, which a paused process also gets to see."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Let go of its stdout."""
        self._stdout.close()


def _end_with_supervisor() -> Callable[[], None] | None:
    """What a child does before it becomes a node: have the kernel kill it when its parent dies.

    Only Linux has that. Elsewhere nodes outlive a supervisor that is killed with SIGKILL.
    """
    if sys.platform != "linux":
        return None
    parent = os.getpid()
    set_option = ctypes.CDLL(None).prctl

    def before_exec() -> None:
        set_option(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return before_exec


def describe_end(exit_code: int) -> str:
    """How a process ended, in words."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


def tail_of(log: Path, lines: int) -> list[str]:
    """The last lines of a log; none if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return list(deque(text.splitlines(), lines))
