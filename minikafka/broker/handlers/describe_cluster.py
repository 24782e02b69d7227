"""DescribeCluster 0-2: the cluster's id, its controller and its brokers (KIP-700).

Version 1 has the type of endpoint (KIP-919); asking for controllers is an error, because they do
not speak Kafka's protocol here. Version 2 can include fenced brokers (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_cluster
from .authorization import CLUSTER_OPERATIONS, NOT_ASKED
from .cluster_view import addresses_on, controller_for_clients

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_BROKERS = 1
_CONTROLLERS = 2


async def handle(
    broker: Broker, context: RequestContext, request: describe_cluster.Request
) -> describe_cluster.Response:
    if request.endpoint_type == _CONTROLLERS:
        return _refused(
            request,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request asks for controllers, but was sent to a broker.",
        )
    if request.endpoint_type != _BROKERS:
        return _refused(
            request,
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Endpoint type {request.endpoint_type} is unknown; use 1 (brokers).",
        )
    brokers = broker.image.brokers
    known = [brokers[number] for number in sorted(brokers)]
    shown = addresses_on(context.listener_name, known)
    return describe_cluster.Response(
        error_code=ErrorCode.NONE,
        cluster_id=broker.store.cluster_id,
        controller_id=controller_for_clients(broker, context.listener_name),
        brokers=[
            describe_cluster.Broker(
                broker_id=one.broker_id,
                host=one.host,
                port=one.port,
                rack=one.rack,
                is_fenced=one.is_fenced,
            )
            for one in shown
            if request.include_fenced_brokers or not one.is_fenced
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _refused(
    request: describe_cluster.Request, code: ErrorCode, message: str
) -> describe_cluster.Response:
    return describe_cluster.Response(
        error_code=code,
        error_message=message,
        endpoint_type=request.endpoint_type,
        cluster_id="",
        brokers=[],
    )
