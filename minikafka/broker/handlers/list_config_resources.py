"""ListConfigResources 0-1: the names of everything that can have settings (KIP-714, KIP-1142).

Version 0 asks for client metrics subscriptions, of which there are none here; so of groups with
settings. Version 1 names types of resources, or none for all of them. A type that does not exist is
UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..cluster_view import live_brokers
from ..config_resources import ResourceType

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources of the types asked for."""
    if context.api_version == 0:
        asked = {int(ResourceType.CLIENT_METRICS)}
    else:
        asked = set(request.resource_types) or {int(one) for one in ResourceType}
    if not asked.issubset(ResourceType):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    brokers = [str(one.broker_id) for one in live_brokers(broker)]
    names = {
        ResourceType.TOPIC: list(broker.image.topics),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
    }
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in ResourceType
            if kind in asked
            for name in names.get(kind, [])
        ],
    )
