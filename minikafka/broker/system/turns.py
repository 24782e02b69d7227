"""The longest turns of the event loop: how long each task ran before it let others run.

While one task runs, no other client is answered and no heartbeat is sent, so a turn has to stay
short whatever a client asks for. A `TurnWatch` measures the *processor time* of this thread for
each turn, so that a busy machine does not look like a busy task. A garbage collection is measured
apart, in whichever thread it happens: it stops all of them, and the task that it interrupts is not
to blame.

It is an instrument of trio and costs about a microsecond per turn. So a broker has one only where
`ENVIRONMENT_VARIABLE` says which turns are worth a warning; tests and benchmarks say so.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import trio

if TYPE_CHECKING:
    from types import TracebackType

logger = logging.getLogger(__name__)

TURN_SECONDS_MAX: Final = 0.1
"""The longest turn that a request may cause."""
ENVIRONMENT_VARIABLE: Final = "MINIKAFKA_TURN_WARNING_MS"
"""Milliseconds. A broker that has it warns of longer turns, and says at its end which was the
longest; `minikafka.testing` lets the test fail in which such a warning is found."""
LONG_TURN: Final = "in one turn"
"""What warnings of long turns are recognised by."""
_COLLECTION: Final = "the garbage collector"


class Turn(NamedTuple):
    """A turn of a task: its name, and the processor time in seconds."""

    task: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.task} ran for {self.seconds * 1000:.0f} ms {LONG_TURN}"


class TurnWatch(trio.abc.Instrument):
    """Measures the turns of tasks; `with` it, the current run is watched.

    Args:
        prefix: beginning of the names of the tasks to watch; a task is named after its function.
        warn_seconds: log a warning for each turn, and each collection, that takes longer.

    Attributes:
        longest: the longest turn so far, collections left out.
        longest_collection: the longest garbage collection so far.
    """

    def __init__(self, prefix: str = "", warn_seconds: float = float("inf")) -> None:
        self.longest = Turn("nothing", 0.0)
        self.longest_collection = Turn(_COLLECTION, 0.0)
        self._prefix = prefix
        self._warn_seconds = warn_seconds
        self._began = 0.0
        self._collection_began = 0.0
        self._thread = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn begins."""
        del task
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A turn ends."""
        seconds = time.thread_time() - self._began
        if seconds <= self.longest.seconds and seconds <= self._warn_seconds:
            return
        if not task.name.startswith(self._prefix):
            return
        turn = Turn(task.name, seconds)
        if seconds > self.longest.seconds:
            self.longest = turn
        if seconds > self._warn_seconds:
            logger.warning("%s", turn)

    def _collecting(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        """A collection starts or ends; in this thread it begins a turn's time later."""
        del info
        if phase == "start":
            self._collection_began = time.thread_time()
            return
        seconds = time.thread_time() - self._collection_began
        if threading.get_ident() == self._thread:
            self._began += seconds
        if seconds > self.longest_collection.seconds:
            self.longest_collection = Turn(_COLLECTION, seconds)
        if seconds > self._warn_seconds:
            logger.warning("%s", Turn(_COLLECTION, seconds))

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        gc.callbacks.append(self._collecting)
        trio.lowlevel.add_instrument(self)
        self._began = time.thread_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        trio.lowlevel.remove_instrument(self)
        gc.callbacks.remove(self._collecting)


class _LoggedWatch(TurnWatch):
    """Says at its end which turn was the longest."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        longest = max(self.longest, self.longest_collection, key=lambda one: one.seconds)
        logger.info("longest of all turns: %s", longest)


def watch_if_asked() -> AbstractContextManager[object]:
    """A watch that logs, if `ENVIRONMENT_VARIABLE` is set; otherwise nothing, which costs nothing.

    Raises:
        ValueError: the variable is not a number.
    """
    text = os.environ.get(ENVIRONMENT_VARIABLE)
    if not text:
        return nullcontext()
    return _LoggedWatch(warn_seconds=float(text) / 1000)
