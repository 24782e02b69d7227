"""The producer for ordinary programs: records go into the buffer in the caller's thread.

Only what concerns a whole batch crosses to the thread that runs trio, so that a record costs about
the same as with the trio face.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from time import time, time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast

from minikafka_client.core.appender import NoMetadata, NoRoom
from minikafka_client.core.plain_records import OVERHEAD_SIZE_BYTES
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.serializing import Serializers
from minikafka_client.errors import BufferFullError, ClosedError
from minikafka_client.options import split_options
from minikafka_client.producer_options import ProducerConfig, ProducerOptions
from minikafka_client.statistics import ProducerStatistics
from minikafka_client.sync.delivery import Delivery
from minikafka_client.sync.portal import Held, Portal
from minikafka_client.sync.transaction import Transaction
from minikafka_client.trio_face.producing import Producing
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


class Producer(Generic[Key, Value]):
    """Sends records: ``with Producer("localhost:9092", acks="all") as producer``.

    All threads may send. Leaving the block flushes; leaving it with an exception drops what is not
    sent yet, and those handles raise `ClosedError`. With a ``transactional_id`` everything is sent
    inside of `transaction` blocks.

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
        self._max_block_s = config.max_block_ms / 1000
        self._lock = threading.RLock()
        self._portal = Portal("Producer")
        self._make = lambda: Producing(
            bootstrap,
            connection,
            config,
            serializers=Serializers(key_serializer, value_serializer),
            lock=self._lock,
            soon=self._portal.token.run_sync_soon,
        )
        self._held: Held[Producing] | None = None
        self._sticky: dict[str, ProducerBatch] = {}

    def __enter__(self) -> Self:
        self._held = self._portal.enter(self._make)
        self._sticky = self._held.value.sticky
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held, self._held = self._held, None
        self._sticky = {}
        if held is not None:
            held.close(exc_type, exc, traceback)

    def _producing(self) -> Producing:
        if self._held is None:
            raise ClosedError("use the Producer inside its `with` block")
        return self._held.value

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
            BufferFullError: the buffer is full, or the topic's metadata is not known yet; `send`
                waits for both.
            RecordTooLargeError: the record can never be sent.
        """
        with self._lock:
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
                return self._append(topic, value, key, partition, timestamp_ms, headers)
            except NoMetadata as reason:
                producing = self._producing()
                self._portal.token.run_sync_soon(producing.keeper.want, [topic])
                raise BufferFullError(
                    f"the partitions of topic {topic!r} are not known yet; use send, which waits"
                ) from reason
            except NoRoom as reason:
                raise BufferFullError("the buffer is full; use send, which waits") from reason

    def _append(
        self,
        topic: str,
        value: Value | None,
        key: Key | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery:
        """Append a record; those that follow it within a millisecond find the short way open."""
        append = self._producing().append
        with self._lock:
            if timestamp_ms is not None:
                return Delivery(append(topic, value, key, partition, timestamp_ms, headers))
            now_ms = time_ns() // 1_000_000
            batch, index = append(topic, value, key, partition, now_ms, headers)
            batch.now_until_s = (now_ms + 1) / 1000
            return Delivery((batch, index))

    def send(
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

        The returned handle says later where the record went.

        Raises:
            KafkaError: the topic's metadata or room was not to be had within ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        producing = self._producing()
        give_up_at: float | None = None
        while True:
            try:
                return self._append(topic, value, key, partition, timestamp_ms, headers)
            except (NoMetadata, NoRoom) as reason:
                if give_up_at is None:
                    give_up_at = producing.now() + self._max_block_s
                if isinstance(reason, NoMetadata):
                    self._portal.call(producing.wait_for_metadata, topic, give_up_at)
                else:
                    self._portal.call(self._wait_for_room, give_up_at)

    async def _wait_for_room(self, give_up_at: float) -> None:
        producing = self._producing()
        # Batches may have been delivered between the attempt and this call.
        if producing.accumulator.used_bytes >= producing.accumulator.buffer_memory_bytes // 2:
            await producing.wait_for_room(give_up_at)

    def send_many(
        self, topic: str, records: Iterable[Value | ProducerRecord[Key, Value] | None]
    ) -> list[Delivery]:
        """Put many records (or just values) into the buffer.

        Raises:
            KafkaError: as `send`; the records before the one that failed are sent.
        """
        sent: list[Delivery] = []
        for record in records:
            whole: ProducerRecord[Any, Any] = (
                cast("ProducerRecord[Any, Any]", record)
                if isinstance(record, ProducerRecord)
                else ProducerRecord(record)
            )
            value, key, headers, timestamp_ms, partition = whole
            sent.append(
                self.send(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
            )
        return sent

    def flush(self) -> None:
        """Wait until everything sent so far is delivered or has failed; sends without linger."""
        self._portal.call(self._producing().flush)

    def transaction(self) -> Transaction:
        """A transaction: ``with producer.transaction() as transaction``.

        Leaving the block commits: it waits for what was sent, and then for the coordinator. Leaving
        it with an exception aborts, for at most some seconds, and raises it again. All threads
        send into the one open transaction. See `minikafka_client.Transaction` for what it raises.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return Transaction(self._portal, self._producing().require_transactions())

    @property
    def prepared_transaction(self) -> PreparedTransactionState | None:
        """The transaction that waits for `complete_transaction`, or None.

        A producer with ``transaction_two_phase_commit_enable`` finds it when its block is entered,
        if the one before it prepared a transaction and was not told what to do with it.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return self._producing().require_transactions().prepared

    def complete_transaction(self, prepared: PreparedTransactionState | None) -> TransactionOutcome:
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
        return self._portal.call(self._producing().require_transactions().complete, prepared)

    def begin_anew(self) -> None:
        """Go on after a fatal error of a transaction, as a new producer would.

        Only for those who know that no other producer of the same ``transactional_id`` is alive.

        Raises:
            KafkaError: the coordinator refused, or could not be asked within ``max_block_ms``.
            ValueError: the producer has no ``transactional_id``.
        """
        self._portal.call(self._producing().require_transactions().begin_anew)

    def statistics(self) -> ProducerStatistics:
        """What the producer has done, and what waits; see `minikafka_client.statistics`.

        Raises:
            ClosedError: it is not open.
        """
        return self._portal.call(self._statistics)

    async def _statistics(self) -> ProducerStatistics:
        return self._producing().statistics()

    def partitions_for(self, topic: str) -> list[int]:
        """The partition indexes of a topic (which the broker may create, if it is set to).

        Raises:
            KafkaError: nobody could tell within ``max_block_ms``.
        """
        producing = self._producing()
        give_up_at = producing.now() + self._max_block_s
        self._portal.call(producing.wait_for_metadata, topic, give_up_at)
        return list(producing.cluster.topics[topic].partitions)
