"""How long to wait before trying again (reconnect.backoff.*, retry.backoff.*; KIP-580)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

JITTER = 0.2


class Backoff(NamedTuple):
    """Doubles from ``first_ms`` to ``last_ms``, give or take 20 %.

    ``dice`` gives numbers from 0 to 1 (`random.random`), so that clients that failed together do
    not come back together.
    """

    first_ms: float
    last_ms: float
    dice: Callable[[], float]

    def seconds(self, attempt: int) -> float:
        """The pause before retry number ``attempt`` (the first is 0)."""
        exponent = min(attempt, 32)  # 2**32 ms is longer than any limit, and no float overflows
        pause_ms = min(self.first_ms * (1 << exponent), self.last_ms)
        return pause_ms * (1 - JITTER + 2 * JITTER * self.dice()) / 1000
