"""ShareGroupHeartbeat 1: a member of a share group joins, lives or leaves (KIP-932).

A member that is the first to read a topic has to wait until the group's share state for it exists.
Here its heartbeat waits, and brings the assignment; in Kafka the next one does, five seconds later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages import share_group_heartbeat

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_LEAVE = -1


async def handle(
    broker: Broker, context: RequestContext, request: share_group_heartbeat.Request
) -> share_group_heartbeat.Response:
    first = await _ask(broker, context, request)
    if first.error_code != ErrorCode.NONE or request.member_epoch == _LEAVE:
        return first
    if not await broker.groups.wait_initialized(request.group_id):
        return first
    request.member_epoch, request.subscribed_topic_names = first.member_epoch, None
    second = await _ask(broker, context, request)
    if second.error_code != ErrorCode.NONE:
        return first
    if second.assignment is None:
        second.assignment = first.assignment
    return second


async def _ask(
    broker: Broker, context: RequestContext, request: share_group_heartbeat.Request
) -> share_group_heartbeat.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("share_group_heartbeat.Response", answer)
