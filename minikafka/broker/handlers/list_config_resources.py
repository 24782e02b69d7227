"""ListConfigResources 0-1: the names of all config resources (KIP-714, KIP-1142).

Version 0 lists client metrics subscriptions. Version 1 lists the requested types, or all if none is
given. Groups are listed if they have settings. As in Kafka, an unknown type is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import list_config_resources
from .cluster_view import live_brokers
from .config_resources import ResourceType

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: list_config_resources.Request
) -> list_config_resources.Response:
    if context.api_version == 0:
        asked = {int(ResourceType.CLIENT_METRICS)}
    else:
        asked = set(request.resource_types) or {int(one) for one in ResourceType}
    if not asked.issubset(ResourceType):
        return list_config_resources.Response(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    brokers = [str(one.broker_id) for one in live_brokers(broker)]
    names = {
        ResourceType.TOPIC: list(broker.image.topics),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: [],
        ResourceType.GROUP: [],
    }
    for kind, name in broker.image.settings:
        if kind in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
            names[ResourceType(kind)].append(name)
    return list_config_resources.Response(
        error_code=ErrorCode.NONE,
        config_resources=[
            list_config_resources.ConfigResource(resource_name=name, resource_type=kind)
            for kind in ResourceType
            if kind in asked
            for name in names[kind]
        ],
    )
