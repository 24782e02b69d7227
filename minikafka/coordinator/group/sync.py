"""SyncGroup and Heartbeat: how a member gets its assignment, and stays alive.

API 14 (SyncGroup), versions 0 to 5: static members v3+, the protocol is checked v5+ (KIP-559).
API 12 (Heartbeat), versions 0 to 4: static members v3+.
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.sync_group import SyncGroupRequest

from .classic_group import ClassicGroup, Member, Waiter
from .context import ShardContext
from .effects import Ask
from .rebalance import Rebalance
from .responses import heartbeat_answer, sync_accepted, sync_refused
from .states import GroupState

__all__ = ["Syncing"]


class Syncing:
    """Handles SyncGroup and Heartbeat."""

    def __init__(self, context: ShardContext, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def handle_sync(self, ask: Ask, request: SyncGroupRequest) -> None:
        """Answer, or let the member wait for the leader's assignment."""
        group = self._context.groups.get(request.group_id)
        error = _check(group, request)
        if group is None or error is not ErrorCode.NONE:
            self._context.reply(ask.token, sync_refused(error))
            return
        member = group.members[request.member_id]
        if _is_other(request.protocol_type, group.protocol_type) or _is_other(
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
        self, ask: Ask, group: ClassicGroup, member: Member, request: SyncGroupRequest
    ) -> None:
        replaced = member.waiting_sync
        member.waiting_sync = Waiter(ask.token, ask.api_version)
        if replaced is not None:
            refusal = sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
            self._context.reply(replaced.token, refusal)
        if member.member_id == group.leader_id and not group.is_assignment_stored:
            assignments = {given.member_id: given.assignment for given in request.assignments}
            self._rebalance.store_assignment(group, assignments)

    def handle_heartbeat(self, ask: Ask, request: HeartbeatRequest) -> None:
        """Prolong the session, and tell a member about a rebalance."""
        group = self._context.groups.get(request.group_id)
        error = _check(group, request)
        if group is not None and error is ErrorCode.NONE:
            self._rebalance.restart_session(group, group.members[request.member_id])
            if group.is_in(GroupState.PREPARING_REBALANCE):
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._context.reply(ask.token, heartbeat_answer(error))


def _check(group: ClassicGroup | None, request: SyncGroupRequest | HeartbeatRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return group.check_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )


def _is_other(said: str | None, expected: str | None) -> bool:
    return said is not None and said != expected
