"""SIGTERM and SIGINT from the first moment to the last: neither ends the process halfway.

While the broker starts, a signal abandons the start (recovery can be cut short anywhere, as a kill
would). While it serves, trio receives the signals. While it closes, they are expected and ignored.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppedDuringStart(BaseException):
    """A signal to stop came before the broker could serve."""


class StopSignals:
    """What the handlers of this process have seen.

    Attributes:
        is_interruptible: a signal raises `StoppedDuringStart` in the main thread.
        was_received: a signal has come.
    """

    def __init__(self) -> None:
        self.is_interruptible = True
        self.was_received = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # Nothing is logged here: what is interrupted may be a line that is being logged, and its
        # stream refuses another one.
        del frame
        self.was_received = True
        if self.is_interruptible:
            self.is_interruptible = False
            raise StoppedDuringStart(signal.Signals(number).name)


@contextmanager
def stop_signals() -> Generator[StopSignals]:
    """Handle signals to stop as long as the context lasts; ends it quietly when the start stops."""
    handler = StopSignals()
    previous: dict[signal.Signals, Any] = {
        number: signal.signal(number, handler) for number in STOP_SIGNALS
    }
    try:
        yield handler
    except StoppedDuringStart as stopped:
        logger.info("%s: stopped before it could serve", stopped)
    finally:
        for number, action in previous.items():
            signal.signal(number, action)
