"""Carries out decisions about streams groups: writes them, and keeps the timers of members."""

from __future__ import annotations

import logging
from collections.abc import Callable

from minikafka.protocol.errors import ErrorCode

from ..classic.classic_group import ClassicGroup
from ..context import ShardContext, Timer, TimerKind
from .draft import STANDBYS, TAGS, Draft
from .internal_topics import Configured, InvalidTopologyError, Problem, Status
from .member import MemberState, StreamsMember
from .responses import Refusal
from .streams_group import StreamsGroup

_log = logging.getLogger(__name__)

_MEMBER_TIMERS = (TimerKind.STREAMS_SESSION, TimerKind.STREAMS_REBALANCE)


class Changes:
    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def find(self, group_id: str) -> StreamsGroup | None:
        """A streams group; None if there is none."""
        group = self._context.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def replace_classic(self, group: ClassicGroup) -> Draft:
        """A streams group in place of a classic group.

        Raises:
            Refusal: the classic group has members.
        """
        if group.members or group.pending_members:
            raise Refusal(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group.group_id} is a classic group with members, so it cannot become a "
                "streams group: stop them first.",
            )
        return Draft(StreamsGroup(group.group_id), group.tombstones())

    def write(self, draft: Draft, done: Callable[[ErrorCode], None]) -> None:
        """Store a decision; ``done`` when it, and all that it is based on, is committed."""
        if draft.entries:
            self._context.append(draft.entries, done)
        else:
            self._context.when_stored(done)

    def delete(self, group: StreamsGroup) -> None:
        self._context.append(group.tombstones(), _ignore)

    # --- assignments -----------------------------------------------------------------------

    def configs(self, group_id: str) -> dict[str, str]:
        """The settings of a group that its assignment depends on, as they are stored."""
        settings = self._context.settings_of(group_id)
        configs = {STANDBYS: str(settings.streams_num_standby_replicas)}
        if settings.streams_tags:
            configs[TAGS] = ",".join(settings.streams_tags)
        return configs

    def raise_epoch(self, draft: Draft, *, is_changed: bool) -> Configured:
        """Raise the group epoch if something changed that the assignment depends on.

        Raises:
            Refusal: the topology could not run on any topics.
        """
        group, configs = draft.group, self.configs(draft.group.group_id)
        assert group.topology is not None
        try:
            metadata_hash, configured = group.configured(self._context.topics)
        except InvalidTopologyError as error:
            raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(error)) from error
        validated = group.topology.epoch if configured.is_ready else -1
        before = group.metadata_hash, group.validated_topology_epoch, group.configs
        if is_changed or before != (metadata_hash, validated, configs):
            draft.raise_epoch(configs, metadata_hash, validated)
        return configured

    def await_members(self, draft: Draft) -> None:
        """The first member of a group has come: others may follow, so do not assign yet.

        The assignment before (of epoch 1, if there never was one) stands until then.
        """
        delay_ms = self._context.settings_of(
            draft.group.group_id
        ).streams_initial_rebalance_delay_ms
        if not delay_ms:
            return
        if draft.group.epoch == 0:
            draft.raise_epoch(self.configs(draft.group.group_id))
            draft.set_assignment_epoch(0)
        timer = _initial(draft.group.group_id)
        if timer not in self._context.timers:
            self._context.start_timer(timer, delay_ms)

    def assign(self, draft: Draft, configured: Configured) -> Problem | None:
        """Bring the target assignment to the group epoch, unless that has to wait."""
        group, now_ms = draft.group, self._context.now.wall_ms
        if group.assignment_epoch >= group.epoch:
            return None
        if _initial(group.group_id) in self._context.timers:
            return Problem(
                Status.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            )
        interval_ms = self._context.settings_of(group.group_id).streams_assignment_interval_ms
        if group.assigned_at_ms <= now_ms < group.assigned_at_ms + interval_ms:
            return Problem(
                Status.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured assignment interval.",
            )
        draft.assign(configured, now_ms)
        return None

    def assign_again(self, group: StreamsGroup) -> None:
        draft = Draft(group)
        draft.raise_epoch(self.configs(group.group_id))
        self.write(draft, _ignore)

    def _initial_delay_passed(self, group: StreamsGroup) -> None:
        if not group.members or group.topology is None:
            return
        draft = Draft(group)
        try:
            configured = self.raise_epoch(draft, is_changed=False)
        except Refusal:
            return  # every heartbeat says so
        if self.assign(draft, configured) is None and draft.entries:
            self.write(draft, _ignore)

    # --- the end of a member ---------------------------------------------------------------

    def fence(
        self, group: StreamsGroup, member: StreamsMember, done: Callable[[ErrorCode], None]
    ) -> None:
        """Take a member out of its group: all others may have its tasks."""
        draft = Draft(group)
        draft.remove(member.member_id)
        draft.raise_epoch(group.configs)
        if not draft.group.members:
            draft.set_assignment_epoch(0)
        self.write(draft, done)

    # --- timers ----------------------------------------------------------------------------

    def restart_session(self, group_id: str, member_id: str) -> None:
        timeout_ms = self._context.settings_of(group_id).streams_session_timeout_ms
        self._context.start_timer(Timer(TimerKind.STREAMS_SESSION, group_id, member_id), timeout_ms)

    def watch_revocation(self, group_id: str, member: StreamsMember) -> None:
        """A member that has to give up tasks must do so in its rebalance timeout."""
        timer = Timer(TimerKind.STREAMS_REBALANCE, group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_TASKS:
            self._context.start_timer(timer, member.identity.rebalance_timeout_ms)
        else:
            self._context.timers.cancel(timer)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for kind in _MEMBER_TIMERS:
            self._context.timers.cancel(Timer(kind, group_id, member_id))

    def on_timer(self, timer: Timer) -> None:
        """A member was silent, or did not give up its tasks, for too long; or a delay is over."""
        group = self.find(timer.group_id)
        if group is None:
            return
        if timer.kind is TimerKind.STREAMS_INITIAL:
            self._initial_delay_passed(group)
            return
        member = group.members.get(timer.member_id)
        if member is None or (
            timer.kind is TimerKind.STREAMS_REBALANCE
            and member.state is not MemberState.UNREVOKED_TASKS
        ):
            return
        _log.info(
            "streams group %s fences member %s: its %s timeout has passed",
            timer.group_id,
            timer.member_id,
            timer.kind.name.removeprefix("STREAMS_").lower(),
        )

        def done(error: ErrorCode) -> None:
            current = self.find(timer.group_id)
            is_left = current is not None and timer.member_id in current.members
            if error is not ErrorCode.NONE and is_left:
                self._context.start_timer(timer, self._context.config.offset_commit_timeout_ms)
            elif not is_left:
                self.cancel_timers(timer.group_id, timer.member_id)

        self.fence(group, member, done)


def _initial(group_id: str) -> Timer:
    return Timer(TimerKind.STREAMS_INITIAL, group_id)


def _ignore(_error: ErrorCode) -> None:
    pass
