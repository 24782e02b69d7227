"""A simulated clock, and a network that loses, delays, repeats and overtakes."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

TRACE_LINES_MAX = 4000


@dataclass(slots=True)
class Weather:
    """How bad it is; probabilities are per message, times in seconds."""

    loss: float = 0.0
    repetition: float = 0.0
    delay_s: float = 0.002
    detour: float = 0.0
    detour_s: float = 0.5
    fsync_s: float = 0.002
    slow_fsync: float = 0.0
    slow_fsync_s: float = 0.3


class World:
    """Time and what is going to happen in it.

    Attributes:
        now: Seconds.
        dice: Every choice comes from it.
        weather: How bad the network and the disks are.
        cuts: (from, to) pairs between which nothing gets through.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.dice = Random(seed)
        self.weather = Weather()
        self.cuts: set[tuple[int, int]] = set()
        self._queue: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = 0
        self._trace: deque[tuple[float, str, tuple[object, ...]]] = deque(maxlen=TRACE_LINES_MAX)

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        self._count += 1
        heapq.heappush(self._queue, (time, self._count, action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        self.at(self.now + delay_s, action, *arguments)

    def run_until(self, time: float) -> None:
        queue = self._queue
        while queue and queue[0][0] <= time:
            self.now, _, action, arguments = heapq.heappop(queue)
            action(*arguments)
        self.now = time

    def note(self, text: str, *arguments: object) -> None:
        """Remember what happened, for the trace of a run that fails."""
        self._trace.append((self.now, text, arguments))

    def trace(self, count: int = 150) -> str:
        lines = list(self._trace)[-count:]
        return "\n".join(f"{time:9.4f}  {text.format(*rest)}" for time, text, rest in lines)

    def whole_trace(self) -> str:
        return self.trace(TRACE_LINES_MAX)

    def end(self) -> None:
        """Nothing happens any longer, and nobody asks what did."""
        self._queue.clear()
        self._trace.clear()

    # --- links ---------------------------------------------------------------------------------

    def cut(self, pairs: set[tuple[int, int]], duration_s: float) -> None:
        """Let nothing through from the first to the second of each pair."""
        self.note("cut {}", sorted(pairs))
        self.cuts |= pairs
        self.after(duration_s, self.cuts.difference_update, pairs)

    def cut_one_way(self, node: int, others: Sequence[int], duration_s: float) -> None:
        other = self.dice.choice(others)
        pair = (node, other) if self.dice.random() < 0.5 else (other, node)
        self.cut({pair}, duration_s)

    def isolate(self, node: int, others: Sequence[int], duration_s: float) -> None:
        """Nothing reaches a node, nothing leaves it, or both."""
        inward = {(other, node) for other in others}
        outward = {(node, other) for other in others}
        self.cut(self.dice.choice((inward, outward, inward | outward)), duration_s)

    def split(self, nodes: Iterable[int], duration_s: float) -> None:
        """Divide the nodes into two halves."""
        side = {one: self.dice.random() < 0.5 for one in nodes}
        self.cut(
            {(one, other) for one in side for other in side if side[one] != side[other]},
            duration_s,
        )

    def heal(self) -> None:
        self.note("all links are healed")
        self.cuts.clear()

    # --- messages ------------------------------------------------------------------------------

    def deliver(
        self, sender: int, receiver: int, message: object, take: Callable[[int, object], None]
    ) -> None:
        weather = self.weather
        roll = self.dice.random
        if (sender, receiver) in self.cuts or roll() < weather.loss:
            self.note("{}->{} LOST {}", sender, receiver, message)
            return
        self.note("{}->{} {}", sender, receiver, message)
        copies = 2 if roll() < weather.repetition else 1
        for _ in range(copies):
            delay_s = 0.0002 + roll() * weather.delay_s
            if roll() < weather.detour:
                delay_s += roll() * weather.detour_s
            self.after(delay_s, take, sender, message)
