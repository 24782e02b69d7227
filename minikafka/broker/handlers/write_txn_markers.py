"""WriteTxnMarkers 1-2: abort what a transaction left open in partitions (KIP-98, KIP-664).

Brokers send each other markers over the internal listener; this API is for tools and for
administrators who end a hanging transaction. The answer is sent when all markers are committed.

In Kafka, brokers use the same API and listener, and only authorization (ALTER or CLUSTER_ACTION on
the cluster) protects it: whoever has that may commit a part of a transaction, or send epochs that
no coordinator and no producer ever reaches, which are stored and block the transactional id. Here a
client can do no more than end a hanging transaction:

- It may only abort. A commit gets CLUSTER_AUTHORIZATION_FAILED: it belongs to the coordinator.
- It may send at most the coordinator epoch of the producer's last marker in that partition, or 0
  without one, which is what ``kafka-transactions abort`` and `minikafka transaction abort-hanging`
  send. A higher one is INVALID_REQUEST, a lower one TRANSACTION_COORDINATOR_FENCED.
- It may send the producer's epoch in that partition, or the next one with transaction version 2.
  Any other is INVALID_PRODUCER_EPOCH.
- For a producer that the partition does not know nothing is written; the answer is NONE.

As in Kafka, a client can still abort a part of a transaction that is alive; `minikafka transaction
terminate` asks its coordinator to end it as a whole.
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
    refusal = ErrorCode.NONE
    if asked.producer_id < 0 or asked.producer_epoch < 0:
        refusal = ErrorCode.INVALID_REQUEST
    elif marker.commits:
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    codes: dict[tuple[str, int], ErrorCode] = {}
    for start in range(0, len(places), _PLACES_PER_TURN):
        piece = places[start : start + _PLACES_PER_TURN]
        found = [refusal] * len(piece)
        if not refusal:
            found = await broker.markers.write_and_wait(marker, piece, from_client=True)
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
