"""LeaveGroup 0-5: let members go, several at once from v3 (KIP-345).

The rules are the group shard's (`minikafka.coordinator.group`); this is only the way to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Ask the group's shard; a shard that is loading or elsewhere is the answer itself."""
    try:
        return cast(
            "LeaveGroupResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except PartitionError as error:
        return LeaveGroupResponse(error_code=error.error_code)
