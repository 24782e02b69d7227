"""OffsetDelete 0: forget offsets of a group's partitions (KIP-496).

The rules are the group shard's (`minikafka.coordinator.group`); this is only the way to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Ask the group's shard; a shard that is loading or elsewhere is the answer itself."""
    try:
        return cast(
            "OffsetDeleteResponse", await broker.groups.ask(request.group_id, request, context)
        )
    except PartitionError as error:
        return OffsetDeleteResponse(error_code=error.error_code, topics=[])
