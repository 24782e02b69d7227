"""All requests to consumer groups, and what a shard does for them by itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from minikafka.protocol.messages import consumer_group_heartbeat

from ..classic.requests import ClassicRequest, ClassicRequests
from ..context import ShardContext, Timer, TimerKind
from ..effects import Ask
from .changes import Changes
from .classic_members import ClassicMembers
from .consumer_group import ConsumerGroup
from .heartbeats import Heartbeats
from .regex import compile_regex


class ConsumerRequests:
    TIMERS: ClassVar[frozenset[TimerKind]] = frozenset(
        {
            TimerKind.CONSUMER_SESSION,
            TimerKind.CONSUMER_REBALANCE,
            TimerKind.CONSUMER_JOIN,
            TimerKind.CONSUMER_SYNC,
        }
    )

    def __init__(self, context: ShardContext, classic: ClassicRequests) -> None:
        self._context = context
        self._changes = Changes(context, classic)
        self._heartbeats = Heartbeats(context, self._changes)
        self._classic_members = ClassicMembers(context, self._changes)

    def handle(self, ask: Ask, request: consumer_group_heartbeat.Request) -> None:
        self._heartbeats.handle(ask, request)

    def handle_classic(self, ask: Ask, request: ClassicRequest, group: ConsumerGroup) -> None:
        """A request of the classic protocol to a consumer group that has members."""
        self._classic_members.handle(ask, request, group)

    def forget_empty(self, group: ConsumerGroup) -> None:
        """A classic group takes the place of one that has no members."""
        self._changes.delete(group)

    def fire(self, timer: Timer) -> None:
        self._changes.on_timer(timer)

    def rebalance(self, group: ConsumerGroup) -> None:
        """Raise the group epoch, so that everything is assigned once more."""
        self._changes.assign_again(group)

    def _groups(self) -> list[ConsumerGroup]:
        return [one for one in self._context.groups.values() if isinstance(one, ConsumerGroup)]

    # --- topics ----------------------------------------------------------------------------

    def topics_changed(self, names: Collection[str]) -> None:
        """Topics were created or deleted, or have more partitions."""
        for group in self._groups():
            if group.regexes:
                self._match_again(group, names)
            elif not group.subscribed_topics.isdisjoint(names):
                self._changes.look_at_topics(group)

    def _match_again(self, group: ConsumerGroup, names: Collection[str]) -> None:
        resolved: dict[str, frozenset[str]] = {}
        gone = {name for name in names if self._context.topics.by_name(name) is None}
        for regex, before in group.regexes.items():
            if not self._context.config.matches_topics:
                resolved[regex] = before.topics - gone
                self._context.match(group.group_id, regex)
                continue
            matches = compile_regex(regex)
            found = frozenset(names) - gone
            resolved[regex] = before.topics - frozenset(names) | frozenset(filter(matches, found))
        self._changes.set_regex(group, resolved)

    def matched(self, group_id: str, regex: str, topics: frozenset[str]) -> None:
        """The answer to a `Match`."""
        group = self._changes.find(group_id)
        if group is not None and group.uses_regex(regex):
            self._changes.set_regex(group, {regex: topics})

    # --- the life of the shard -------------------------------------------------------------

    def loaded(self) -> None:
        """The whole log has been replayed: start the timers of restored members."""
        for group in self._groups():
            for member in group.members.values():
                self._changes.restart_session(group, member)
                self._changes.watch_revocation(group, member)
            for regex in group.regexes:
                self._context.match(group.group_id, regex)
            if not group.regexes:
                self._changes.look_at_topics(group)

    def resign(self) -> None:
        """Nothing to do: heartbeats wait for writes only, and those were answered."""
