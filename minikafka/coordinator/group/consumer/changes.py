"""Carries out decisions about consumer groups: writes them, and keeps the timers of members."""

from __future__ import annotations

import logging
from collections.abc import Callable

from minikafka.protocol.errors import ErrorCode

from ..classic.classic_group import ClassicGroup
from ..classic.requests import ClassicRequests
from ..context import ShardContext, Timer, TimerKind
from .assignors import ASSIGNORS, Assignor
from .consumer_group import ConsumerGroup
from .draft import Draft
from .member import ConsumerMember, MemberState
from .migration import CannotUpgradeError, downgraded, upgraded
from .responses import Refusal

_log = logging.getLogger(__name__)

_MEMBER_TIMERS = (
    TimerKind.CONSUMER_SESSION,
    TimerKind.CONSUMER_REBALANCE,
    TimerKind.CONSUMER_JOIN,
    TimerKind.CONSUMER_SYNC,
)


class Changes:
    def __init__(self, context: ShardContext, classic: ClassicRequests) -> None:
        self._context = context
        self._classic = classic

    def find(self, group_id: str) -> ConsumerGroup | None:
        """A consumer group; None if there is none."""
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def write(self, draft: Draft, done: Callable[[ErrorCode], None]) -> None:
        """Store a decision; ``done`` when it, and all that it is based on, is committed."""
        if draft.entries:
            self._context.append(draft.entries, done)
        else:
            self._context.when_stored(done)

    # --- assignments -----------------------------------------------------------------------

    def assign(self, draft: Draft) -> None:
        """Bring the target assignment to the group epoch, with the assignor that members prefer."""
        draft.assign(self._assignor(draft.group), self._context.topics)

    def _assignor(self, group: ConsumerGroup) -> Assignor:
        names = self._context.config.consumer_assignors
        return ASSIGNORS[group.preferred_assignor(names.__contains__, names[0])]

    def look_at_topics(self, group: ConsumerGroup) -> None:
        """Topics may have changed: raise the group epoch if the group reads one that has."""
        if group.members:
            draft = Draft(group)
            draft.raise_epoch(self._context.topics, is_changed=False)
            self._store_topics(draft)

    def set_regex(self, group: ConsumerGroup, resolved: dict[str, frozenset[str]]) -> None:
        """The topics that regular expressions of the group match are these now."""
        draft = Draft(group)
        now_ms = self._context.now.wall_ms
        changes = [
            draft.resolve(regex, topics, now_ms)
            for regex, topics in resolved.items()
            if group.uses_regex(regex)
        ]
        draft.raise_epoch(self._context.topics, is_changed=any(changes))
        self._store_topics(draft)

    def _store_topics(self, draft: Draft) -> None:
        """Store what follows from new topics; if that fails, the next heartbeat looks again."""

        def done(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self.look_later(draft.group.group_id)

        if draft.entries:
            self.write(draft, done)

    def look_later(self, group_id: str) -> None:
        group = self.find(group_id)
        if group is not None:
            group.must_look_at_topics = True

    # --- the end of a member ---------------------------------------------------------------

    def fence(
        self, group: ConsumerGroup, member: ConsumerMember, done: Callable[[ErrorCode], None]
    ) -> None:
        """Take a member out of its group: all others may have its partitions."""
        if self._may_downgrade(group, member.member_id) and self._downgrade(
            group, member.member_id, done
        ):
            return
        draft = Draft(group)
        draft.remove(member.member_id)
        draft.raise_epoch(self._context.topics, is_changed=True)
        self.write(draft, done)

    # --- migration -------------------------------------------------------------------------

    def upgrade(self, group: ClassicGroup) -> Draft:
        """A classic group as a consumer group.

        Raises:
            Refusal: it may not become one.
        """
        config = self._context.config
        reason = None
        if not group.members and not group.pending_members:
            pass  # it has nothing but offsets
        elif not config.allows_upgrade:
            reason = "group.consumer.migration.policy does not allow it"
        elif not group.uses_consumer_protocol():
            reason = f"its protocol type is {group.protocol_type!r}"
        elif len(group.members) > config.consumer_max_size:
            reason = f"it has {len(group.members)} members"
        if reason is None:
            try:
                return upgraded(group, self._context.topics)
            except CannotUpgradeError as error:
                reason = str(error)
        message = f"Group {group.group_id} cannot become a consumer group: {reason}."
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)

    def release_classic(self, group_id: str) -> bool:
        """Answer what waits in a classic group that is about to become a consumer group.

        Returns:
            Whether it is one.
        """
        group = self._context.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            self._classic.release(group)
            return True
        return False

    def delete(self, group: ConsumerGroup) -> None:
        self._context.append(group.tombstones(), _ignore)

    def _may_downgrade(self, group: ConsumerGroup, leaving_id: str) -> bool:
        config = self._context.config
        return (
            config.allows_downgrade
            and 1 < len(group.members) <= config.group_max_size + 1
            and not group.members[leaving_id].is_classic
            and group.has_only_classic_members_without(leaving_id)
        )

    def _downgrade(
        self, group: ConsumerGroup, leaving_id: str, done: Callable[[ErrorCode], None]
    ) -> bool:
        group_id, member_ids = group.group_id, list(group.members)
        now_ms = self._context.now.wall_ms
        entries = downgraded(group, leaving_id, self._context.topics, now_ms)
        if entries is None:
            return False

        def stored(error: ErrorCode) -> None:
            if self.find(group_id) is None:  # it is in the log, if perhaps not committed yet
                for member_id in member_ids:
                    self.cancel_timers(group_id, member_id)
                self._classic.adopt(group_id)
            done(error)

        self._context.append(entries, stored)
        return True

    # --- timers ----------------------------------------------------------------------------

    def restart_session(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        classic = member.subscription.classic
        settings = self._context.settings_of(group.group_id)
        timeout_ms = (
            settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        )
        timer = Timer(TimerKind.CONSUMER_SESSION, group.group_id, member.member_id)
        self._context.start_timer(timer, timeout_ms)

    def watch_revocation(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A member that has to give up partitions must do so in its rebalance timeout."""
        timer = Timer(TimerKind.CONSUMER_REBALANCE, group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            self._context.start_timer(timer, member.subscription.rebalance_timeout_ms)
        else:
            self._context.timers.cancel(timer)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for kind in _MEMBER_TIMERS:
            self._context.timers.cancel(Timer(kind, group_id, member_id))

    def on_timer(self, timer: Timer) -> None:
        """A member was silent, or did not give up its partitions, for too long."""
        group = self.find(timer.group_id)
        member = None if group is None else group.members.get(timer.member_id)
        if group is None or member is None:
            return
        if (
            timer.kind is TimerKind.CONSUMER_REBALANCE
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            return
        _log.info(
            "group %s fences member %s: its %s timeout has passed",
            timer.group_id,
            timer.member_id,
            timer.kind.name.removeprefix("CONSUMER_").lower(),
        )

        def done(error: ErrorCode) -> None:
            current = self.find(timer.group_id)
            is_left = current is not None and timer.member_id in current.members
            if error is not ErrorCode.NONE and is_left:
                self._context.start_timer(timer, self._context.config.offset_commit_timeout_ms)
            elif not is_left:
                self.cancel_timers(timer.group_id, timer.member_id)

        self.fence(group, member, done)


def _ignore(_error: ErrorCode) -> None:
    pass
