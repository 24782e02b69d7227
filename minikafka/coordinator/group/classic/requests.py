"""All requests of the classic protocol, and what a shard does for classic groups by itself."""

from __future__ import annotations

from typing import ClassVar, assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat, join_group, leave_group, sync_group

from ..context import ShardContext, Timer, TimerKind
from ..effects import Ask
from ..group import Group
from .classic_group import ClassicGroup
from .join_requests import JoinRequests
from .leave_requests import LeaveRequests
from .rebalance import Rebalance
from .states import GroupState
from .sync_requests import SyncRequests

ClassicRequest = join_group.Request | sync_group.Request | heartbeat.Request | leave_group.Request


class ClassicRequests:
    TIMERS: ClassVar[frozenset[TimerKind]] = frozenset(
        {TimerKind.SESSION, TimerKind.JOIN, TimerKind.SYNC}
    )

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._rebalance = Rebalance(context)
        self._joins = JoinRequests(context, self._rebalance)
        self._syncs = SyncRequests(context, self._rebalance)
        self._leaves = LeaveRequests(context, self._rebalance)

    def handle(self, ask: Ask, request: ClassicRequest) -> None:
        """A request to a classic group, or about a group that does not exist."""
        match request:
            case heartbeat.Request():
                self._syncs.handle_heartbeat(ask, request)
            case join_group.Request():
                self._joins.handle(ask, request)
            case sync_group.Request():
                self._syncs.handle_sync(ask, request)
            case leave_group.Request():
                self._leaves.handle(ask, request)
            case _:
                assert_never(request)

    def is_active(self, group: Group, member_id: str) -> None:
        """A member has committed offsets, which is as good as a heartbeat."""
        if isinstance(group, ClassicGroup) and member_id in group.members:
            self._rebalance.restart_session(group, group.members[member_id])

    def fire(self, timer: Timer) -> None:
        group = self._rebalance.find(timer.group_id)
        if group is None:
            return
        match timer.kind:
            case TimerKind.SESSION:
                self._rebalance.on_session_timer(group, timer.member_id)
            case TimerKind.JOIN:
                self._rebalance.on_join_timer(group)
            case _:
                self._rebalance.on_sync_timer(group)

    # --- the log ---------------------------------------------------------------------------

    def loaded(self) -> None:
        """The whole log has been replayed: start the sessions of restored members."""
        size_max = self._context.config.group_max_size
        for group in list(self._context.groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                self._rebalance.restart_session(group, member)
            if len(group.members) > size_max:
                reason = f"{len(group.members)} members were stored, {size_max} are allowed"
                self._rebalance.start_or_continue(group, reason)

    def adopt(self, group_id: str) -> None:
        """A consumer group has become this classic group: its members rebalance."""
        group = self._rebalance.find(group_id)
        if group is not None and group.is_in(GroupState.STABLE):
            for member in group.members.values():
                self._rebalance.restart_session(group, member)
            self._rebalance.start_or_continue(group, "it was a consumer group")

    def release(self, group: ClassicGroup) -> None:
        """The group becomes a consumer group: its members have to join that."""
        self._rebalance.release(group, ErrorCode.REBALANCE_IN_PROGRESS)

    def resign(self) -> None:
        for group in self._context.groups.values():
            if isinstance(group, ClassicGroup):
                self._rebalance.release(group, ErrorCode.NOT_COORDINATOR)
