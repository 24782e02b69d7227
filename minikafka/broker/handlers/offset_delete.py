"""OffsetDelete 0: delete a group's offsets (KIP-496; see `minikafka.coordinator.group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import offset_delete

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: offset_delete.Request
) -> offset_delete.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("offset_delete.Response", answer)
