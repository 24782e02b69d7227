"""JoinGroup 0-9: join a classic group; the answer comes when the rebalance is complete.

The rules are the group shard's (`minikafka.coordinator.group`); this is only the way to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_NULLABLE_FIRST = 7


async def handle(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    """Ask the group's shard; a shard that is loading or elsewhere is the answer itself."""
    try:
        return cast(
            "JoinGroupResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except PartitionError as error:
        return JoinGroupResponse(
            error_code=error.error_code,
            protocol_type=None,
            protocol_name="" if context.api_version < _NULLABLE_FIRST else None,
            leader="",
            member_id=request.member_id,
            members=[],
        )
