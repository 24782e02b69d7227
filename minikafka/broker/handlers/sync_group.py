"""SyncGroup 0-5: distribute the leader's assignment (see `minikafka.coordinator.group`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...protocol.messages import sync_group

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: sync_group.Request
) -> sync_group.Response:
    answer = await broker.groups.ask(request.group_id, request, context)
    return cast("sync_group.Response", answer)
