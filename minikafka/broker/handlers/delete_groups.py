"""DeleteGroups 0-3: delete groups without members, and their offsets.

The state of a share group goes first: without its group nobody would know that it is there. From
version 3 on a refusal says in words why.
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
            results.append(
                delete_groups.DeletableGroupResult(
                    group_id=group_id, error_code=code, error_message=_reason(code, group_id)
                )
            )
            continue
        one = delete_groups.Request(groups_names=[group_id])
        answer = await broker.groups.ask(group_id, one, context)
        for result in cast("delete_groups.Response", answer).results:
            if result.error_code != ErrorCode.NONE:
                result.error_message = _reason(ErrorCode(result.error_code), group_id)
            results.append(result)
    return delete_groups.Response(results=results)


def _reason(code: ErrorCode, group_id: str) -> str:
    shown = f"Group {group_id[:100]!r}"
    match code:
        case ErrorCode.NON_EMPTY_GROUP:
            return f"{shown} has members; stop them first."
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return f"{shown} does not exist."
        case ErrorCode.INVALID_GROUP_ID:
            return f"{shown} is no group id."
        case _:
            return f"{shown} was not deleted: {code.name}."


async def _delete_share_state(broker: Broker, group_id: str) -> ErrorCode:
    state = share_state_of(broker, group_id)
    if state.error_code is not ErrorCode.NONE or not state.is_empty:
        return ErrorCode.NONE  # no share group, or the shard has something to say about it
    for topic_id, (_, indexes) in state.topics.items():
        code = await delete_state(broker, group_id, topic_id, indexes)
        if code is not ErrorCode.NONE:
            return code
    return ErrorCode.NONE
