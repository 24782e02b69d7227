"""Log lines about what strangers do: they can do it often, so the log gets a summary."""

from __future__ import annotations

import logging
from typing import Final

from .clock import Clock

INTERVAL_SECONDS: Final = 10.0
KINDS_MAX: Final = 256


class Summaries:
    """Logs the first event of a kind at once, and then at most one in ten seconds."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._kinds: dict[str, tuple[float, int]] = {}

    def warn(self, kind: str, text: str) -> None:
        """Log a text, unless one of its kind was logged a moment ago; then count it."""
        now = self._clock.monotonic()
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        next_time, left_out = self._kinds.get(kind, (now, 0))
        if now < next_time:
            self._kinds[kind] = (next_time, left_out + 1)
            return
        self._kinds[kind] = (now + INTERVAL_SECONDS, 0)
        if left_out:
            text = f"{text} (and {left_out} more like this before)"
        self._logger.warning("%s", text)
