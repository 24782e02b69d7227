"""The broker's clocks, in one place so that tests can bring their own."""

from __future__ import annotations

import time
from typing import Protocol

import trio


class Clock(Protocol):
    """Two times: one that only goes forward, one that people read."""

    def monotonic(self) -> float:
        """Seconds that only go forward; for deadlines."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970; for timestamps, may jump."""
        ...


class SystemClock:
    """The machine's clocks (trio's for deadlines, so that a test's mock clock counts)."""

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
