"""DescribeProducers 0: the active producers of partitions (KIP-664).

These are the idempotent producers of the last ``producer.id.expiration.ms``, and those of open
transactions. As in Kafka, every replica answers with what its own log says, so ``kafka-transactions
find-hanging --broker-id`` finds everything that is open on a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_producers
from ..replicas.partition import PartitionError
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_producers.Request
) -> describe_producers.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    return describe_producers.Response(
        topics=[
            describe_producers.TopicResponse(
                name=topic.name,
                partitions=await pace.every(
                    # One that is named twice is described once: it may have many producers.
                    _describe(broker, topic.name, one)
                    for one in dict.fromkeys(topic.partition_indexes)
                ),
            )
            async for topic in pace.each(request.topics)
        ]
    )


def _describe(broker: Broker, topic: str, number: int) -> describe_producers.PartitionResponse:
    try:
        partition = broker.index.find_replica(topic, number)
    except PartitionError as error:
        return describe_producers.PartitionResponse(
            partition_index=number,
            error_code=error.error_code,
            error_message=error.message,
            active_producers=[],
        )
    return describe_producers.PartitionResponse(
        partition_index=number,
        error_code=ErrorCode.NONE,
        active_producers=[
            describe_producers.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_transaction_start_offset,
            )
            for producer in partition.log.producer_state.active_producers()
        ],
    )
