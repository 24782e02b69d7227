"""A server in a process of its own, which says ``ready: ADDRESS`` when it serves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Final

START_TIMEOUT_S: Final = 90.0
"""A broker starts in half a second. This is against a hang, on any machine under any load."""
STOP_TIMEOUT_S: Final = 60.0
"""A broker stops within five seconds."""
LOG_TAIL_CHARACTERS: Final = 4_000

_READY: Final = b"ready: "
_READ_BYTES: Final = 4_096


class BrokerStartError(RuntimeError):
    """A server did not start. The message has the reason and the end of its log."""


class ServerProcess:
    """A process that was started and may not serve yet; see `wait_until_ready`.

    Args:
        name: what errors call it.
        command: what to execute.
        log_path: stderr is appended to this file.
        environment: variables in addition to those of this process.
        cwd: the directory it starts in; this process's own if None.
        pass_fds: open files that it inherits.

    Attributes:
        address: what follows ``ready:``; empty until then.
        ready_seconds: from its start to the ready line.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Collection[int] = (),
    ) -> None:
        self.name = name
        self.log_path = log_path
        self.address = ""
        self.ready_seconds = 0.0
        self._line = b""
        with log_path.open("ab") as log:
            self._started_at = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # the system closes it if this process dies
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd=cwd,
                pass_fds=pass_fds,
                env={**os.environ, **environment} if environment else None,
            )

    def fileno(self) -> int:
        """Its stdout, which selectors wait for."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.poll()

    @property
    def is_stopped(self) -> bool:
        """Whether it was suspended (SIGSTOP), by whomever."""
        try:
            state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # it has ended
            return False
        return state is not None

    def read_ready_line(self) -> bool:
        """Read what has come on stdout; whether the ready line is complete.

        Raises:
            BrokerStartError: stdout ended, or the first line is another one.
        """
        piece = os.read(self.fileno(), _READ_BYTES)
        self._line += piece
        if piece and b"\n" not in self._line:
            return False
        line = self._line.partition(b"\n")[0]
        if not line.startswith(_READY):
            raise self.start_error(
                f"printed {line.decode(errors='replace')!r}, not `ready: HOST:PORT`"
                if line
                else self._end_in_words()
            )
        self.ready_seconds = time.perf_counter() - self._started_at
        self.address = line.removeprefix(_READY).decode().strip()
        return True

    def _end_in_words(self) -> str:
        try:
            return f"ended with exit code {self._process.wait(STOP_TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            return "closed its stdout"

    def start_error(self, what: str) -> BrokerStartError:
        """The error for a start that failed, with the end of the log."""
        return BrokerStartError(f"{self.name} {what}; {self.log_path} ends with:\n{self.log_tail}")

    @property
    def log_tail(self) -> str:
        """The end of its log."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARACTERS:]

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def ask_to_stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to stop, which a paused process receives as well."""
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._process.kill()
        self._process.wait()
        self._close()

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the end, which is forced when it takes too long.

        Returns:
            The exit code, negative for a signal: -9 if it had to be forced.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        finally:
            code = self._process.wait()
            self._close()
        return code

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def wait_until_ready(
    processes: Collection[ServerProcess], timeout_s: float = START_TIMEOUT_S
) -> None:
    """Wait until all of them serve.

    Raises:
        BrokerStartError: one of them ended, printed something else, or was too slow.
    """
    deadline = time.monotonic() + timeout_s
    with DefaultSelector() as selector:
        for process in processes:
            selector.register(process, EVENT_READ)
        while waiting := selector.get_map():
            readable = selector.select(max(0.0, deadline - time.monotonic()))
            if not readable:
                late = [key.fileobj for key in waiting.values()]
                slow = next(process for process in processes if process in late)
                raise slow.start_error(f"was not ready after {timeout_s:.0f} s")
            for key, _ in readable:
                process = next(one for one in processes if one is key.fileobj)
                if process.read_ready_line():
                    selector.unregister(process)
