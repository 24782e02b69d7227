"""From topics into topics, in transactions: nothing is lost and nothing is repeated."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, cast

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka_client.consumer_options import ConsumerOptions
from minikafka_client.errors import (
    CommitFailedError,
    CommitUnknownError,
    FencedError,
    TransactionAbortableError,
    TransactionStateError,
)
from minikafka_client.options import ConnectionOptions
from minikafka_client.patterns.subscribed import Subscribed, Topics
from minikafka_client.producer_options import ProducerOptions
from minikafka_client.trio_face.producer import Producer
from minikafka_client.trio_face.reading import RebalanceCallback
from minikafka_client.trio_face.transaction import Transaction
from minikafka_client.types import (
    ConsumerRecord,
    Headers,
    Key,
    OffsetAndMetadata,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer, Serializer

logger = logging.getLogger(__name__)

ABORTS_IN_A_ROW_MAX: Final = 10
"""So often a transaction is done again before the application hears of it."""
FENCED_IN_A_ROW_MAX: Final = 3
"""The same after being fenced: another process may have the same transactional id."""


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

        When the transaction is lost already, it does nothing: the batch will be handed out again.

        Raises:
            KafkaError: the topic's metadata or room was not to be had within ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        try:
            await self._producer.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except (TransactionAbortableError, FencedError, CommitUnknownError):
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
    one before together with the group's offsets. What is done elsewhere (a mail that is sent) is
    not covered: after a crash, and after a transaction that had to be aborted, a batch is handed
    out again. Leaving the block commits; leaving it with an exception aborts.

    A member that was given up by its group and does not know it cannot do harm: its offsets are
    refused, and its transaction is aborted (KIP-447). When a transaction had to be aborted, reading
    goes on at the committed offsets. When the producer was fenced, because a transaction took
    longer than ``transaction_timeout_ms``, or nobody knows whether it was committed, it begins anew
    before that, as a new producer would.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        transactional_id: of this process alone, and the same after a restart, so that what a crash
            has left open is ended at once.
        max_records: one transaction has at most so many; fewer when no more are there.
        producer_options: the producer's; options about connections are by default the consumer's.
        key_serializer, value_serializer: as for `Producer`.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is needed, ``isolation_level`` is read_committed.
            A partition without a committed offset is read from its beginning unless
            ``auto_offset_reset`` says otherwise.

    Attributes:
        producer: to ask for statistics and the like.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        transactional_id: str,
        max_records: int = 500,
        producer_options: ProducerOptions | None = None,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if max_records < 1:
            raise ValueError(f"max_records={max_records}; at least 1 is needed")
        isolation_level = options.setdefault("isolation_level", "read_committed")
        if isolation_level != "read_committed":
            raise ValueError(
                f"isolation_level={isolation_level!r}: what is not committed may never "
                f"have been; leave it out"
            )
        super().__init__(
            bootstrap,
            topics,
            options,
            on_partitions_revoked=on_partitions_revoked,
            on_partitions_assigned=on_partitions_assigned,
            on_partitions_lost=on_partitions_lost,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )
        shared = {
            name: value
            for name, value in options.items()
            if name in ConnectionOptions.__annotations__
        }
        produced = cast("ProducerOptions", {**shared, **(producer_options or {})})
        produced["transactional_id"] = transactional_id
        self.producer: Producer[Any, Any] = Producer(
            bootstrap, key_serializer=key_serializer, value_serializer=value_serializer, **produced
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

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._both.__aexit__(exc_type, exc, traceback)

    def __aiter__(self) -> Self:
        """Iterate over batches without end; asking for one commits the one before.

        Raises (while iterating):
            TransactionAbortableError: transactions have failed too often in a row.
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
        """Commit the present batch; if that cannot be, make sure that it is handed out again."""
        try:
            await self._end_batch()
        except (TransactionAbortableError, CommitFailedError) as error:
            self._aborts += 1
            if self._aborts > ABORTS_IN_A_ROW_MAX:
                raise
            logger.warning("a batch is read again, because its transaction is aborted: %s", error)
        except (FencedError, CommitUnknownError) as error:
            self._fences += 1
            if self._fences > FENCED_IN_A_ROW_MAX or error.code is ErrorCode.FENCED_INSTANCE_ID:
                raise
            logger.warning("the producer begins anew: %s", error)
        if self._undecided is not None:
            await self.producer.begin_anew()  # if it has to
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
        """Go on where the group is: at the beginning of the batch, unless it was committed."""
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
            left = TransactionStateError("the loop was left with an exception")
            await batch.transaction.__aexit__(type(left), left, None)


class _Entered:
    """The end of a block whose beginning was somewhere else."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def __aenter__(self) -> None:
        """It was entered before."""

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transaction.__aexit__(exc_type, exc, traceback)
