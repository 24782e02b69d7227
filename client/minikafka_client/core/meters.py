"""Counts what happens, in memory that does not grow: rates over a window, latencies by size."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from minikafka_client.errors import KafkaError
from minikafka_client.statistics import WINDOW_S, BrokerStatistics, Latencies, Rates

_STEP: Final = 1.1
"""Each class of latencies ends at 1.1 times the end of the one before."""
_SHORTEST_S: Final = 1e-5
_CLASSES: Final = 200
"""From 10 microseconds to half an hour; longer ones are in the last class."""
_PER_FACTOR: Final = 1 / math.log(_STEP)

NO_LATENCIES: Final = Latencies(0, 0.0, 0.0, 0.0, 0.0)


class RateMeter:
    """Adds up records and bytes, second by second."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self._seconds: deque[tuple[int, int, int]] = deque()  # second, and both counts at its start
        self._began_at = math.nan

    def add(self, records: int, size_bytes: int, now: float) -> None:
        second = int(now)
        if not self._seconds or self._seconds[-1][0] < second:
            if not self._seconds:
                self._began_at = now
            self._seconds.append((second, self.records, self.size_bytes))
            self._forget(now)
        self.records += records
        self.size_bytes += size_bytes

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - WINDOW_S:
            self._seconds.popleft()

    def rates(self, now: float) -> Rates:
        self._forget(now)
        if not self._seconds:
            return Rates(0.0, 0.0)
        _, records, size_bytes = self._seconds[0]
        # A burst does not continue for a second.
        elapsed_s = max(1.0, min(float(WINDOW_S), now - self._began_at))
        return Rates(
            (self.records - records) / elapsed_s, (self.size_bytes - size_bytes) / elapsed_s
        )


class _Generation:
    __slots__ = ("classes", "longest_s", "total_s")

    def __init__(self) -> None:
        self.classes = [0] * _CLASSES
        self.total_s = 0.0
        self.longest_s = 0.0


class LatencyMeter:
    """A histogram with classes that grow by a tenth; the last one or two windows of it."""

    def __init__(self) -> None:
        self._now = _Generation()
        self._before = _Generation()
        self._ends_at = -math.inf

    def add(self, seconds: float, now: float) -> None:
        if now >= self._ends_at:
            self._turn(now)
        current = self._now
        index = 0
        if seconds > _SHORTEST_S:
            index = math.ceil(math.log(seconds / _SHORTEST_S) * _PER_FACTOR)
        current.classes[index if index < _CLASSES else -1] += 1
        current.total_s += seconds
        if seconds > current.longest_s:
            current.longest_s = seconds

    def _turn(self, now: float) -> None:
        # Both are too old if nothing was asked for a whole window.
        is_next = now < self._ends_at + WINDOW_S
        self._before = self._now if is_next else _Generation()
        self._now = _Generation()
        self._ends_at = now + WINDOW_S

    def latencies(self, now: float) -> Latencies:
        return joined_latencies([self], now)

    def generations(self, now: float) -> tuple[_Generation, _Generation]:
        if now >= self._ends_at:
            self._turn(now)
        return self._now, self._before


def joined_latencies(meters: list[LatencyMeter], now: float) -> Latencies:
    generations = [each for meter in meters for each in meter.generations(now)]
    if not generations:
        return NO_LATENCIES
    counts = [sum(column) for column in zip(*(each.classes for each in generations), strict=True)]
    count = sum(counts)
    if not count:
        return NO_LATENCIES
    longest_ms = max(each.longest_s for each in generations) * 1000
    totals = list(accumulate(counts))

    def quantile_ms(share: float) -> float:
        index = next(i for i, total in enumerate(totals) if total >= share * count)
        return min(_SHORTEST_S * _STEP**index * 1000, longest_ms)

    mean_ms = sum(each.total_s for each in generations) / count * 1000
    return Latencies(count, mean_ms, quantile_ms(0.5), quantile_ms(0.95), longest_ms)


class RequestMeter:
    """Counts the requests of one kind (Produce, Fetch), by broker."""

    def __init__(self) -> None:
        self.requests = 0
        self._latencies: dict[int, LatencyMeter] = {}
        self._in_flight: Counter[int] = Counter()

    def sent(self, node: int) -> None:
        self.requests += 1
        self._in_flight[node] += 1

    def answered(self, node: int, seconds: float, now: float) -> None:
        self._in_flight[node] -= 1
        meter = self._latencies.get(node)
        if meter is None:
            meter = self._latencies[node] = LatencyMeter()
        meter.add(seconds, now)

    def lost(self, node: int) -> None:
        self._in_flight[node] -= 1

    @property
    def in_flight(self) -> int:
        return self._in_flight.total()

    def latencies(self, now: float) -> Latencies:
        return joined_latencies(list(self._latencies.values()), now)

    def brokers(self, now: float) -> Mapping[int, BrokerStatistics]:
        return {
            node: BrokerStatistics(
                self._in_flight[node],
                self._latencies[node].latencies(now) if node in self._latencies else NO_LATENCIES,
            )
            for node in sorted(self._in_flight)
        }


def error_name(error: KafkaError) -> str:
    """The name under which an error is counted: Kafka's own, or that of its class."""
    return type(error).__name__ if error.code is None else error.code.name
