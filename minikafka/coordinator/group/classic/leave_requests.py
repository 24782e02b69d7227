"""LeaveGroup: members that leave, and members that an administrator removes.

API 13 (LeaveGroup), versions 0 to 5: one member and one error code in v0 to v2; v3+ a batch with an
error for each (KIP-345), in which an instance id alone can name a static member; reasons are v5
(KIP-800).
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import leave_group

from ..context import ShardContext
from ..effects import Ask
from .classic_group import ClassicGroup
from .rebalance import Rebalance

# First version with a list of members.
_BATCH_VERSION = 3


class LeaveRequests:
    def __init__(self, context: ShardContext, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def handle(self, ask: Ask, request: leave_group.Request) -> None:
        """Take members out; the rebalance that follows starts once, after the last of them."""
        group = self._rebalance.find(request.group_id)
        if ask.api_version < _BATCH_VERSION:
            identities = [leave_group.MemberIdentity(member_id=request.member_id)]
        else:
            identities = request.members
        members_before = 0 if group is None else len(group.members)
        errors = [
            ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._leave(group, identity)
            for identity in identities
        ]
        if ask.api_version < _BATCH_VERSION:
            response = leave_group.Response(error_code=errors[0])
        else:
            response = leave_group.Response(
                error_code=ErrorCode.NONE,
                members=[
                    leave_group.MemberResponse(
                        member_id=identity.member_id,
                        group_instance_id=identity.group_instance_id,
                        error_code=error,
                    )
                    for identity, error in zip(identities, errors, strict=True)
                ],
            )
        self._context.reply(ask.token, response)
        if group is not None and len(group.members) < members_before:
            gone = members_before - len(group.members)
            self._rebalance.start_or_continue(group, f"{gone} members left")

    def _leave(self, group: ClassicGroup, identity: leave_group.MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        instance_id = identity.group_instance_id
        if member_id in group.pending_members:
            self._rebalance.remove_pending_member(group, member_id)
            return ErrorCode.NONE
        if not member_id and instance_id is not None:
            member_id = group.static_member_id(instance_id) or ""
        error = group.check_member(member_id, instance_id)
        if error is ErrorCode.NONE:
            self._rebalance.remove_member(group, group.members[member_id])
        return error
