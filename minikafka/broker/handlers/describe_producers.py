"""DescribeProducers 0: the producers whose sequences a partition remembers (KIP-664).

Only idempotent producers are remembered, for ``producer.id.expiration.ms``, and those of open
transactions as long as these last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Describe the producers of each partition."""
    del context
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, one) for one in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, topic: str, number: int) -> PartitionResponse:
    try:
        partition = broker.partition(topic, number)
    except PartitionError as error:
        return PartitionResponse(
            partition_index=number,
            error_code=error.error_code,
            error_message=error.message,
            active_producers=[],
        )
    return PartitionResponse(
        partition_index=number,
        error_code=ErrorCode.NONE,
        active_producers=[
            ProducerState(
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
