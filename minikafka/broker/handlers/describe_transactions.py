"""DescribeTransactions 0: state and partitions of transactions (KIP-664).

Each transactional id has its own error: NOT_COORDINATOR if another broker coordinates it,
TRANSACTIONAL_ID_NOT_FOUND if it does not exist. An ended transaction still has the time when it
began, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_transactions
from ..replicas.partition import PartitionError
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_transactions.Request
) -> describe_transactions.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    # One that is named twice is described once: it may have any number of partitions.
    wanted = {one: None async for one in pace.each(request.transactional_ids)}
    return describe_transactions.Response(
        transaction_states=await pace.every(_describe(broker, one) for one in wanted)
    )


def _describe(broker: Broker, transactional_id: str) -> describe_transactions.TransactionState:
    try:
        if not transactional_id:
            raise PartitionError(ErrorCode.INVALID_REQUEST)
        runtime = broker.transactions.runtime
        number, shard = runtime.shard_of(transactional_id)
        if shard.error is not ErrorCode.NONE:
            raise PartitionError(shard.error)
        if not runtime.is_surely_current(number):
            raise PartitionError(ErrorCode.NOT_COORDINATOR)  # the answer may be out of date
        entry = shard.entry(transactional_id)
        if entry is None:
            raise PartitionError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except PartitionError as error:
        return describe_transactions.TransactionState(
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
    return describe_transactions.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=entry.state.title,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_start_time_ms=entry.start_ms,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=found)
            for topic, found in topics.items()
        ],
    )
