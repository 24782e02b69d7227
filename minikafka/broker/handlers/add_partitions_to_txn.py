"""AddPartitionsToTxn 0-5: partitions that a transaction is about to write to (KIP-98).

Clients send one transaction (versions 0 to 3), brokers several, which ``verify_only`` only checks
(version 4, KIP-890). All partitions of a transaction are added or none: when one does not exist the
others are OPERATION_NOT_ATTEMPTED. While the markers of the previous transaction are being written,
the answer waits; only if that takes long it is CONCURRENT_TRANSACTIONS.

A client's answer leaves in the call that commits the change, as in EndTxn, because a producer waits
for it in every transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.transaction import AddPartitions, TopicPartition, TransactionReply
from ...protocol.errors import ErrorCode
from ...protocol.messages import add_partitions_to_txn
from ..replicas.partition import PartitionError
from ..system.pace import Pace
from .later_answer import LaterAnswer
from .transaction_errors import fenced_error

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_MANY_FIRST = 4
_FENCED_FIRST = 2
_ABORTABLE_FIRST = 5
_PLACES_AT_ONCE_MAX = 100
"""Partitions (and topics) that are checked and answered without letting other tasks run."""


class _Added(LaterAnswer):
    """Ready when the coordinator replies, which it always does."""

    __slots__ = ("_broker", "_command", "_topics", "_version")

    def __init__(
        self,
        broker: Broker,
        command: AddPartitions,
        topics: list[add_partitions_to_txn.Topic],
        version: int,
    ) -> None:
        super().__init__()
        self._broker = broker
        self._command = command
        self._topics = topics
        self._version = version

    def put(self, reply: TransactionReply) -> None:
        code = reply.error_code
        if code is ErrorCode.NONE:
            self._broker.transactions.added(self._command)
        code = fenced_error(code, knows_fenced=self._version >= _FENCED_FIRST)
        self.response = add_partitions_to_txn.Response(
            results_by_topic_v3_and_below=[
                add_partitions_to_txn.TopicResult(
                    name=topic.name,
                    results_by_partition=[
                        add_partitions_to_txn.PartitionResult(
                            partition_index=number, partition_error_code=code
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in self._topics
            ]
        )
        self.ready()

    def give_up(self) -> None:
        """The client has disconnected; the partitions are added anyway."""


async def handle(
    broker: Broker, context: RequestContext, request: add_partitions_to_txn.Request
) -> add_partitions_to_txn.Response | LaterAnswer:
    version = context.api_version
    if version < _MANY_FIRST:
        added = _begin_few(broker, request, version)
        if added is not None:
            return added
    pace = Pace(broker.clock.monotonic)
    if version < _MANY_FIRST:
        single = add_partitions_to_txn.Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results = await _add(broker, single, version, pace)
        return add_partitions_to_txn.Response(results_by_topic_v3_and_below=results)
    return add_partitions_to_txn.Response(
        results_by_transaction=[
            add_partitions_to_txn.Result(
                transactional_id=one.transactional_id,
                topic_results=await _add(broker, one, version, pace),
            )
            async for one in pace.each(request.transactions)
        ]
    )


def _begin_few(
    broker: Broker, request: add_partitions_to_txn.Request, version: int
) -> LaterAnswer | None:
    """Begin to add a few partitions; None if they are many, or the answer is an error already."""
    topics = request.v3_and_below_topics
    transactional_id = request.v3_and_below_transactional_id
    if (
        not transactional_id
        or len(topics) > _PLACES_AT_ONCE_MAX
        or sum(len(topic.partitions) for topic in topics) > _PLACES_AT_ONCE_MAX
    ):
        return None
    places = {(topic.name, number): None for topic in topics for number in topic.partitions}
    if not all(_exists(broker, *one) for one in places):
        return None
    command = AddPartitions(
        transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        tuple(places),
    )
    added = _Added(broker, command, topics, version)
    try:
        broker.transactions.begin(command, added)
    except PartitionError as error:
        added.put(TransactionReply(error.error_code))
    return added


async def _add(
    broker: Broker, asked: add_partitions_to_txn.Transaction, version: int, pace: Pace
) -> list[add_partitions_to_txn.TopicResult]:
    wanted = {
        (topic.name, number): None
        async for topic in pace.each(asked.topics)
        async for number in pace.each(topic.partitions)
    }
    unknown = {
        place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async for place in pace.each(wanted)
        if not _exists(broker, *place)
    }
    if unknown:
        return await _results(asked.topics, unknown, ErrorCode.OPERATION_NOT_ATTEMPTED, pace)
    if not asked.transactional_id:
        return await _results(asked.topics, {}, ErrorCode.INVALID_REQUEST, pace)
    command = AddPartitions(
        asked.transactional_id,
        asked.producer_id,
        asked.producer_epoch,
        tuple(wanted),
        verifies_only=asked.verify_only,
        transaction_version=2 if version >= _MANY_FIRST and not asked.verify_only else 0,
    )
    try:
        code = (await broker.transactions.ask(command)).error_code
    except PartitionError as error:
        code = error.error_code
    if code is ErrorCode.INVALID_TXN_STATE and asked.verify_only and version >= _ABORTABLE_FIRST:
        code = ErrorCode.TRANSACTION_ABORTABLE
    code = fenced_error(code, knows_fenced=version >= _FENCED_FIRST)
    return await _results(asked.topics, {}, code, pace)


def _exists(broker: Broker, topic: str, number: int) -> bool:
    image = broker.image.topics.get(topic)
    return image is not None and 0 <= number < len(image.partitions)


async def _results(
    topics: list[add_partitions_to_txn.Topic],
    codes: dict[TopicPartition, ErrorCode],
    others: ErrorCode,
    pace: Pace,
) -> list[add_partitions_to_txn.TopicResult]:
    return [
        add_partitions_to_txn.TopicResult(
            name=topic.name,
            results_by_partition=[
                add_partitions_to_txn.PartitionResult(
                    partition_index=number,
                    partition_error_code=codes.get((topic.name, number), others),
                )
                async for number in pace.each(topic.partitions)
            ],
        )
        async for topic in pace.each(topics)
    ]
