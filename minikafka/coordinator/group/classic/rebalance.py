"""The rebalance: two barriers (JoinGroup, SyncGroup), each followed by a write.

::

    JoinGroup* -> all joined, or timeout -> generation number stored -> JoinGroups answered
    SyncGroup* -> leader's arrived -> assignment stored -> SyncGroups answered, Stable

A rebalance without members leaves the group Empty immediately.

Every member that does not wait in JoinGroup or SyncGroup has a session timer. A member that leaves
the group while it waits is answered when it is removed, so every request gets an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from minikafka.protocol.errors import ErrorCode

from ..context import ShardContext, Timer, TimerKind
from ..write_errors import sync_write_error, write_error
from .classic_group import ClassicGroup, Member
from .records import GroupEntry
from .responses import join_accepted, join_refused, sync_accepted, sync_refused
from .states import TRANSITIONS, GroupState

_log = logging.getLogger(__name__)


class Rebalance:
    """Moves groups through a rebalance, and ends the sessions of silent members."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def find(self, group_id: str) -> ClassicGroup | None:
        """A classic group; None if there is none."""
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # --- the first barrier: JoinGroup ------------------------------------------------------

    def start_or_continue(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance; if one is already collecting members, complete it if possible."""
        if GroupState.PREPARING_REBALANCE in TRANSITIONS[group.state]:
            self._start(group, reason)
        else:
            self.continue_join(group)

    def continue_join(self, group: ClassicGroup) -> None:
        """Complete the join if all members have joined; otherwise make sure that it times out."""
        is_collecting = group.is_in(GroupState.PREPARING_REBALANCE) and not group.is_join_closing
        if not is_collecting or group.is_first_rebalance:
            return
        if group.have_all_joined():
            self._complete_join(group)
        elif _join_timer(group) not in self._context.timers:
            self._await_joins(group)

    def on_join_timer(self, group: ClassicGroup) -> None:
        """The time to join is over, unless a first rebalance is still attracting members."""
        if group.is_first_rebalance and group.has_grown and group.first_rebalance_remaining_ms:
            delay_ms = min(
                self._context.config.group_initial_rebalance_delay_ms,
                group.first_rebalance_remaining_ms,
            )
            group.has_grown = False
            group.first_rebalance_remaining_ms -= delay_ms
            self._context.start_timer(_join_timer(group), delay_ms)
        else:
            self._complete_join(group)

    def _start(self, group: ClassicGroup, reason: str) -> None:
        _log.info(
            "group %s leaves %s with generation %d for a rebalance: %s",
            group.group_id,
            group.state.value,
            group.generation,
            reason,
        )
        self._refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._context.timers.cancel(_sync_timer(group))
        group.is_first_rebalance = group.is_in(GroupState.EMPTY)
        group.move_to(GroupState.PREPARING_REBALANCE)
        if group.is_first_rebalance:
            delay_ms = self._context.config.group_initial_rebalance_delay_ms
            group.has_grown = False
            group.first_rebalance_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            self._context.start_timer(_join_timer(group), delay_ms)
        else:
            self.continue_join(group)

    def _await_joins(self, group: ClassicGroup) -> None:
        self._context.start_timer(_join_timer(group), group.rebalance_timeout_ms())

    def _complete_join(self, group: ClassicGroup) -> None:
        """Drop members that have not joined, and store the next generation's number."""
        self._context.timers.cancel(_join_timer(group))
        group.is_first_rebalance = False
        for member in list(group.members.values()):
            # A static member may come back until its session ends (KIP-345).
            if member.waiting_join is None and member.group_instance_id is None:
                self.remove_member(group, member)
        if group.members and not group.elect_joined_leader():
            self._await_joins(group)
            return
        stored = group.next_generation_to_store(self._context.now.wall_ms)
        done: Callable[[ErrorCode], None] = partial(self._join_closed, group)
        if group.members:
            group.is_join_closing = True
        else:
            # No JoinGroup waits for the number: as in Kafka the group is Empty before it is stored.
            self._become_empty(group)
            done = _ignore
        self._context.append([GroupEntry(group.group_id, stored)], done)

    def _join_closed(self, group: ClassicGroup, error: ErrorCode) -> None:
        group.is_join_closing = False
        if group.is_in(GroupState.DEAD):
            return  # it has become a consumer group, and its members were told to rebalance
        if error is not ErrorCode.NONE:
            self._join_failed(group, write_error(error))
        elif not group.members:  # they left while it was being stored
            self._become_empty(group)
        elif not group.elect_joined_leader():
            self._await_joins(group)  # all members that had joined have left again
        else:
            self._begin_generation(group)

    def _join_failed(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            waiter = group.release_join(member)
            if waiter is not None:
                response = join_refused(waiter.api_version, error, member.member_id)
                self._context.reply(waiter.token, response)
            member.is_new = False  # it must join again within its session timeout
            self.restart_session(group, member)
        if group.members:
            self._await_joins(group)
        else:
            self._become_empty(group)

    def _become_empty(self, group: ClassicGroup) -> None:
        # Even if it is not stored: offsets must not expire by a time before the group was in use.
        group.current_state_timestamp_ms = self._context.now.wall_ms
        group.protocol_name = None
        group.compute_subscribed_topics()
        group.move_to(GroupState.EMPTY)

    def _begin_generation(self, group: ClassicGroup) -> None:
        group.protocol_name = group.select_protocol()
        group.compute_subscribed_topics()
        group.is_assignment_stored = False
        group.move_to(GroupState.COMPLETING_REBALANCE)
        for member in group.members.values():
            group.pending_sync.add(member.member_id)
            member.is_new = False
            waiter = group.release_join(member)
            if waiter is not None:
                member.generation = group.generation
                is_leader = member.member_id == group.leader_id
                response = join_accepted(group, member, shows_members=is_leader)
                self._context.reply(waiter.token, response)
            self.restart_session(group, member)
        self._context.start_timer(_sync_timer(group), group.rebalance_timeout_ms())

    # --- the second barrier: SyncGroup -----------------------------------------------------

    def store_assignment(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Store the leader's assignment; members that it left out get an empty one."""
        group.is_assignment_stored = True
        stored = group.to_store(
            self._context.now.wall_ms, lambda member: assignments.get(member.member_id, b"")
        )
        self._context.append(
            [GroupEntry(group.group_id, stored)],
            partial(self._assignment_stored, group, group.generation),
        )

    def _assignment_stored(self, group: ClassicGroup, generation: int, error: ErrorCode) -> None:
        if not group.is_in(GroupState.COMPLETING_REBALANCE) or group.generation != generation:
            return  # the next rebalance has begun, and has answered the waiting SyncGroups
        if error is not ErrorCode.NONE:
            self._refuse_syncs(group, sync_write_error(error))
            self.start_or_continue(group, f"{error.name} while storing its assignment")
            return
        group.move_to(GroupState.STABLE)
        for member in group.members.values():
            waiter, member.waiting_sync = member.waiting_sync, None
            if waiter is not None:
                self._context.reply(waiter.token, sync_accepted(group, member))
            self.restart_session(group, member)

    def sync_received(self, group: ClassicGroup, member: Member) -> None:
        """A member has sent SyncGroup; once all have, the timer that drops late ones stops."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._context.timers.cancel(_sync_timer(group))

    def on_sync_timer(self, group: ClassicGroup) -> None:
        """Drop members that joined but did not send SyncGroup."""
        late = [m for m in group.members.values() if m.member_id in group.pending_sync]
        for member in late:
            self.remove_member(group, member)
        self.start_or_continue(group, f"{len(late)} members did not send SyncGroup in time")

    def _refuse_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            waiter, member.waiting_sync = member.waiting_sync, None
            if waiter is not None:
                self._context.reply(waiter.token, sync_refused(error))
                self.restart_session(group, member)

    def release(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer all JoinGroups and SyncGroups that wait."""
        for member in group.members.values():
            waiter = group.release_join(member)
            if waiter is not None:
                refusal = join_refused(waiter.api_version, error, member.member_id)
                self._context.reply(waiter.token, refusal)
        self._refuse_syncs(group, error)

    # --- members and their sessions --------------------------------------------------------

    def restart_session(
        self, group: ClassicGroup, member: Member, timeout_ms: int | None = None
    ) -> None:
        self._context.start_timer(
            session_timer(group, member.member_id),
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def remove_member(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member, and answer its waiting request with UNKNOWN_MEMBER_ID."""
        join_waiter = group.release_join(member)
        sync_waiter, member.waiting_sync = member.waiting_sync, None
        group.remove(member.member_id)
        self._context.timers.cancel(session_timer(group, member.member_id))
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if join_waiter is not None:
            self._context.reply(join_waiter.token, join_refused(join_waiter.api_version, error))
        if sync_waiter is not None:
            self._context.reply(sync_waiter.token, sync_refused(error))

    def remove_pending_member(self, group: ClassicGroup, member_id: str) -> None:
        """Forget a member id that was handed out; a rebalance no longer waits for it."""
        group.drop_pending(member_id)
        self._context.timers.cancel(session_timer(group, member_id))
        self.continue_join(group)

    def on_session_timer(self, group: ClassicGroup, member_id: str) -> None:
        """A session timed out; members that wait in JoinGroup or SyncGroup are not silent."""
        if member_id in group.pending_members:
            self.remove_pending_member(group, member_id)
            return
        member = group.members[member_id]
        is_waiting = member.waiting_join is not None or member.waiting_sync is not None
        if member.is_new or not is_waiting:
            self.remove_member(group, member)
            self.start_or_continue(group, f"the session of member {member_id} ended")


def session_timer(group: ClassicGroup, member_id: str) -> Timer:
    return Timer(TimerKind.SESSION, group.group_id, member_id)


def _ignore(_error: ErrorCode) -> None:
    pass


def _join_timer(group: ClassicGroup) -> Timer:
    return Timer(TimerKind.JOIN, group.group_id)


def _sync_timer(group: ClassicGroup) -> Timer:
    return Timer(TimerKind.SYNC, group.group_id)
