"""Programs that a test runs step by step, in any order, and kills at any step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class Killed(BaseException):
    """Raised inside an actor at the step where it dies."""


class Actor(Generic[_Result]):
    """A function in a thread that runs only while `step` waits for it.

    Attributes:
        is_over: whether it returned, failed, or was killed.
    """

    def __init__(self, body: Callable[[Callable[[], None]], _Result]) -> None:
        self.is_over = False
        self.result: _Result | None = None
        self.error: Exception | None = None
        self._body = body
        self._is_killed = False
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._pause(is_first=True)
            self.result = self._body(self._pause)
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 - the test checks it
            self.error = error
        self.is_over = True
        self._stopped.release()

    def _pause(self, *, is_first: bool = False) -> None:
        if not is_first:
            self._stopped.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed

    def step(self) -> None:
        """Run to the next pause, or to the end."""
        if not self.is_over:
            self._go.release()
            self._stopped.acquire()

    def kill(self) -> None:
        """Kill it at its current pause."""
        if not self.is_over:
            self._is_killed = True
            self.step()
        self._thread.join()

    def finish(self) -> None:
        """Run to the end."""
        while not self.is_over:
            self.step()
        self._thread.join()
