"""DeleteGroups 0-2: delete groups without members, and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import delete_groups
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: delete_groups.Request
) -> delete_groups.Response:
    """Ask each group's shard; duplicates count once."""
    results: list[delete_groups.DeletableGroupResult] = []
    pace = Pace(broker.clock.monotonic)
    group_ids = {group_id: None async for group_id in pace.each(request.groups_names)}
    async for group_id in pace.each(group_ids):
        one = delete_groups.Request(groups_names=[group_id])
        answer = await broker.groups.ask(group_id, one, context)
        results += cast("delete_groups.Response", answer).results
    return delete_groups.Response(results=results)
