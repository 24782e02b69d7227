"""The longest turns of the event loop: how long each task ran before it let others run.

While one task runs, no other client is answered and no heartbeat is sent, so a turn has to stay
short whatever a client asks for. A `TurnWatch` measures the *processor time* of this thread for
each turn, so that a busy machine does not look like a busy task, and leaves out what the garbage
collector took. It is an instrument of trio and costs about a microsecond per turn, so brokers use
it only when ``minikafka.turn.warning.ms`` is set; tests and benchmarks do.
"""

from __future__ import annotations

import gc
import logging
import time
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import trio

if TYPE_CHECKING:
    from types import TracebackType

logger = logging.getLogger(__name__)

TURN_SECONDS_MAX = 0.1
"""The longest turn that a request may cause."""


class Turn(NamedTuple):
    """A turn of a task: its name, and the processor time in seconds."""

    task: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.task} ran for {self.seconds * 1000:.0f} ms in one turn"


class TurnWatch(trio.abc.Instrument):
    """Measures the turns of tasks; `with` it, the current run is watched.

    Args:
        prefix: beginning of the names of the tasks to watch; a task is named after its function.
        warn_seconds: log a warning for each turn that takes longer.

    Attributes:
        longest: the longest turn so far.
    """

    def __init__(self, prefix: str = "", warn_seconds: float = float("inf")) -> None:
        self.longest = Turn("nothing", 0.0)
        self._prefix = prefix
        self._warn_seconds = warn_seconds
        self._began = 0.0
        self._collection_began = 0.0

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
        """Leave out a garbage collection: it begins a turn's time later."""
        del info
        if phase == "start":
            self._collection_began = time.thread_time()
        else:
            self._began += time.thread_time() - self._collection_began

    def __enter__(self) -> Self:
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
