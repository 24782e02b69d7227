"""All requests to streams groups, and what a shard does for them by itself."""

from __future__ import annotations

from typing import ClassVar

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import streams_group_describe, streams_group_heartbeat

from ..context import ShardContext, Timer, TimerKind
from ..effects import Ask
from .changes import Changes
from .heartbeats import Heartbeats
from .responses import described, not_described
from .streams_group import StreamsGroup


class StreamsRequests:
    TIMERS: ClassVar[frozenset[TimerKind]] = frozenset(
        {TimerKind.STREAMS_SESSION, TimerKind.STREAMS_REBALANCE, TimerKind.STREAMS_INITIAL}
    )

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._changes = Changes(context)
        self._heartbeats = Heartbeats(context, self._changes)

    def handle(self, ask: Ask, request: streams_group_heartbeat.Request) -> None:
        self._heartbeats.handle(ask, request)

    def describe(self, group_id: str) -> streams_group_describe.DescribedGroup:
        error = self._context.phase.value
        if error is not ErrorCode.NONE:
            return not_described(group_id, error)
        group = self._context.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            what = "not found" if group is None else "is not a streams group"
            message = f"Group {group_id} {what}."
            return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)
        return described(group)

    def forget_empty(self, group: StreamsGroup) -> None:
        """A classic group takes the place of one that has no members."""
        self._changes.delete(group)

    def rebalance(self, group: StreamsGroup) -> None:
        """Raise the group epoch, so that everything is assigned once more."""
        self._changes.assign_again(group)

    def fire(self, timer: Timer) -> None:
        self._changes.on_timer(timer)

    def loaded(self) -> None:
        """The whole log has been replayed: start the timers of restored members."""
        for group in self._context.groups.values():
            if isinstance(group, StreamsGroup):
                for member in group.members.values():
                    self._changes.restart_session(group.group_id, member.member_id)
                    self._changes.watch_revocation(group.group_id, member)

    def resign(self) -> None:
        """Nothing to do: heartbeats wait for writes only, and those were answered."""
