"""SyncGroup 0-5: hand out the leader's assignment; the answer comes when it is there.

The rules are the group shard's (`minikafka.coordinator.group`); this is only the way to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse:
    """Ask the group's shard; a shard that is loading or elsewhere is the answer itself."""
    try:
        return cast(
            "SyncGroupResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except PartitionError as error:
        return SyncGroupResponse(error_code=error.error_code, assignment=b"")
