"""PushTelemetry 0: a client's metrics, which are kept in ``__client_telemetry`` (KIP-714).

As in Kafka, a push is refused if it comes too early, for another subscription than the current one,
after a terminating one, or if it is too large or compressed otherwise than was offered. One that
cannot be stored or decompressed is INVALID_RECORD.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.client_telemetry import Push
from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import push_telemetry
from ...protocol.records import Compression, DecompressionError, decompress
from .get_telemetry_subscriptions import description, subscriptions

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_DECOMPRESSED_BYTES_MAX = 8 * 1024 * 1024


async def handle(
    broker: Broker, context: RequestContext, request: push_telemetry.Request
) -> push_telemetry.Response:
    return push_telemetry.Response(error_code=await _accept(broker, context, request))


async def _accept(
    broker: Broker, context: RequestContext, request: push_telemetry.Request
) -> ErrorCode:
    instance_id, metrics = bytes(request.client_instance_id), request.metrics
    if instance_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    client = description(context, instance_id)
    code = broker.telemetry.push(
        instance_id,
        client,
        subscriptions(broker),
        Push(request.subscription_id, request.compression_type, len(metrics), request.terminating),
        broker.clock.monotonic(),
    )
    if code is not ErrorCode.NONE or not metrics:
        return code
    try:
        plain = await broker.run_in_thread(
            partial(
                decompress,
                Compression(request.compression_type),
                bytes(metrics),
                size_bytes_max=_DECOMPRESSED_BYTES_MAX,
            )
        )
    except DecompressionError:
        return ErrorCode.INVALID_RECORD
    kept = await broker.telemetry_log.keep(client, plain, is_terminating=request.terminating)
    return ErrorCode.NONE if kept else ErrorCode.INVALID_RECORD
