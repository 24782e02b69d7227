"""The producer for trio programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from time import time, time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, cast

import trio

from minikafka_client.core.appender import NoMetadata, NoRoom
from minikafka_client.core.plain_records import OVERHEAD_SIZE_BYTES
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.serializing import Serializers
from minikafka_client.options import split_options
from minikafka_client.producer_options import CompressionType, ProducerConfig, ProducerOptions
from minikafka_client.statistics import ProducerStatistics
from minikafka_client.trio_face.delivery import Deliveries, Delivery
from minikafka_client.trio_face.producing import Producing
from minikafka_client.trio_face.transaction import Transaction
from minikafka_client.types import (
    Headers,
    Key,
    PreparedTransactionState,
    ProducerRecord,
    TransactionOutcome,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Serializer

__all__ = ["CompressionType", "Deliveries", "Delivery", "Producer"]

_SENDS_PER_CHECKPOINT: Final = 256
_RECORDS_PER_CHUNK: Final = 1_024


class Producer(Generic[Key, Value]):
    """Sends records: ``async with Producer("localhost:9092", acks="all") as producer``.

    Leaving the block flushes. Leaving it with an exception drops what is not sent yet; those
    handles raise `ClosedError`.

    With a ``transactional_id``, entering it ends what an older producer of that id has left open,
    and everything is sent inside of `transaction` blocks.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        key_serializer, value_serializer: what makes bytes of keys and values; see
            `minikafka_client.serializers`. None: they are bytes.
        options: see `minikafka_client.producer_options.ProducerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        key_serializer: Serializer[Key] | None = None,
        value_serializer: Serializer[Value] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        connection, config = split_options(options, ProducerConfig)
        serializers = Serializers(key_serializer, value_serializer)
        self._producing = Producing(bootstrap, connection, config, serializers=serializers)
        self._sticky: dict[str, ProducerBatch] = self._producing.sticky
        self._append = self._producing.append
        self._max_block_s = config.max_block_ms / 1000
        self._sends = 0

    async def __aenter__(self) -> Self:
        await self._producing.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._producing.__aexit__(exc_type, exc, traceback)

    def send_nowait(
        self,
        topic: str,
        value: Value | None,
        key: Key | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Like `send`, without waiting.

        Raises:
            trio.WouldBlock: the buffer is full, or the topic's metadata is not known yet; `send`
                waits for both.
            RecordTooLargeError: the record can never be sent.
        """
        if key is None and partition is None and timestamp_ms is None and not headers:
            # The same as below for most records, in a third of the time.
            batch = self._sticky.get(topic)
            if batch is not None and type(value) is bytes:
                room = batch.room - len(value)
                if room >= 0 and time() < batch.now_until_s:
                    batch.values.append(value)
                    batch.room = room - OVERHEAD_SIZE_BYTES
                    index = batch.record_count
                    batch.record_count = index + 1
                    return Delivery((batch, index))
        try:
            return self._put(topic, value, key, partition, timestamp_ms, headers)
        except NoMetadata as reason:
            self._producing.keeper.want([topic])
            raise trio.WouldBlock from reason
        except NoRoom as reason:
            raise trio.WouldBlock from reason

    async def send(
        self,
        topic: str,
        value: Value | None,
        key: Key | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Put a record into the buffer; waits for metadata and for room in the buffer.

        Cancelled, it has sent nothing. It is a checkpoint whenever it waits, and every 256 times.
        The returned handle says later where the record went.

        Raises:
            KafkaError: the topic's metadata or room was not to be had within ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        self._sends += 1
        if not self._sends % _SENDS_PER_CHECKPOINT:
            await trio.lowlevel.checkpoint()
        if key is None and partition is None and timestamp_ms is None and not headers:
            # The same as below for most records, in a third of the time.
            batch = self._sticky.get(topic)
            if batch is not None and type(value) is bytes:
                room = batch.room - len(value)
                if room >= 0 and time() < batch.now_until_s:
                    batch.values.append(value)
                    batch.room = room - OVERHEAD_SIZE_BYTES
                    index = batch.record_count
                    batch.record_count = index + 1
                    return Delivery((batch, index))
        try:
            return self._put(topic, value, key, partition, timestamp_ms, headers)
        except (NoMetadata, NoRoom):
            return await self._send_patiently(topic, value, key, partition, timestamp_ms, headers)

    def _put(
        self,
        topic: str,
        value: Value | None,
        key: Key | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery:
        """Append a record; those that follow it within a millisecond find the short way open."""
        if timestamp_ms is not None:
            return Delivery(self._append(topic, value, key, partition, timestamp_ms, headers))
        now_ms = time_ns() // 1_000_000
        batch, index = self._append(topic, value, key, partition, now_ms, headers)
        batch.now_until_s = (now_ms + 1) / 1000
        return Delivery((batch, index))

    async def _send_patiently(
        self,
        topic: str,
        value: Value | None,
        key: Key | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery:
        self._producing.check_open()
        give_up_at = trio.current_time() + self._max_block_s
        while True:
            try:
                return self._put(topic, value, key, partition, timestamp_ms, headers)
            except NoMetadata:
                await self._producing.wait_for_metadata(topic, give_up_at)
            except NoRoom:
                await self._producing.wait_for_room(give_up_at)

    async def send_many(
        self, topic: str, records: Iterable[Value | ProducerRecord[Key, Value] | None]
    ) -> Deliveries:
        """Put many records (or just values) into the buffer, faster than one at a time.

        Cancelled, it has sent some of them; nothing says which.

        Raises:
            KafkaError: as `send`; the records before the one that failed are sent.
        """
        deliveries = Deliveries()
        stream = iter(records)
        while chunk := list(islice(stream, _RECORDS_PER_CHUNK)):
            await trio.lowlevel.checkpoint()  # what is full is sent while we go on
            if set(map(type, chunk)) == {bytes}:
                await self._send_values(topic, cast("list[bytes]", chunk), deliveries)
                continue
            for record in chunk:
                whole: ProducerRecord[Any, Any] = (
                    cast("ProducerRecord[Any, Any]", record)
                    if isinstance(record, ProducerRecord)
                    else ProducerRecord(record)
                )
                value, key, headers, timestamp_ms, partition = whole
                sent = await self.send(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
                deliveries.add(*sent, 1)
        return deliveries

    async def _send_values(self, topic: str, values: list[bytes], deliveries: Deliveries) -> None:
        """Send values a batch at a time; `send` opens a batch when there is none with room."""
        start = 0
        while start < len(values):
            batch = self._sticky.get(topic)
            if batch is not None:
                first = batch.record_count
                count = batch.append_values(values, start, time_ns() // 1_000_000)
                deliveries.add(batch, first, count)
                start += count
                if start == len(values):
                    return
            deliveries.add(*await self.send(topic, cast("Any", values[start])), 1)
            start += 1

    async def flush(self) -> None:
        """Wait until everything sent so far is delivered or has failed; sends without linger."""
        await self._producing.flush()

    def transaction(self) -> Transaction:
        """A transaction: ``async with producer.transaction() as transaction``.

        Leaving the block commits: it waits for what was sent, and then for the coordinator. Leaving
        it with an exception (or cancelled) aborts, for at most some seconds, and raises it again.
        All tasks send into the one open transaction. See `Transaction` for what it raises.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return Transaction(self._producing.require_transactions())

    @property
    def prepared_transaction(self) -> PreparedTransactionState | None:
        """The transaction that waits for `complete_transaction`, or None.

        A producer with ``transaction_two_phase_commit_enable`` finds it when its block is entered,
        if the one before it prepared a transaction and was not told what to do with it.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return self._producing.require_transactions().prepared

    async def complete_transaction(
        self, prepared: PreparedTransactionState | None
    ) -> TransactionOutcome:
        """Do what was decided about the prepared transaction (KIP-939).

        It is committed if it is the one that is given, and aborted if another one is, or None.
        Give what your own committed data says, never what was just prepared: so a crash at any
        point leads to the same end. When it fails, it may be repeated.

        Returns:
            What was done. `TransactionOutcome.NONE_OPEN`: nothing was prepared (any more).

        Raises:
            TransactionStateError: a transaction is open and not prepared; or it should be aborted,
                and somebody else has committed it.
            TransactionAbortedError: it should be committed, and is aborted: by somebody else, or
                because it took longer than its timeout.
            CommitUnknownError: the coordinator did not answer within ``delivery_timeout_ms``.
            FencedError: another producer with the same ``transactional_id`` took over.
            ValueError: the producer has no ``transactional_id``.
        """
        return await self._producing.require_transactions().complete(prepared)

    async def begin_anew(self) -> None:
        """Go on after a fatal error of a transaction, as a new producer would.

        Only for those who know that no other producer of the same ``transactional_id`` is alive
        (it would be fenced in turn): the transaction has taken too long, say, or nobody knows
        whether it was committed. After it, it is decided.

        Raises:
            KafkaError: the coordinator refused, or could not be asked within ``max_block_ms``.
            ValueError: the producer has no ``transactional_id``.
        """
        await self._producing.require_transactions().begin_anew()

    def statistics(self) -> ProducerStatistics:
        """What the producer has done, and what waits; see `minikafka_client.statistics`.

        Raises:
            ClosedError: it is not open.
        """
        self._producing.check_open()
        return self._producing.statistics()

    async def partitions_for(self, topic: str) -> list[int]:
        """The partition indexes of a topic (which the broker may create, if it is set to).

        Raises:
            KafkaError: nobody could tell within ``max_block_ms``.
        """
        self._producing.check_open()
        await trio.lowlevel.checkpoint()
        give_up_at = trio.current_time() + self._max_block_s
        await self._producing.wait_for_metadata(topic, give_up_at)
        return list(self._producing.cluster.topics[topic].partitions)
