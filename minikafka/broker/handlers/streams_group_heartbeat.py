"""StreamsGroupHeartbeat 0-1: join, stay in, and leave a streams group (KIP-1071).

See `minikafka.coordinator.group.streams`. The first members find that internal topics are missing,
and have them created. Here their heartbeat waits for that, and brings tasks (if no delay has been
configured); in Kafka the next one does, five seconds later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...coordinator.group.streams.internal_topics import Status
from ...protocol.errors import ErrorCode
from ...protocol.messages import streams_group_heartbeat

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: streams_group_heartbeat.Request
) -> streams_group_heartbeat.Response:
    first = await _ask(broker, context, request)
    missing = [
        one for one in first.status or () if one.status_code == Status.MISSING_INTERNAL_TOPICS
    ]
    if first.error_code != ErrorCode.NONE or not missing:
        return first
    problem = await broker.groups.streams_topics.wait(request.group_id)
    if problem:
        missing[0].status_detail += f"; {problem}"
    if problem is None or problem:
        return first
    request.member_epoch, request.topology = first.member_epoch, None
    request.shutdown_application = False
    second = await _ask(broker, context, request)
    if second.error_code != ErrorCode.NONE:
        return first
    if second.active_tasks is None:
        second.active_tasks = first.active_tasks
        second.standby_tasks = first.standby_tasks
        second.warmup_tasks = first.warmup_tasks
    return second


async def _ask(
    broker: Broker, context: RequestContext, request: streams_group_heartbeat.Request
) -> streams_group_heartbeat.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("streams_group_heartbeat.Response", answer)
