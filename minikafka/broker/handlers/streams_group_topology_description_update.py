"""StreamsGroupTopologyDescriptionUpdate 0: describe a streams application (KIP-1331).

Kafka keeps descriptions only with a plug-in, and minikafka has no such plug-in: no heartbeat asks
for a description, and a client that sends one anyway gets Kafka's error for a missing plug-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import streams_group_topology_description_update as update

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: update.Request
) -> update.Response:
    del broker, context, request
    return update.Response(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="The broker has no streams group topology description plugin configured.",
    )
