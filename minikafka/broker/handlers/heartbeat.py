"""Heartbeat 0-4: keep a group member's session alive (see `minikafka.coordinator.group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import heartbeat

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: heartbeat.Request
) -> heartbeat.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("heartbeat.Response", answer)
