"""WriteTxnMarkers 1-2: write commit and abort markers to partitions (KIP-98).

Brokers send each other markers over the internal listener; this API is for tools and for
administrators who end a hanging transaction (KIP-664). The answer is sent when all markers are
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...protocol.errors import ErrorCode
from ...protocol.messages import write_txn_markers
from ..coordinators.markers import Marker
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_PLACES_PER_TURN = 32


async def handle(
    broker: Broker, context: RequestContext, request: write_txn_markers.Request
) -> write_txn_markers.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    return write_txn_markers.Response(
        markers=[await _write(broker, one, pace) async for one in pace.each(request.markers)]
    )


async def _write(
    broker: Broker, asked: write_txn_markers.Marker, pace: Pace
) -> write_txn_markers.MarkerResult:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_version,
        asked.transaction_result,
    )
    places = [
        (topic.name, number)
        async for topic in pace.each(asked.topics)
        async for number in pace.each(topic.partition_indexes)
    ]
    is_valid = asked.producer_id >= 0 and asked.producer_epoch >= 0
    codes: dict[tuple[str, int], ErrorCode] = {}
    for start in range(0, len(places), _PLACES_PER_TURN):
        piece = places[start : start + _PLACES_PER_TURN]
        found = [ErrorCode.INVALID_REQUEST] * len(piece)
        if is_valid:
            found = await broker.markers.write_and_wait(marker, piece)
        codes.update(zip(piece, found, strict=True))
        await trio.lowlevel.checkpoint()
    return write_txn_markers.MarkerResult(
        producer_id=asked.producer_id,
        topics=[
            write_txn_markers.TopicResult(
                name=topic.name,
                partitions=[
                    write_txn_markers.PartitionResult(
                        partition_index=number, error_code=codes[topic.name, number]
                    )
                    async for number in pace.each(topic.partition_indexes)
                ],
            )
            async for topic in pace.each(asked.topics)
        ],
    )
