"""DeleteGroups 0-2: delete groups without members, and their offsets.

The state of a share group goes first: without its group nobody would know that it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages import delete_groups
from ..system.pace import Pace
from .share_group_state import delete_state, share_state_of

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
        code = await _delete_share_state(broker, group_id)
        if code is not ErrorCode.NONE:
            result = delete_groups.DeletableGroupResult(group_id=group_id, error_code=code)
            results.append(result)
            continue
        one = delete_groups.Request(groups_names=[group_id])
        answer = await broker.groups.ask(group_id, one, context)
        results += cast("delete_groups.Response", answer).results
    return delete_groups.Response(results=results)


async def _delete_share_state(broker: Broker, group_id: str) -> ErrorCode:
    state = share_state_of(broker, group_id)
    if state.error_code is not ErrorCode.NONE or not state.is_empty:
        return ErrorCode.NONE  # no share group, or the shard has something to say about it
    for topic_id, (_, indexes) in state.topics.items():
        code = await delete_state(broker, group_id, topic_id, indexes)
        if code is not ErrorCode.NONE:
            return code
    return ErrorCode.NONE
