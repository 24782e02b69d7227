"""Heartbeat 0-4: keep a member's session alive and tell it of a rebalance.

The rules are the group shard's (`minikafka.coordinator.group`); this is only the way to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    """Ask the group's shard; a shard that is loading or elsewhere is the answer itself."""
    try:
        return cast(
            "HeartbeatResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except PartitionError as error:
        return HeartbeatResponse(error_code=error.error_code)
