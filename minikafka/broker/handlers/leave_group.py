"""LeaveGroup 0-5: remove members from a group (see `minikafka.coordinator.group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import leave_group

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: leave_group.Request
) -> leave_group.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("leave_group.Response", answer)
