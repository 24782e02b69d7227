"""Requests to share groups."""

from __future__ import annotations

from typing import ClassVar

from ..context import ShardContext, Timer, TimerKind


class ShareRequests:
    """What a shard does for share groups: nothing yet."""

    TIMERS: ClassVar[frozenset[TimerKind]] = frozenset()

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def fire(self, timer: Timer) -> None:
        """One of `TIMERS` is due."""

    def loaded(self) -> None:
        """The whole log has been replayed: start the timers of restored groups."""

    def resign(self) -> None:
        """This broker no longer leads the partition: answer what waits."""
