"""LeaveGroup 0-5: remove members from a group (see `minikafka.coordinator.group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages import leave_group
from ..system.pace import PIECE_ENTRIES

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: leave_group.Request
) -> leave_group.Response:
    members, answered = request.members, list[leave_group.MemberResponse]()
    while True:
        request.members = members[len(answered) : len(answered) + PIECE_ENTRIES]
        answer = cast(
            "leave_group.Response", await broker.groups.ask(request.group_id, request, context)
        )
        answered += answer.members
        if answer.error_code != ErrorCode.NONE or len(answered) >= len(members):
            request.members, answer.members = members, answered
            return answer
        await trio.lowlevel.checkpoint()  # a refusal does not wait for anything
