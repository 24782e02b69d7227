"""ListGroups 0-5: the groups this broker coordinates, by state (KIP-518) and type (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """Collect the groups of all loaded shards; say so when some are still being loaded."""
    del context
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if broker.groups.is_loading else ErrorCode.NONE
    groups = [
        group
        for shard in broker.groups.shards()
        for group in shard.list_groups(request.states_filter, request.types_filter)
    ]
    return ListGroupsResponse(error_code=code, groups=groups)
