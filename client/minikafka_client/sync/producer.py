"""The producer for ordinary programs: records go into the buffer in the caller's thread.

Only what concerns a whole batch crosses to the trio thread, so a record costs about as much as with
the trio producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event
from time import monotonic, time
from typing import Generic, Self

from minikafka_client.core.appender import NoMetadata, NoRoom
from minikafka_client.core.plain_records import OVERHEAD_SIZE_BYTES
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.record_handle import RecordHandle, RecordHandles, metadata_of
from minikafka_client.signatures import ExcDetails
from minikafka_client.sync.trio_thread import ContextProxy, Proxy, blocking
from minikafka_client.trio_api import producer as trio_producer
from minikafka_client.trio_api import transactions as trio_transaction
from minikafka_client.trio_api.delivery import wait_until_done
from minikafka_client.trio_api.producer import ProducerBase
from minikafka_client.trio_api.producer_engine import ProducerEngine
from minikafka_client.trio_api.transactions import HasGroup
from minikafka_client.types import (
    GroupMetadata,
    Headers,
    Key,
    Offsets,
    ProducerRecord,
    RecordMetadata,
    Value,
)


class Delivery(RecordHandle):
    """The delivery of one record: ``delivery.result()`` returns a `RecordMetadata` or raises."""

    __slots__ = ()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Raises:
            KafkaError: the record was not delivered.
            TimeoutError: it is not decided after ``timeout_s``.
        """
        _wait_until_done([self[0]], timeout_s)
        return metadata_of(*self)


class Deliveries(RecordHandles[Delivery]):
    """The handles of many records; ``deliveries.result()`` returns a list of `RecordMetadata`."""

    def __init__(self) -> None:
        super().__init__(Delivery)

    def result(self, timeout_s: float | None = None) -> list[RecordMetadata]:
        """Wait until all are decided.

        Raises:
            KafkaError: why the first of the records that failed was not delivered.
            TimeoutError: some are not decided after ``timeout_s``.
        """
        _wait_until_done(self._batches(), timeout_s)
        return self._results()


def _wait_until_done(batches: list[ProducerBatch], timeout_s: float | None) -> None:
    deadline = None if timeout_s is None else monotonic() + timeout_s
    for batch in [each for each in batches if each.state is not BatchState.DONE]:
        done = Event()
        # The trio thread first sets DONE and then calls what it finds here. What is added too late
        # to be called sees DONE.
        batch.on_done.append(done.set)
        if batch.state is not BatchState.DONE:
            remaining_s = None if deadline is None else max(0.0, deadline - monotonic())
            if not done.wait(remaining_s):
                raise TimeoutError(f"the delivery is not decided after {timeout_s} s")


class Transaction(Proxy[trio_transaction.Transaction]):
    """One transaction of a producer: ``with producer.transaction() as transaction``.

    Raises (when the block is left without an exception):
        TransactionAbortedError: something could not be delivered, or it took too long; it was
            aborted, and may be retried.
        FencedError: another producer with the same ``transactional_id`` took over.
        CommitUnknownError: the coordinator did not answer within ``delivery_timeout_ms``.
        KafkaError: the producer can no longer be used.
    """

    def __enter__(self) -> Self:
        self._thread.call(self._trio.__aenter__)
        return self

    def __exit__(self, *details: *ExcDetails) -> None:
        self._thread.call(self._trio.__aexit__, *details)

    def send_offsets(self, offsets: Offsets, consumer: HasGroup | GroupMetadata | str) -> None:
        """Commit offsets of a consumer's group when, and only when, the transaction is committed.

        The coordinator checks that the consumer is still a member (KIP-447). A group id alone, or a
        consumer that is not subscribed, commits for a group without members.

        Raises:
            CommitFailedError: the consumer has been removed from its group; leave the block.
            TransactionAbortableError: the offsets were refused; leave the block.
            TransactionStateError: the transaction is not open.
            FencedError: the producer or the member has been replaced.
        """
        if not isinstance(consumer, (GroupMetadata, str)):
            consumer = consumer.group_metadata()  # in this thread: it may be a blocking one
        self._thread.call(self._trio.send_offsets, offsets, consumer)

    prepare = blocking(trio_transaction.Transaction.prepare)


class Producer(
    ProducerBase[Key, Value], ContextProxy[trio_producer.Producer[Key, Value]], Generic[Key, Value]
):
    """Sends records: ``with Producer("localhost:9092", acks="all") as producer``.

    Any thread may send. Leaving the block flushes; an exception drops what is not yet sent, and its
    handles raise `ClosedError`. With a ``transactional_id``, everything is sent inside
    `transaction` blocks.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        key_serializer, value_serializer: convert keys and values to bytes; see
            `minikafka_client.serializers`. None: they are bytes.
        options: see `minikafka_client.producer_options.ProducerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        TypeError: there is no such option.
        ValueError: an option is refused.
    """

    _is_shared = True

    def _use(self, engine: ProducerEngine) -> None:
        super()._use(engine)
        self._lock = engine.loop.lock
        self._open_with_block(trio_producer.Producer[Key, Value]._around(engine))

    def __exit__(self, *details: *ExcDetails) -> None:
        self._sticky = {}
        super().__exit__(*details)

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
                # The same as `_put` for most records, in a third of the time.
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
                return Delivery(self._put(topic, value, key, partition, timestamp_ms, headers))
            except (NoMetadata, NoRoom) as reason:
                if isinstance(reason, NoMetadata):
                    self._thread.token.run_sync_soon(self._engine.keeper.want, [topic])
                raise self._would_wait(topic, reason) from None

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

        The returned handle later has the partition and offset of the record.

        Raises:
            KafkaError: no metadata or no room in the buffer within ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        with self._lock:
            if key is None and partition is None and timestamp_ms is None and not headers:
                # The same as `_put` for most records, in a third of the time.
                batch = self._sticky.get(topic)
                if batch is not None and type(value) is bytes:
                    room = batch.room - len(value)
                    if room >= 0 and time() < batch.now_until_s:
                        batch.values.append(value)
                        batch.room = room - OVERHEAD_SIZE_BYTES
                        index = batch.record_count
                        batch.record_count = index + 1
                        return Delivery((batch, index))
        give_up_at: float | None = None
        while True:
            try:
                with self._lock:
                    return Delivery(self._put(topic, value, key, partition, timestamp_ms, headers))
            except (NoMetadata, NoRoom) as reason:
                if give_up_at is None:
                    give_up_at = self._engine.now() + self._max_block_s
                if isinstance(reason, NoMetadata):
                    self._thread.call(self._engine.wait_for_metadata, topic, give_up_at)
                else:
                    self._thread.call(self._wait_for_room, give_up_at)

    async def _wait_for_room(self, give_up_at: float) -> None:
        # Batches may have been delivered between the attempt and this call.
        accumulator = self._engine.accumulator
        if accumulator.used_bytes >= accumulator.buffer_memory // 2:
            await self._engine.wait_for_room(give_up_at)

    def send_and_wait(
        self,
        topic: str,
        value: Value | None,
        key: Key | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send one record, and wait until it is stored.

        Each call waits for brokers, so one after the other is slow; `send` many records and look at
        their handles later, or use `send_many`, for throughput.

        Raises:
            KafkaError: the record was not delivered; see `send` for what else.
        """
        delivery = self.send(
            topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )
        self._thread.call(wait_until_done, delivery[0])  # with linger_ms=0, it is sent at once
        return delivery.result()

    def send_many(
        self, topic: str, records: Iterable[Value | ProducerRecord[Key, Value] | None]
    ) -> Deliveries:
        """Put many records (or just values) into the buffer, faster than one at a time.

        Raises:
            KafkaError: as `send`; the records before the one that failed are sent.
        """
        deliveries = Deliveries()
        for part in self._put_many(topic, records, deliveries):
            for value, key, headers, timestamp_ms, partition in part:
                sent = self.send(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
                deliveries.add(*sent, 1)
        return deliveries

    def transaction(self) -> Transaction:
        """A transaction: ``with producer.transaction() as transaction``.

        Leaving the block commits: it waits for delivery, and then for the coordinator. An exception
        aborts, which takes a few seconds at most, and is raised again. All threads send into
        the one open transaction. See `Transaction` for what it raises.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return Transaction(self._thread, self._trio.transaction())

    flush = blocking(trio_producer.Producer[Key, Value].flush)
    complete_transaction = blocking(trio_producer.Producer[Key, Value].complete_transaction)
    reinitialize = blocking(trio_producer.Producer[Key, Value].reinitialize)
    statistics = blocking(trio_producer.Producer[Key, Value].statistics)
    partitions_for = blocking(trio_producer.Producer[Key, Value].partitions_for)
