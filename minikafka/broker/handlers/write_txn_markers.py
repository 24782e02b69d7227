"""WriteTxnMarkers 1-2: write commit and abort markers to partitions (KIP-98).

Brokers bring markers to each other over the internal listener; this is for administrators, who end
a hanging transaction with it (KIP-664), and for tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..transaction_markers import Marker, write_marker

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write each marker; the answer comes when all are committed."""
    del context
    return WriteTxnMarkersResponse(markers=[await _write(broker, one) for one in request.markers])


async def _write(broker: Broker, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_version,
        asked.transaction_result,
    )
    places = [(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]
    if asked.producer_id < 0 or asked.producer_epoch < 0:
        codes = dict.fromkeys(places, ErrorCode.INVALID_REQUEST)  # of no producer
    else:
        codes = dict(zip(places, await write_marker(broker, marker, places), strict=True))
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=number, error_code=codes[topic.name, number]
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )
