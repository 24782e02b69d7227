"""The producer for trio programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import time, time_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, Unpack

import trio

from minikafka_client.core.appender import NoMetadata, NoRoom, append_many
from minikafka_client.core.plain_records import OVERHEAD_SIZE_BYTES
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.record_handle import RecordHandles
from minikafka_client.core.serialization import Serializers
from minikafka_client.errors import BufferFullError
from minikafka_client.options import ConnectionConfig, split_options
from minikafka_client.producer_options import ProducerConfig, ProducerOptions
from minikafka_client.properties import producer_options
from minikafka_client.signatures import ExcDetails, with_options
from minikafka_client.statistics import ProducerStatistics
from minikafka_client.trio_api.delivery import Deliveries, Delivery
from minikafka_client.trio_api.producer_engine import ProducerEngine
from minikafka_client.trio_api.transactions import Transaction
from minikafka_client.types import (
    Headers,
    Key,
    PreparedTransactionState,
    ProducerRecord,
    RecordMetadata,
    TransactionOutcome,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Serializer

_SENDS_PER_CHECKPOINT: Final = 256


class ProducerBase(Generic[Key, Value]):
    """A producer without its ways of waiting.

    Where a record costs less than a call, in ``send`` and ``send_nowait``, the two APIs repeat the
    same lines: one awaits, the other one holds a lock.
    """

    _is_shared: ClassVar[bool] = False
    """Whether threads without trio append records, while they hold the engine's lock."""

    @with_options(ProducerConfig, ConnectionConfig)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        key_serializer: Serializer[Key] | None = None,
        value_serializer: Serializer[Value] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        connection, config = split_options(options, ProducerConfig, type(self).__name__)
        serializers = Serializers(key_serializer, value_serializer)
        self._use(
            ProducerEngine(
                bootstrap_servers,
                connection,
                config,
                serializers=serializers,
                is_shared=self._is_shared,
            )
        )

    def _use(self, engine: ProducerEngine) -> None:
        self._engine = engine
        self._append = engine.append
        self._sticky: dict[str, ProducerBatch] = engine.sticky
        self._max_block_s = engine.config.max_block_ms / 1000

    @classmethod
    def _around(cls, engine: ProducerEngine) -> Self:
        producer = cls.__new__(cls)
        producer._use(engine)
        return producer

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, object],
        *,
        key_serializer: Serializer[Key] | None = None,
        value_serializer: Serializer[Value] | None = None,
    ) -> Self:
        """Make a producer of a dictionary for confluent-kafka, or of a Java client's properties.

        ``{"bootstrap.servers": "localhost:9092", "linger.ms": 5}``: the names are Kafka's,
        or librdkafka's where they mean the same; `minikafka_client.properties` has them all.
        The other arguments are those of the class.

        Raises:
            TypeError: Kafka has no such property.
            ValueError: a property cannot be set here, or its value is malformed.
        """
        bootstrap_servers, options = producer_options(config, cls.__name__)
        return cls(
            bootstrap_servers,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            **options,
        )

    def _put(
        self,
        topic: str,
        value: Value | None,
        key: Key | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> tuple[ProducerBatch, int]:
        """Append a record; those that follow within a millisecond may take the short path."""
        if timestamp_ms is not None:
            return self._append(topic, value, key, partition, timestamp_ms, headers)
        now_ms = time_ns() // 1_000_000
        batch, index = self._append(topic, value, key, partition, now_ms, headers)
        batch.now_until_s = (now_ms + 1) / 1000
        return batch, index

    def _put_many(
        self, topic: str, records: Iterable[Any], handles: RecordHandles[Any]
    ) -> Iterator[list[ProducerRecord[Any, Any]]]:
        lock = self._engine.loop.lock
        return append_many(topic, records, handles, self._sticky, lock, _now_ms)

    @staticmethod
    def _would_wait(topic: str, reason: NoMetadata | NoRoom) -> BufferFullError:
        if isinstance(reason, NoRoom):
            return BufferFullError("the buffer is full; use send, which waits")
        return BufferFullError(
            f"the partitions of topic {topic!r} are not known yet; use send, which waits"
        )

    @property
    def prepared_transaction(self) -> PreparedTransactionState | None:
        """The transaction that waits for `complete_transaction`, or None.

        A producer with ``transaction_two_phase_commit_enable`` finds one on entering its block if
        its predecessor prepared a transaction and did not complete it.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return self._engine.require_transactions().prepared


def _now_ms() -> int:
    return time_ns() // 1_000_000


class Producer(ProducerBase[Key, Value]):
    """Sends records: ``async with Producer("localhost:9092", acks="all") as producer``.

    Leaving the block flushes. Leaving it with an exception drops what has not been sent; those
    handles raise `ClosedError`.

    With a ``transactional_id``, entering the block ends what an older producer of that id has left
    open, and everything is sent inside `transaction` blocks.

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

    _sends = 0

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *details: *ExcDetails) -> bool | None:
        return await self._engine.__aexit__(*details)

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
        if key is None and partition is None and timestamp_ms is None and not headers:
            # The short path: the same as below for most records, in a third of the time.
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
                self._engine.keeper.want([topic])
            raise self._would_wait(topic, reason) from None

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

        If cancelled, it has sent nothing. It is a checkpoint whenever it waits, and every 256
        calls. Await the returned handle to learn where the record was stored.

        Raises:
            KafkaError: the topic's metadata was not available, or the buffer stayed full, for
                ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        self._sends += 1
        if not self._sends % _SENDS_PER_CHECKPOINT:
            await trio.lowlevel.checkpoint()
        if key is None and partition is None and timestamp_ms is None and not headers:
            # The short path: the same as below for most records, in a third of the time.
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
        except (NoMetadata, NoRoom):
            return await self._send_patiently(topic, value, key, partition, timestamp_ms, headers)

    async def send_and_wait(
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

        Each call waits for brokers, so one after the other is slow; `send` many records and await
        their handles, or use `send_many`, for throughput.

        Raises:
            KafkaError: the record was not delivered; see `send` for what else.
        """
        return await (
            await self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        )

    async def _send_patiently(
        self,
        topic: str,
        value: Value | None,
        key: Key | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery:
        self._engine.check_open()
        give_up_at = trio.current_time() + self._max_block_s
        while True:
            try:
                return Delivery(self._put(topic, value, key, partition, timestamp_ms, headers))
            except NoMetadata:
                await self._engine.wait_for_metadata(topic, give_up_at)
            except NoRoom:
                await self._engine.wait_for_room(give_up_at)

    async def send_many(
        self, topic: str, records: Iterable[Value | ProducerRecord[Key, Value] | None]
    ) -> Deliveries:
        """Put many records (or just values) into the buffer, faster than one at a time.

        If cancelled, it has sent some of them.

        Raises:
            KafkaError: as `send`; the records before the one that failed are sent.
        """
        deliveries = Deliveries()
        for part in self._put_many(topic, records, deliveries):
            await trio.lowlevel.checkpoint()  # full batches are sent meanwhile
            for value, key, headers, timestamp_ms, partition in part:
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

    async def flush(self) -> None:
        """Wait until everything sent so far is delivered or has failed; sends without linger."""
        await self._engine.flush()

    def transaction(self) -> Transaction:
        """A transaction: ``async with producer.transaction() as transaction``.

        Leaving the block commits: it waits for what was sent, and then for the coordinator. Leaving
        it with an exception (or cancelled) aborts, within some seconds, and re-raises. All tasks
        send into the one open transaction. See `Transaction` for what it raises.

        Raises:
            ValueError: the producer has no ``transactional_id``.
            ClosedError: it is not open.
        """
        return Transaction(self._engine.require_transactions())

    async def complete_transaction(
        self, prepared: PreparedTransactionState | None
    ) -> TransactionOutcome:
        """Commit or abort the prepared transaction, as your own data says (KIP-939).

        It is committed if ``prepared`` names it, and aborted if that is another one, or None. Pass
        what your own committed data says, never what was just prepared: then a crash at any point
        leads to the same outcome. After a failure, call it again.

        Returns:
            What was done. `TransactionOutcome.NONE_OPEN`: nothing was prepared.

        Raises:
            TransactionStateError: a transaction is open and not prepared; or it should be aborted,
                and has been committed elsewhere.
            TransactionAbortedError: it should be committed, and has been aborted: elsewhere, or
                because it took longer than its timeout.
            CommitUnknownError: the coordinator did not answer within ``delivery_timeout_ms``.
            FencedError: another producer with the same ``transactional_id`` took over.
            ValueError: the producer has no ``transactional_id``.
        """
        return await self._engine.require_transactions().complete(prepared)

    async def reinitialize(self) -> None:
        """Continue after a fatal error of a transaction, as a new producer would.

        Use it only if no other producer of the same ``transactional_id`` is alive, since it would
        be fenced in turn: after a transaction that took too long, say, or one whose outcome is
        unknown. Afterwards the old transaction is decided.

        Raises:
            KafkaError: the coordinator refused, or could not be asked within ``max_block_ms``.
            ValueError: the producer has no ``transactional_id``.
        """
        await self._engine.require_transactions().reinitialize()

    def statistics(self) -> ProducerStatistics:
        """Rates, latencies and what is buffered; see `minikafka_client.statistics`.

        Raises:
            ClosedError: it is not open.
        """
        self._engine.check_open()
        return self._engine.statistics()

    async def partitions_for(self, topic: str) -> list[int]:
        """The partition indexes of a topic (which the broker may create, if it is set to).

        Raises:
            KafkaError: no broker answered within ``max_block_ms``.
        """
        self._engine.check_open()
        await trio.lowlevel.checkpoint()
        give_up_at = trio.current_time() + self._max_block_s
        await self._engine.wait_for_metadata(topic, give_up_at)
        return list(self._engine.cluster.topics[topic].partitions)
