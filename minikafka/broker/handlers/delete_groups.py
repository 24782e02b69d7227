"""DeleteGroups 0-2: delete groups without members, and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import delete_groups

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: delete_groups.Request
) -> delete_groups.Response:
    """Ask each group's shard; duplicates count once."""
    results: list[delete_groups.DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        one = delete_groups.Request(groups_names=[group_id])
        answer = await broker.groups.ask(group_id, one, context)
        results += cast("delete_groups.Response", answer).results
    return delete_groups.Response(results=results)
