"""DescribeTransactions 0: state and partitions of transactions (KIP-664).

Each transactional id on its own: NOT_COORDINATOR for one that another broker keeps, and
TRANSACTIONAL_ID_NOT_FOUND for one that nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ..partition import PartitionError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each id."""
    del context
    return DescribeTransactionsResponse(
        transaction_states=[_describe(broker, one) for one in request.transactional_ids]
    )


def _describe(broker: Broker, transactional_id: str) -> TransactionState:
    try:
        if not transactional_id:
            raise PartitionError(ErrorCode.INVALID_REQUEST)
        runtime = broker.transactions.runtime
        number, shard = runtime.shard_of(transactional_id)
        if shard.error is not ErrorCode.NONE:
            raise PartitionError(shard.error)
        if not runtime.is_surely_current(number):
            raise PartitionError(ErrorCode.NOT_COORDINATOR)  # somebody decides by the answer
        entry = shard.entry(transactional_id)
        if entry is None:
            raise PartitionError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except PartitionError as error:
        return TransactionState(
            error_code=error.error_code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(entry.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=entry.state.title,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_start_time_ms=entry.start_ms,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        topics=[TopicData(topic=topic, partitions=found) for topic, found in topics.items()],
    )
