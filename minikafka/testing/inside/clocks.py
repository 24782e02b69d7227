"""Clocks that a test moves: what the broker waits for comes at once."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from .idle import wait_all_tasks_blocked

_STEPS_MAX = 2_000
"""Steps of one move. Between two of them everything that is due runs, in the order of its time."""
_STEP_SECONDS_MIN = 0.001


class MovableClock(trio.abc.Clock):
    """Trio's clock: the machine's, and as much later as the test wants."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def start_clock(self) -> None:
        """Nothing to do: the machine's clock runs."""

    def current_time(self) -> float:
        """Seconds that only go forward."""
        return time.monotonic() + self.ahead_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How long to wait for a deadline, unless the clock is moved."""
        return deadline - self.current_time()

    async def advance(self, seconds: float) -> None:
        """Let time pass in steps, from deadline to deadline as far as there are not too many.

        Raises:
            ValueError: time does not go back.
        """
        await advance(self._jump, seconds)

    def _jump(self, seconds: float) -> None:
        self.ahead_s += seconds


async def advance(jump: Callable[[float], None], seconds: float) -> None:
    """Let a clock jump from deadline to deadline as far as there are not too many.

    Raises:
        ValueError: time does not go back.
    """
    if seconds < 0:
        raise ValueError(f"a clock cannot be advanced by {seconds:g} s")
    step_min = max(_STEP_SECONDS_MIN, seconds / _STEPS_MAX)
    left = seconds
    while left > 0:
        await wait_all_tasks_blocked()
        next_deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
        step = min(left, max(step_min, next_deadline))
        jump(step)
        left -= step
    await wait_all_tasks_blocked()


class MovableTime:
    """The broker's two times, both of them ahead by what the test wants."""

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        return trio.current_time()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + round(self._clock.ahead_s * 1000)
