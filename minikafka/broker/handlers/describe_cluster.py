"""DescribeCluster 0-2: the cluster's id, its controller and its brokers (KIP-700).

Version 1 names the kind of endpoint (KIP-919): controllers speak no Kafka here, so there are no
controller endpoints, and the answer says so. Version 2 can ask for fenced brokers too (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..cluster_view import controller_for_clients
from .authorization import CLUSTER_OPERATIONS, NOT_ASKED

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext

_BROKERS = 1
_CONTROLLERS = 2


async def handle(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the cluster as this broker knows it."""
    del context
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
    shown = [brokers[number] for number in sorted(brokers)]
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=broker.cluster_id,
        controller_id=controller_for_clients(broker),
        brokers=[
            DescribeClusterBroker(
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
    request: DescribeClusterRequest, code: ErrorCode, message: str
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code,
        error_message=message,
        endpoint_type=request.endpoint_type,
        cluster_id="",
        brokers=[],
    )
