"""Processes that can be stopped in the middle of what they do, as SIGSTOP and SIGKILL do.

The tasks of a process know its `Life` by a context variable, which the tasks that they start
inherit. While a life is stopped, trio runs none of its tasks: what they wait for may happen, and
they find it when the life goes on. One that never goes on was killed: not even ``finally`` runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import trio

LIFE: Final[ContextVar[Life | None]] = ContextVar("LIFE", default=None)
"""Whose task this is."""


class Life:
    """One process from its start to its end.

    Attributes:
        name: of the process.
        number: how many lives the process had before, plus one.
        is_stopped: none of its tasks run.
        is_killed: none of its tasks will run again while the simulation lasts.
        clock_ms: how far its wall clock is ahead.
    """

    def __init__(self, name: str, number: int = 1) -> None:
        self.name = name
        self.number = number
        self.is_stopped = False
        self.is_killed = False
        self.clock_ms = 0
        self.held: list[tuple[trio.lowlevel.Task, tuple[Any, ...]]] = []

    def __str__(self) -> str:
        return self.name if self.number == 1 else f"{self.name} (life {self.number})"

    def stop(self) -> None:
        """Let its tasks run no further than to their next wait."""
        self.is_stopped = True

    def go_on(self) -> None:
        """Run the tasks whose waits have ended meanwhile."""
        self.is_stopped = False
        held, self.held = self.held, []
        for task, outcome in held:
            trio.lowlevel.reschedule(task, *outcome)


@contextmanager
def stoppable() -> Generator[None]:
    """Have trio's scheduler ask lives whether their tasks may run."""
    runner: Any = importlib.import_module("trio._core._run").Runner
    reschedule = runner.reschedule

    def reschedule_unless_stopped(self: Any, task: Any, *outcome: Any) -> None:
        life = task.context.get(LIFE)
        if life is None or not life.is_stopped:
            reschedule(self, task, *outcome)
            return
        # It no longer waits, so neither a cancellation nor a timeout may end the wait as well.
        task._abort_func = None
        task.custom_sleep_data = None
        life.held.append((task, outcome))

    runner.reschedule = reschedule_unless_stopped
    try:
        yield
    finally:
        runner.reschedule = reschedule
