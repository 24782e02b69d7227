"""WriteTxnMarkers 1-2: write commit and abort markers to partitions (KIP-98).

Brokers send each other markers over the internal listener; this API is for tools and for
administrators who end a hanging transaction (KIP-664). The answer is sent when all markers are
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import write_txn_markers
from ..coordinators.markers import Marker

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: write_txn_markers.Request
) -> write_txn_markers.Response:
    del context
    return write_txn_markers.Response(
        markers=[await _write(broker, one) for one in request.markers]
    )


async def _write(broker: Broker, asked: write_txn_markers.Marker) -> write_txn_markers.MarkerResult:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_version,
        asked.transaction_result,
    )
    places = [(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]
    if asked.producer_id < 0 or asked.producer_epoch < 0:
        codes = dict.fromkeys(places, ErrorCode.INVALID_REQUEST)
    else:
        codes = dict(zip(places, await broker.markers.write_and_wait(marker, places), strict=True))
    return write_txn_markers.MarkerResult(
        producer_id=asked.producer_id,
        topics=[
            write_txn_markers.TopicResult(
                name=topic.name,
                partitions=[
                    write_txn_markers.PartitionResult(
                        partition_index=number, error_code=codes[topic.name, number]
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )
