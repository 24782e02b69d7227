"""The clock of the partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from ..replication import LeaderReplica, Pending
from .partition import Partition

if TYPE_CHECKING:
    from .replicas import Replicas

_CHECK_SECONDS_MAX = 2.5
_PARTITIONS_PER_CHECKPOINT = 64


class LeaderWatch:
    """Lets leaders' machines look at the time: all now and then, some when they want to."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._watched: dict[Partition, None] = {}
        self._news = trio.Event()

    def add(self, partition: Partition) -> None:
        """A leader waits for an answer, or hands over: it is called when it wants to be."""
        self._watched[partition] = None
        self._news.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_followers)
            nursery.start_soon(self._watch_deadlines)

    async def _watch_followers(self) -> None:
        """Let leaders look for followers that lag, as often as it matters."""
        period_s = min(self._replicas.lag_time_max_s / 4, _CHECK_SECONDS_MAX)
        while True:
            await trio.sleep(period_s)
            for count, partition in enumerate(self._led()):
                partition.expire()
                if count % _PARTITIONS_PER_CHECKPOINT == 0:
                    await trio.lowlevel.checkpoint()

    def _led(self) -> Iterable[Partition]:
        partitions = self._replicas.partitions.values()
        return [one for one in partitions if one.leader is not None and not one.is_alone]

    async def _watch_deadlines(self) -> None:
        while True:
            deadlines = {
                partition: partition.leader.deadline()
                for partition in self._watched
                if partition.leader is not None and _is_unsettled(partition.leader)
            }
            self._watched = dict.fromkeys(deadlines)
            times = [one for one in deadlines.values() if one is not None]
            with trio.move_on_at(min(times, default=float("inf"))):
                await self._news.wait()
            self._news = trio.Event()
            now = self._replicas.now()
            for partition, deadline in deadlines.items():
                if deadline is not None and deadline <= now:
                    partition.expire()


def _is_unsettled(leader: LeaderReplica) -> bool:
    """Whether a leader waits for an answer, or hands over: its deadlines are soon."""
    return isinstance(leader.isr, Pending) or leader.hand_over is not None
