"""DeleteGroups 0-2: delete groups that have no members, with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Ask each group's shard; a group named twice is deleted once."""
    results: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        one = DeleteGroupsRequest(groups_names=[group_id])
        try:
            answer = await broker.groups.ask(group_id, one, context)
            results += cast("DeleteGroupsResponse", answer).results
        except PartitionError as error:
            results.append(DeletableGroupResult(group_id=group_id, error_code=error.error_code))
    return DeleteGroupsResponse(results=results)
