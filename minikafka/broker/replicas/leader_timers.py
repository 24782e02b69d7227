"""Timers of the partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from ...replication import LeaderReplica, Pending
from .partition import Partition

_CHECK_SECONDS_MAX = 2.5
_PARTITIONS_PER_CHECKPOINT = 64


class LeaderTimers:
    """Calls `Partition.expire`: for all leaders periodically, for some at their deadlines."""

    def __init__(
        self,
        partitions: Mapping[tuple[str, int], Partition],
        lag_time_max_s: float,
        now: Callable[[], float],
    ) -> None:
        self._partitions = partitions
        self._period_s = min(lag_time_max_s / 4, _CHECK_SECONDS_MAX)
        self._now = now
        self._watched: dict[Partition, None] = {}
        self._added = trio.Event()

    def add(self, partition: Partition) -> None:
        """Watch a leader that waits for an answer, or hands over, until that is settled."""
        self._watched[partition] = None
        self._added.set()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._check_all)
            nursery.start_soon(self._check_deadlines)

    async def _check_all(self) -> None:
        """Let leaders look for lagging followers, as often as it matters."""
        while True:
            await trio.sleep(self._period_s)
            for count, partition in enumerate(self._led()):
                partition.expire()
                if count % _PARTITIONS_PER_CHECKPOINT == 0:
                    await trio.lowlevel.checkpoint()

    def _led(self) -> list[Partition]:
        partitions = self._partitions.values()
        return [one for one in partitions if one.leader is not None and not one.is_alone]

    async def _check_deadlines(self) -> None:
        while True:
            deadlines = {
                partition: partition.leader.deadline()
                for partition in self._watched
                if partition.leader is not None and _is_unsettled(partition.leader)
            }
            self._watched = dict.fromkeys(deadlines)
            times = [one for one in deadlines.values() if one is not None]
            with trio.move_on_at(min(times, default=float("inf"))):
                await self._added.wait()
            self._added = trio.Event()
            now = self._now()
            for partition, deadline in deadlines.items():
                if deadline is not None and deadline <= now:
                    partition.expire()


def _is_unsettled(leader: LeaderReplica) -> bool:
    return isinstance(leader.isr, Pending) or leader.hand_over is not None
