"""Replication throttles: how many bytes per second may pass for replicas that catch up (KIP-73)."""

from __future__ import annotations

from collections.abc import Mapping

from ...metadata.settings import Value

_BURST_SECONDS = 1.0


class Throttle:
    """A token bucket that may be overdrawn once.

    Replicas wait while it is empty. Bytes are taken out after they have passed, because their
    number is known only then.
    """

    __slots__ = ("_level_bytes", "_rate_bytes", "_updated_at")

    def __init__(self, rate_bytes: float) -> None:
        self._rate_bytes = rate_bytes
        self._level_bytes = rate_bytes * _BURST_SECONDS
        self._updated_at = 0.0

    def set_rate(self, rate_bytes: float) -> bool:
        """Set the rate, with a full bucket if it differs; returns whether it does."""
        if rate_bytes == self._rate_bytes:
            return False
        self._rate_bytes = rate_bytes
        self._level_bytes = rate_bytes * _BURST_SECONDS
        return True

    def _fill(self, now: float) -> None:
        passed = max(0.0, now - self._updated_at)
        self._updated_at = now
        full = self._rate_bytes * _BURST_SECONDS
        self._level_bytes = min(full, self._level_bytes + passed * self._rate_bytes)

    def wait_s(self, now: float) -> float:
        """Seconds until something may pass; 0 when it may now."""
        self._fill(now)
        return 0.0 if self._level_bytes > 0 else (1 - self._level_bytes) / self._rate_bytes

    def passed(self, size_bytes: int, now: float) -> None:
        """Take out what has passed."""
        self._fill(now)
        self._level_bytes -= size_bytes


def throttled_rate(broker_values: Mapping[str, Value], side: str) -> float:
    """Bytes per second that pass for throttled replicas; ``side`` is leader or follower."""
    rate = broker_values[f"{side}.replication.throttled.rate"]
    assert isinstance(rate, int)
    return rate
