"""SIGINT and SIGTERM: how they end a command."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from .failure import Interrupted, Terminated

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Which signal has arrived: SIGINT (Ctrl-C), SIGTERM, or 0 for none."""

    def __init__(self, signal_number: int = 0) -> None:
        self.signal_number = signal_number

    def error(self, message: str) -> Interrupted:
        """The error to raise after cleaning up; `message` says what was done before the signal."""
        kind = Terminated if self.signal_number == signal.SIGTERM else Interrupted
        return kind(message)


@contextmanager
def cancelled_by_signals(stop: Stop) -> Generator[None]:
    """Cancel the block on SIGINT or SIGTERM, and record in `stop` which one it was.

    Further signals while the block unwinds are ignored. Needs trio, in the main thread.
    """
    import trio

    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:

        def on_signal(number: int, _frame: object) -> None:
            stop.signal_number = number
            token.run_sync_soon(scope.cancel, idempotent=True)

        previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@contextmanager
def exit_cleanly_on_signals() -> Generator[None]:
    """Exit with 0 on a signal that arrives while nothing else in the block handles signals.

    A signal often arrives twice, from the terminal and from a parent process. So that the second
    one does not turn a clean stop into a failure while the interpreter shuts down, signals are
    ignored once the block has ended without an error.
    """

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(0)

    previous: list[Any] = [signal.signal(number, leave) for number in _SIGNALS]
    after = previous
    try:
        yield
        after = [signal.SIG_IGN] * len(_SIGNALS)
    finally:
        for number, handler in zip(_SIGNALS, after, strict=True):
            signal.signal(number, handler)
