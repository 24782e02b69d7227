"""SyncGroup and Heartbeat: how a member gets its assignment, and stays in the group.

API 14 (SyncGroup), versions 0 to 5: static members v3+, the protocol is checked v5+ (KIP-559).
API 12 (Heartbeat), versions 0 to 4: static members v3+.
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat, sync_group

from ..context import ShardContext
from ..effects import Ask
from .classic_group import ClassicGroup, Member, Waiter
from .rebalance import Rebalance
from .responses import heartbeat_answer, sync_accepted, sync_refused
from .states import GroupState


class SyncRequests:
    def __init__(self, context: ShardContext, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def handle_sync(self, ask: Ask, request: sync_group.Request) -> None:
        """Answer now, or when the leader's assignment is stored."""
        group = self._rebalance.find(request.group_id)
        error = _check(group, request)
        if group is None or error is not ErrorCode.NONE:
            self._context.reply(ask.token, sync_refused(error))
            return
        member = group.members[request.member_id]
        if _differs(request.protocol_type, group.protocol_type) or _differs(
            request.protocol_name, group.protocol_name
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            self._context.reply(ask.token, sync_refused(error))
        elif group.is_in(GroupState.COMPLETING_REBALANCE):
            self._rebalance.sync_received(group, member)
            self._wait(ask, group, member, request)
        elif group.is_in(GroupState.STABLE):
            self._rebalance.sync_received(group, member)
            self._context.reply(ask.token, sync_accepted(group, member))
            self._rebalance.restart_session(group, member)
        else:
            self._context.reply(ask.token, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))

    def _wait(
        self, ask: Ask, group: ClassicGroup, member: Member, request: sync_group.Request
    ) -> None:
        replaced = member.waiting_sync
        member.waiting_sync = Waiter(ask.token, ask.api_version)
        if replaced is not None:
            refusal = sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
            self._context.reply(replaced.token, refusal)
        if member.member_id == group.leader_id and not group.is_assignment_stored:
            assignments = {one.member_id: one.assignment for one in request.assignments}
            self._rebalance.store_assignment(group, assignments)

    def handle_heartbeat(self, ask: Ask, request: heartbeat.Request) -> None:
        """Restart the session timer; the answer reports a rebalance that is in progress."""
        group = self._rebalance.find(request.group_id)
        error = _check(group, request)
        if group is not None and error is ErrorCode.NONE:
            self._rebalance.restart_session(group, group.members[request.member_id])
            if group.is_in(GroupState.PREPARING_REBALANCE):
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._context.reply(ask.token, heartbeat_answer(error))


def _check(
    group: ClassicGroup | None, request: sync_group.Request | heartbeat.Request
) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return group.check_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )


def _differs(given: str | None, expected: str | None) -> bool:
    return given is not None and given != expected
