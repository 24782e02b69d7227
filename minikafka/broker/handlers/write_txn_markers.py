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
    elif marker.commits:
        codes = dict.fromkeys(places, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    else:
        written = await broker.markers.write_and_wait(marker, places, from_client=True)
        codes = dict(zip(places, written, strict=True))
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
