"""GetTelemetrySubscriptions 0: which metrics a client is asked to push (KIP-714).

That follows from the client metrics subscriptions that match it. As in Kafka, a client without an
id gets one, and one that asks too often is THROTTLING_QUOTA_EXCEEDED. Unlike Kafka, which needs a
plug-in for this, every broker serves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.client_telemetry import COMPRESSIONS
from ...metadata.client_metrics import ClientDescription
from ...metadata.image import RESOURCE_CLIENT_METRICS
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import get_telemetry_subscriptions
from ..coordinators.telemetry import instance_text

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: get_telemetry_subscriptions.Request
) -> get_telemetry_subscriptions.Response:
    instance_id = bytes(request.client_instance_id)
    if instance_id == ZERO_UUID:
        instance_id = broker.ids.topic_id()
    offer = broker.telemetry.ask(
        instance_id,
        description(context, instance_id),
        subscriptions(broker),
        broker.clock.monotonic(),
    )
    metrics, interval_ms = offer.subscription
    return get_telemetry_subscriptions.Response(
        error_code=offer.error_code,
        client_instance_id=instance_id,
        subscription_id=offer.subscription_id,
        accepted_compression_types=[int(one) for one in COMPRESSIONS],
        push_interval_ms=interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(metrics),
    )


def description(context: RequestContext, instance_id: bytes) -> ClientDescription:
    """The client, as subscriptions select it."""
    connection = context.connection
    name, version = ("", "") if connection is None else connection.software
    return ClientDescription(
        client_instance_id=instance_text(instance_id),
        client_id=context.client_id or "",
        client_software_name=name,
        client_software_version=version,
        client_source_address=context.client_host.removeprefix("/"),
        client_source_port="" if connection is None else str(connection.port),
    )


def subscriptions(broker: Broker) -> list[dict[str, str]]:
    """The settings of every client metrics subscription."""
    return [
        texts
        for (kind, _), texts in broker.image.settings.items()
        if kind == RESOURCE_CLIENT_METRICS
    ]
