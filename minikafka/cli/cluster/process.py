"""The process of a node: a child of the supervisor that does not outlive it."""

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
_STOPPED: Final = "T"
_AT_REST: Final = frozenset({None, _STOPPED, "Z", "X"})  # unknown, stopped, zombie, dead


class NodeProcess:
    """A running ``minikafka serve``, whose stderr is appended to `log`.

    Attributes:
        ready_address: the address in its ready line; empty until then.
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
                # Ctrl-C in the terminal is for the supervisor, which then stops the nodes.
                process_group=0,
                preexec_fn=_end_with_supervisor(),
            )
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._output = b""
        self.ready_address = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """Its stdout, for a selector: readable when `read_output` has something to do."""
        return self._stdout.fileno()

    def read_output(self) -> bool:
        """Read from its stdout, without blocking; False at the end."""
        try:
            piece = os.read(self._stdout.fileno(), _READ_AT_ONCE_BYTES)
        except BlockingIOError:
            return True
        if self.ready_address:
            return bool(piece)
        self._output = (self._output + piece)[-_LINE_BYTES_MAX:]
        for line in self._output.split(b"\n")[:-1]:
            if line.startswith(_READY):
                self.ready_address = line.removeprefix(_READY).decode("utf-8", "replace").strip()
        return bool(piece)

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it is running."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """Send SIGTERM, and SIGCONT so that a paused process handles it."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, and wait for the process to end."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._stdout.close()


def _end_with_supervisor() -> Callable[[], None] | None:
    """A hook for the child, before exec, that has the kernel kill it when its parent dies.

    Only Linux can do that. Elsewhere, nodes outlive a supervisor that is killed with SIGKILL.
    """
    if sys.platform != "linux":
        return None
    parent = os.getpid()
    set_option = ctypes.CDLL(None).prctl

    def before_exec() -> None:
        set_option(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before prctl took effect
            os._exit(1)

    return before_exec


def describe_end(exit_code: int) -> str:
    """How a process ended, in words."""
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def tail_of(log: Path, lines: int) -> list[str]:
    """The last lines of a log; empty if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return list(deque(text.splitlines(), lines))


def is_paused(pid: int) -> bool:
    """Whether a process is stopped by SIGSTOP; False where this is unknown (no /proc)."""
    return _state_of(pid) == _STOPPED


def is_still_running(pid: int) -> bool:
    """Whether a process that was sent SIGSTOP has not stopped yet; False where this is unknown."""
    return _state_of(pid) not in _AT_REST


def _state_of(pid: int) -> str | None:
    """The state letter of a process in /proc; None if there is no such process, or no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the command in parentheses, which may contain anything.
    return next(iter(text.rpartition(")")[2].split()), None)
