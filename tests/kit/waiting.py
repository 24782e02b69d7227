"""Waiting for clients by letting them work until something has happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK_AGAIN_S = 0.02
SECONDS_MAX = 120.0
"""Against a hang. A correct broker needs a fraction of it on any machine."""


def work_until(
    is_done: Callable[[], bool], *steps: Callable[[], object], what: str, show: object = ""
) -> None:
    """Repeat steps (polls, which wait for events themselves) until something is so.

    Args:
        is_done: asked after every round of steps.
        steps: each must wait a little for its events rather than return at once.
        what: names what is waited for, if it does not happen.
        show: printed with it; a function is called, for what is the case then.

    Raises:
        AssertionError: it is not so after `SECONDS_MAX`.
    """
    end = time.monotonic() + SECONDS_MAX
    while not is_done():
        if time.monotonic() > end:
            shown = show() if callable(show) else show
            raise AssertionError(f"timed out waiting for {what} {shown}")
        for step in steps:
            step()


def look_until(is_so: Callable[[], bool], what: str, *, show: object = "") -> None:
    """Check many times a second until something is so that does not announce itself.

    Args:
        is_so: checked.
        what: names what is waited for, if it does not happen.
        show: printed with it; a function is called, for what is the case then.

    Raises:
        AssertionError: it is not so after `SECONDS_MAX`.
    """
    moment = threading.Event()
    work_until(is_so, lambda: moment.wait(_LOOK_AGAIN_S), what=what, show=show)


class Progress:
    """Lets a thread wait until others have done something.

    One lock for all: a thread that changes something calls `announce` afterwards.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def announce(self) -> None:
        """Wake the waiting threads, which check again."""
        with self._condition:
            self._condition.notify_all()

    def wait_until(
        self, is_so: Callable[[], bool], *, what: str, show: Callable[[], object] = str
    ) -> None:
        """Wait until something is so.

        Raises:
            AssertionError: it is not so after `SECONDS_MAX`.
        """
        with self._condition:
            happened = self._condition.wait_for(is_so, SECONDS_MAX)
        assert happened, f"timed out waiting for {what} {show()}"
