"""JoinGroup 0-9: join a classic group (see `minikafka.coordinator.group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import join_group

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: join_group.Request
) -> join_group.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("join_group.Response", answer)
