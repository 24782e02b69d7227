"""AddPartitionsToTxn 0-5: partitions that a transaction is about to write to (KIP-98).

Clients send one transaction (versions 0 to 3), brokers several, which ``verify_only`` only checks
(version 4, KIP-890). All partitions of a transaction are added or none: when one does not exist the
others are OPERATION_NOT_ATTEMPTED. While the markers of the previous transaction are being written,
the answer waits; only if that takes long it is CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import AddPartitions, TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages import add_partitions_to_txn
from ..replicas.partition import PartitionError
from .transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_MANY_FIRST = 4
_FENCED_FIRST = 2
_ABORTABLE_FIRST = 5


async def handle(
    broker: Broker, context: RequestContext, request: add_partitions_to_txn.Request
) -> add_partitions_to_txn.Response:
    version = context.api_version
    if version < _MANY_FIRST:
        single = add_partitions_to_txn.Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results = await _add(broker, single, version)
        return add_partitions_to_txn.Response(results_by_topic_v3_and_below=results)
    return add_partitions_to_txn.Response(
        results_by_transaction=[
            add_partitions_to_txn.Result(
                transactional_id=one.transactional_id,
                topic_results=await _add(broker, one, version),
            )
            for one in request.transactions
        ]
    )


async def _add(
    broker: Broker, asked: add_partitions_to_txn.Transaction, version: int
) -> list[add_partitions_to_txn.TopicResult]:
    unknown = {
        (topic.name, number)
        for topic in asked.topics
        for number in topic.partitions
        if not _exists(broker, topic.name, number)
    }
    if unknown:
        return _results(
            asked.topics,
            dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        )
    if not asked.transactional_id:
        return _results(asked.topics, {}, ErrorCode.INVALID_REQUEST)
    command = AddPartitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        tuple((topic.name, number) for topic in asked.topics for number in topic.partitions),
        verifies_only=asked.verify_only,
        transaction_version=2 if version >= _MANY_FIRST and not asked.verify_only else 0,
    )
    try:
        code = (await broker.transactions.ask(command)).error_code
    except PartitionError as error:
        code = error.error_code
    if code is ErrorCode.INVALID_TXN_STATE and asked.verify_only and version >= _ABORTABLE_FIRST:
        code = ErrorCode.TRANSACTION_ABORTABLE
    return _results(asked.topics, {}, fenced_error(code, knows_fenced=version >= _FENCED_FIRST))


def _exists(broker: Broker, topic: str, number: int) -> bool:
    image = broker.image.topics.get(topic)
    return image is not None and 0 <= number < len(image.partitions)


def _results(
    topics: list[add_partitions_to_txn.Topic],
    codes: dict[TopicPartition, ErrorCode],
    others: ErrorCode,
) -> list[add_partitions_to_txn.TopicResult]:
    return [
        add_partitions_to_txn.TopicResult(
            name=topic.name,
            results_by_partition=[
                add_partitions_to_txn.PartitionResult(
                    partition_index=number,
                    partition_error_code=codes.get((topic.name, number), others),
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
