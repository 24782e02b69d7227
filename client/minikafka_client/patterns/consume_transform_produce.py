"""From topics to topics in transactions: nothing is lost and nothing is repeated."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, cast

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka_client import errors
from minikafka_client.options import ConnectionOptions
from minikafka_client.patterns.subscribed import (
    PatternOptions,
    Subscribed,
    Topics,
    with_pattern_options,
)
from minikafka_client.producer_options import ProducerOptions
from minikafka_client.signatures import ExcDetails
from minikafka_client.trio_api.producer import Producer
from minikafka_client.trio_api.transactions import Transaction
from minikafka_client.types import (
    ConsumerRecord,
    Headers,
    IsolationLevel,
    Key,
    OffsetAndMetadata,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Serializer

logger = logging.getLogger(__name__)

ABORTS_IN_A_ROW_MAX: Final = 10
"""How many aborts in a row are retried before the error reaches the application."""
FENCED_IN_A_ROW_MAX: Final = 3
"""The same for being fenced, because another process may have the same transactional id."""


class TransformBatch(Generic[Key, Value]):
    """Records to work on, and the open transaction that the results go into.

    Attributes:
        records: in the order of their offsets, partition by partition.
    """

    def __init__(
        self,
        records: Sequence[ConsumerRecord[Key, Value]],
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        producer: Producer[Any, Any],
        transaction: Transaction,
    ) -> None:
        self.records = records
        self._producer = producer
        self.transaction = transaction
        self.offsets = offsets
        self.first_offsets: dict[TopicPartition, int] = {}
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            self.first_offsets.setdefault(partition, record.offset)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        return iter(self.records)

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Send a record; it is delivered with the others, or none of them is.

        When the transaction is already lost, this does nothing: the batch is handed out again.

        Raises:
            KafkaError: no metadata or no room in the buffer within ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        try:
            await self._producer.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except (errors.TransactionAbortableError, errors.FencedError, errors.CommitUnknownError):
            await trio.lowlevel.checkpoint()


class ConsumeTransformProduce(Subscribed[Key, Value]):
    """Hands out batches of records, each in a transaction that its results are sent into.

        async with ConsumeTransformProduce(
            "localhost:9092", ["orders"], group_id="billing", transactional_id="billing-1"
        ) as source:
            async for batch in source:
                for order in batch.records:
                    await batch.send("invoices", invoice_of(order))

    **A crash loses nothing and repeats nothing** of what consumers with
    ``isolation_level="read_committed"`` see: asking for the next batch commits the results of the
    previous one together with the group's offsets. Side effects elsewhere (sending a mail) are not
    covered: after a crash or an aborted transaction, a batch is handed out again. Leaving the block
    commits; an exception aborts.

    A member that was removed from its group without noticing does no harm: its offsets are
    refused, and its transaction is aborted (KIP-447). After an abort, reading continues at the
    committed offsets. If the producer was fenced, because a transaction took longer than
    ``transaction_timeout_ms``, or the outcome of a commit is unknown, it is first initialized
    again, as a new producer would be.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        transactional_id: unique to this process, and the same after a restart, so that a
            transaction left open by a crash ends at once.
        max_records: at most this many in a transaction; fewer when no more have arrived.
        producer_options: the producer's; those about connections default to the consumer's.
        key_serializer, value_serializer: as for `Producer`.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is required, ``isolation_level`` is read_committed.
            A partition without a committed offset is read from the beginning by default.

    Attributes:
        producer: for its statistics; send with the batch.

    Raises:
        ValueError: an option is refused.
    """

    producer: Producer[Any, Any]

    @with_pattern_options(isolation_level="read_committed")
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        *,
        transactional_id: str,
        max_records: int = 500,
        producer_options: ProducerOptions | None = None,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        **options: Unpack[PatternOptions[Key, Value]],
    ) -> None:
        if max_records < 1:
            raise ValueError(f"max_records={max_records}; at least 1 is needed")
        isolation_level = options.setdefault("isolation_level", "read_committed")
        if IsolationLevel.of(isolation_level) is not IsolationLevel.READ_COMMITTED:
            raise ValueError(
                f"isolation_level={isolation_level!r}: results of uncommitted records could not "
                f"be undone; leave it out"
            )
        super().__init__(
            bootstrap_servers,
            topics,
            **options,
        )
        shared = {
            name: value
            for name, value in options.items()
            if name in ConnectionOptions.__annotations__
        }
        produced = cast("ProducerOptions", {**shared, **(producer_options or {})})
        produced["transactional_id"] = transactional_id
        self.producer = Producer(
            bootstrap_servers,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            **produced,
        )
        self._max_records = max_records
        self._batch: TransformBatch[Key, Value] | None = None
        self._undecided: TransformBatch[Key, Value] | None = None
        self._aborts = 0
        self._fences = 0
        self._both = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.producer)
            await super().__aenter__()
            stack.push_async_exit(super().__aexit__)
            self._both = stack.pop_all()
        return self

    async def __aexit__(self, *details: *ExcDetails) -> bool | None:
        return await self._both.__aexit__(*details)

    def __aiter__(self) -> Self:
        """Iterate over batches without end; asking for one commits the previous one.

        Raises (while iterating):
            TransactionAbortableError: too many transactions in a row have failed.
            FencedError: another process has the same ``transactional_id`` or
                ``group_instance_id``.
            KafkaError: as for `Consumer` and `Producer`.
        """
        return self

    async def __anext__(self) -> TransformBatch[Key, Value]:
        await self._commit_or_go_back()
        while True:
            records = await self.consumer.poll(self._max_records)
            if records:
                return await self._begin(records)

    async def _begin(
        self, records: Sequence[ConsumerRecord[Key, Value]]
    ) -> TransformBatch[Key, Value]:
        partitions = {TopicPartition(record.topic, record.partition) for record in records}
        offsets = {
            partition: offset
            for partition, offset in self.consumer.positions().items()
            if partition in partitions
        }
        transaction = self.producer.transaction()
        batch = TransformBatch(records, offsets, self.producer, transaction)
        self._undecided = batch
        await transaction.__aenter__()
        self._undecided, self._batch = None, batch
        return batch

    async def _commit_or_go_back(self) -> None:
        """Commit the current batch, or else make sure that it is handed out again."""
        try:
            await self._end_batch()
        except (errors.TransactionAbortableError, errors.CommitFailedError) as error:
            self._aborts += 1
            if self._aborts > ABORTS_IN_A_ROW_MAX:
                raise
            logger.warning("a batch is read again, because its transaction was aborted: %s", error)
        except (errors.FencedError, errors.CommitUnknownError) as error:
            self._fences += 1
            if self._fences > FENCED_IN_A_ROW_MAX or error.code is ErrorCode.FENCED_INSTANCE_ID:
                raise
            logger.warning("the producer is initialized again: %s", error)
        if self._undecided is not None:
            await self.producer.reinitialize()  # if it has to
            await self._find_place(self._undecided.first_offsets)
            self._undecided = None

    async def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is None:
            return
        self._undecided = batch
        async with _Entered(batch.transaction):
            await batch.transaction.send_offsets(batch.offsets, self.consumer)
        self._undecided = None
        self._aborts = self._fences = 0

    async def _find_place(self, first_offsets: Mapping[TopicPartition, int]) -> None:
        """Continue where the group is: at the start of the batch, unless it was committed."""
        ours = [each for each in first_offsets if each in self.consumer.assignment]
        for partition, committed in (await self.consumer.committed(ours)).items():
            if partition not in self.consumer.assignment:
                continue
            if committed is None:
                self.consumer.seek(partition, first_offsets[partition])
            else:
                self.consumer.seek(partition, committed.offset, leader_epoch=committed.leader_epoch)

    async def _leave(self) -> None:
        if not self._has_failed:
            await self._end_batch()
        elif self._batch is not None:
            batch, self._batch = self._batch, None
            left = errors.TransactionStateError("the loop was left with an exception")
            await batch.transaction.__aexit__(type(left), left, None)


class _Entered:
    """The end of a block that was entered elsewhere."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def __aenter__(self) -> None:
        """Do nothing: it was entered before."""

    async def __aexit__(self, *details: *ExcDetails) -> None:
        await self._transaction.__aexit__(*details)
