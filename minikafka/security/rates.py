"""How much of something was used lately, in Kafka's two ways of counting.

A `SampledRate` is the average over the last windows of time; a `TokenBucket` is a credit that
fills up steadily and is used up by what happens. Both are told the time in seconds.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

__all__ = ["SampledRate", "TokenBucket", "Windows"]


class Windows(NamedTuple):
    """The time that a rate looks back on: ``number`` windows, the present one included."""

    number: int
    seconds: float

    @property
    def span_seconds(self) -> float:
        """What is older than this counts for nothing."""
        return self.number * self.seconds


class _Sample:
    """What was used in one window; ``started`` and ``ended`` are its first and last use."""

    __slots__ = ("amount", "ended", "started")

    def __init__(self, now: float) -> None:
        self.amount = 0.0
        self.started = now
        self.ended = now


class SampledRate:
    """An average over windows of time, as Kafka computes byte rates.

    The time divided by is at least that of all windows but the present one: a client that has just
    come may use so much at once as it may in that time.

    Args:
        windows: how far it looks back.
    """

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, amount: float, now: float) -> None:
        """Count something, or take it back if it is negative."""
        samples = self._samples
        self._forget(now)
        if not samples or now - samples[-1].started >= self._windows.seconds:
            samples.append(_Sample(now))
        samples[-1].amount += amount
        samples[-1].ended = now

    def rate(self, now: float) -> float:
        """What was used per second."""
        return self._used(now) / self._elapsed(now)

    def excess_seconds(self, limit: float, now: float) -> float:
        """How long to wait until the rate is down at the limit; 0 if it is not above it."""
        rate = self.rate(now)
        return (rate - limit) / limit * self._elapsed(now) if rate > limit else 0.0

    def is_idle(self, now: float) -> bool:
        """Whether nothing of what happened counts any more, so that it may be forgotten."""
        self._forget(now)
        return not self._samples

    def _used(self, now: float) -> float:
        self._forget(now)
        return sum(sample.amount for sample in self._samples)

    def _elapsed(self, now: float) -> float:
        number, seconds = self._windows
        elapsed = now - self._samples[0].started if self._samples else 0.0
        missing = number - 1 - int(elapsed / seconds)
        return max(elapsed + max(missing, 0) * seconds, 0.001)

    def _forget(self, now: float) -> None:
        span = self._windows.span_seconds
        while self._samples and now - self._samples[0].ended >= span:
            self._samples.popleft()


class TokenBucket:
    """A credit for controller mutations (KIP-599): unlike a rate it does not remember a burst.

    It fills up at the quota's rate, up to what the quota allows in all windows together. It may be
    overdrawn by the last thing that is taken; nothing is given until that is paid back.

    Args:
        windows: how many seconds of the rate it holds.
    """

    __slots__ = ("_filled", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = float("inf")
        self._filled = 0.0

    def take(self, amount: float, rate: float, now: float) -> None:
        """Take tokens, also if there are not enough."""
        self._fill(rate, now)
        self._tokens -= amount

    def debt_seconds(self, rate: float, now: float) -> float:
        """How long it takes until the bucket is no longer overdrawn; 0 if it is not."""
        self._fill(rate, now)
        return max(0.0, -self._tokens / rate)

    def is_idle(self, now: float) -> bool:
        """Whether it has been left alone for as long as an empty one needs to fill up."""
        return now - self._filled >= self._windows.span_seconds and self._tokens >= 0

    def _fill(self, rate: float, now: float) -> None:
        earned = rate * (now - self._filled)
        self._tokens = min(rate * self._windows.span_seconds, self._tokens + earned)
        self._filled = now
