"""The lab's network: every link keeps its order, and has its own dice.

Delays of one link do not depend on what others carry. So two cells with the same seed go the same
way until the moment at which they really differ, and can be shown side by side.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable
from random import Random

from minikafka.lab.simulation.kit.world import World

CLIENTS_FROM = 100
"""Addresses from here on are connections of clients; below are nodes, and the controller (0)."""
_DELAY_MIN_S = 0.0003


class _Link:
    """From one end to another.

    Attributes:
        roll: of its dice.
        free_at: when the message before has arrived: nothing overtakes it.
    """

    __slots__ = ("free_at", "roll")

    def __init__(self, seed: int) -> None:
        self.roll = Random(seed).random
        self.free_at = 0.0


class LabWorld(World):
    """A `World` whose links are like TCP: what arrives does so in order, and once.

    Attributes:
        lanes: by address of a client's connection, a small number of that client and node, which
            chooses the link's dice.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed
        self._links: dict[tuple[int, int], _Link] = {}
        self.lanes: dict[int, int] = {}
        self._times: list[float] = []
        self._routes: list[int] = []
        self._kinds: list[type[object]] = []

    def run_until(self, time: float) -> None:
        """Let everything happen up to a time."""
        queue = self._queue
        step = self._times.append
        while queue and queue[0][0] <= time:
            self.now, _, action, arguments = heapq.heappop(queue)
            step(self.now)
            action(*arguments)
        self.now = time

    def _link(self, sender: int, receiver: int) -> _Link:
        lanes = self.lanes
        ends = lanes.get(sender, sender), lanes.get(receiver, receiver)
        link = _Link((self._seed << 32) + (ends[0] << 16) + ends[1])
        self._links[sender, receiver] = link
        return link

    def deliver(
        self, sender: int, receiver: int, message: object, take: Callable[[int, object], None]
    ) -> None:
        """Send a message, or lose it in a cut."""
        self.carry(sender, receiver, message, take)

    def carry(
        self, sender: int, receiver: int, message: object, take: Callable[[int, object], None]
    ) -> float | None:
        """Send a message; returns when it arrives, None if it is lost in a cut."""
        self._routes.append(sender * 100_000 + receiver)
        self._kinds.append(type(message))
        if (sender, receiver) in self.cuts:
            self.note("{}->{} LOST {}", sender, receiver, message)
            return None
        self.note("{}->{} {}", sender, receiver, message)
        link = self._links.get((sender, receiver)) or self._link(sender, receiver)
        arrives = self.now + _DELAY_MIN_S + link.roll() * self.weather.delay_s
        if arrives <= link.free_at:
            arrives = link.free_at + 1e-6
        link.free_at = arrives
        self.at(arrives, take, sender, message)
        return arrives

    def end_of_link(self, sender: int, receiver: int) -> float:
        """When everything that was sent has arrived."""
        link = self._links.get((sender, receiver))
        return self.now if link is None else link.free_at

    def steps(self) -> bytes:
        """The time of every step, and every message's way and kind."""
        times, routes = self._times, self._routes
        kinds = ",".join(kind.__name__ for kind in self._kinds).encode()
        return struct.pack(f"<{len(times)}d{len(routes)}q", *times, *routes) + kinds
