"""Writes records on blocking sockets: no trio, no threads.

It is made for worker processes that write what they have and end. Nothing happens behind the
caller's back: batches are sent, and answers received, while the caller sends more, and in `flush`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.produce import ProduceResponse
from minikafka.protocol.records.compression import Compression
from minikafka_client.core.accumulator import Accumulator, StickyPartitions
from minikafka_client.core.appender import Appender, NoMetadata, NoRoom
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster, parse_bootstrap
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.sender import Sender
from minikafka_client.core.sender_messages import (
    AddPartitions,
    Connect,
    Effect,
    Event,
    MetadataChanged,
    NodeConnected,
    NodeFailed,
    Produced,
    ProducerIdFailed,
    ProducerIdGranted,
    RefreshMetadata,
    RequestProducerId,
    SenderConfig,
    SendProduce,
    Tell,
)
from minikafka_client.core.wire import Answer
from minikafka_client.errors import (
    ClosedError,
    KafkaError,
    RecordTooLargeError,
    RequestTimeoutError,
    UnsendableRequestError,
    broker_error,
)
from minikafka_client.options import split_options
from minikafka_client.plans.ask import ANY_BROKER, Plan, call
from minikafka_client.plans.rounds import refresh_metadata
from minikafka_client.producer_options import ProducerConfig, ProducerOptions
from minikafka_client.sync.network import BlockingNetwork
from minikafka_client.sync.stale_metadata import StaleMetadata
from minikafka_client.types import Headers, TopicPartition

_NO_RESPONSE: Final = ProduceResponse(responses=[])


class Writer:
    """Sends records: ``with Writer("localhost:9092") as writer``; leaving the block flushes.

    There are no handles for single records: `flush` returns when all of them are stored, or raises
    what went wrong with the first that are not.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        options: see `minikafka_client.producer_options.ProducerConfig` (nothing lingers here) and
            `minikafka_client.options.ConnectionConfig`.

    Attributes:
        delivered_records: how many records brokers have acknowledged.
        end_offsets: by topic and partition, the offset behind the last record acknowledged (with
            acks=0 nobody tells).

    Raises:
        ValueError: an option is refused.
    """

    def __init__(self, bootstrap: str | Sequence[str], **options: Unpack[ProducerOptions]) -> None:
        connection, config = split_options(options, ProducerConfig)
        self._check(config)
        self.delivered_records = 0
        self.end_offsets: dict[tuple[str, int], int] = {}
        self._config = config
        self._cluster = Cluster(parse_bootstrap(bootstrap))
        self._network = BlockingNetwork(self._cluster, connection, random.random)
        self._retry = Backoff(
            connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random
        )
        self._accumulator = Accumulator(
            batch_size_bytes=config.batch_size_bytes,
            buffer_memory_bytes=config.buffer_memory_bytes,
            delivery_timeout_s=config.delivery_timeout_ms / 1000,
        )
        sender_config = SenderConfig(
            acks=-1 if config.acks == "all" else config.acks,
            is_idempotent=config.is_idempotent,
            linger_s=config.delivery_timeout_ms / 1000,  # only what is full, until flush
            max_in_flight=config.max_in_flight,
            request_size_bytes_max=config.request_size_bytes_max,
            request_timeout_ms=connection.request_timeout_ms,
            compression=Compression[config.compression.upper()],
            compression_level=config.compression_level,
            transactional_id=config.transactional_id,
        )
        self._sender = self._new_sender(sender_config)
        self._has_full = False
        self._appender = Appender(
            self._cluster,
            self._accumulator,
            StickyPartitions(random.random),
            config.partitioner,
            min(config.request_size_bytes_max, config.buffer_memory_bytes),
            clock=time.monotonic,
            on_opened=lambda _batch: None,
            on_full=self._note_full,
        )
        self._stale = StaleMetadata(self._network, self._retry)
        self._first_error: KafkaError | None = None
        self._unreachable: list[NodeFailed] = []

    def _check(self, config: ProducerConfig) -> None:
        if config.transactional_id is not None:
            raise ValueError(
                "a Writer has no transactions; use minikafka_client.sync.Producer, or "
                "TransactionalWriter"
            )

    def _new_sender(self, config: SenderConfig) -> Sender:
        return Sender(config, self._cluster, self._accumulator, self._retry)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections; what is not flushed is lost."""
        self._network.close()

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            KafkaError: there is no such topic, or nobody could tell within ``max_block_ms``.
        """
        give_up_at = time.monotonic() + self._config.max_block_ms / 1000
        attempt = 0
        while not self._cluster.partition_count(topic):
            self._network.run_plan(
                lambda _cluster: refresh_metadata([topic], allow_auto_topic_creation=True)
            )
            known = self._cluster.topics.get(topic)
            pause_s = self._retry.seconds(attempt)
            attempt += 1
            if known is not None and known.error_code:
                error = broker_error(known.error_code, f"topic {topic!r}")
                if not error.is_retriable or time.monotonic() + pause_s > give_up_at:
                    raise error
                time.sleep(pause_s)
        return self._cluster.partition_count(topic)

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Put a record into the buffer; full batches are sent.

        Raises:
            KafkaError: an earlier record failed, or there was no room within ``max_block_ms``.
        """
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        while True:
            try:
                self._appender.append(topic, value, key, partition, timestamp_ms, headers)
                break
            except NoMetadata:
                self.partition_count(topic)
            except NoRoom:
                self._make_room()
        if self._has_full:
            self._go_on()

    def send_batch(self, topic: str, partition: int, payload: bytearray, record_count: int) -> None:
        """Send a record batch that is encoded already (magic 2, no producer id, CRC right).

        Its base offset, leader epoch and producer fields are overwritten. The caller must not
        change ``payload`` any more.

        Raises:
            KafkaError: as `send`.
            RecordTooLargeError: it is larger than ``request_size_bytes_max``.
        """
        if len(payload) > self._config.request_size_bytes_max:
            raise RecordTooLargeError(
                f"a batch of {len(payload)} bytes; request_size_bytes_max is "
                f"{self._config.request_size_bytes_max}"
            )
        while True:
            now = time.monotonic()
            if self._accumulator.add_built(topic, partition, payload, record_count, now):
                break
            self._make_room()
        if not self._cluster.partition_count(topic):
            self.partition_count(topic)
        self._go_on()

    def flush(self) -> None:
        """Wait until everything is delivered.

        Raises:
            KafkaError: some records were not; this is why the first of them were not.
        """
        self._check_open()
        self._accumulator.close_all()
        self._sender.is_flushing = True
        self._run(self._sender.expire(time.monotonic()))
        while self._accumulator.active:
            self._wait(None)
        self._sender.is_flushing = False
        self._raise_first_error()

    # --- working ---

    def _check_open(self) -> None:
        if self._network.is_closed:
            raise ClosedError("this Writer is closed; use it inside its `with` block")

    def _raise_first_error(self) -> None:
        error, self._first_error = self._first_error, None
        if error is not None:
            raise error

    def _note_full(self) -> None:
        self._has_full = True

    def _go_on(self) -> None:
        """Send what is full, and take in the answers that are there."""
        self._check_open()
        self._has_full = False
        self._run(self._sender.expire(time.monotonic()))
        if self._stale.refresh_if_due():
            self._feed(MetadataChanged())
        self._tell_unreachable()
        while self._network.has_unanswered and self._network.wait(time.monotonic()):
            pass
        self._raise_first_error()

    def _make_room(self) -> None:
        """Wait until something is delivered."""
        self._check_open()
        before = self._accumulator.used_bytes
        give_up_at = time.monotonic() + self._config.max_block_ms / 1000
        self._sender.is_flushing = True
        self._run(self._sender.expire(time.monotonic()))
        while self._accumulator.used_bytes >= before:
            if time.monotonic() >= give_up_at:
                raise RequestTimeoutError(
                    f"no room for a record within max_block_ms: {before} bytes wait for brokers"
                )
            self._wait(give_up_at)
        self._sender.is_flushing = False
        self._raise_first_error()

    def _wait(self, until: float | None) -> None:
        if self._stale.refresh_if_due():
            self._feed(MetadataChanged())
            return
        if self._tell_unreachable():
            return
        times = (until, self._sender.deadline(), self._stale.due_at)
        if not self._network.wait(min((each for each in times if each is not None), default=None)):
            self._run(self._sender.expire(time.monotonic()))

    def _tell_unreachable(self) -> bool:
        """Tell of brokers that could not be connected to; they may be tried again."""
        failures, self._unreachable = self._unreachable, []
        for failure in failures:
            self._feed(failure)
        return bool(failures)

    def _feed(self, event: Event) -> None:
        if self._network.is_closed:
            return  # closing answers what is on its way
        self._run(self._sender.handle(event, time.monotonic()))

    def _run(self, effects: list[Effect]) -> None:
        while effects:
            more: list[Effect] = []
            for effect in effects:
                event = self._done(effect)
                if event is not None:
                    more += self._sender.handle(event, time.monotonic())
            effects = more

    def _done(self, effect: Effect) -> Event | None:
        """Carry out an effect; returns what happened, if that is known at once."""
        match effect:
            case SendProduce():
                return self._send(effect)
            case Tell(batch):
                self._note(batch)
                return None
            case Connect(node):
                try:
                    self._network.connect(node)
                except KafkaError as error:
                    # Told later: at once, it would be tried again before anybody asks who leads.
                    self._unreachable.append(NodeFailed(node, error))
                    return None
                return NodeConnected(node)
            case RequestProducerId():
                return self._request_producer_id()
            case RefreshMetadata(topics):
                self._stale.want(topics)
                return None
            case AddPartitions(partitions):
                return self._add_partitions(partitions)

    def _note(self, batch: ProducerBatch) -> None:
        if batch.error is None:
            self.delivered_records += batch.record_count
            if batch.base_offset >= 0:
                end = batch.base_offset + batch.record_count
                self.end_offsets[batch.topic, batch.partition] = end
        elif self._first_error is None:
            self._first_error = batch.error

    def _send(self, effect: SendProduce) -> Event | None:
        request_id = effect.request_id

        def on_answer(answer: Answer) -> None:
            self._feed(Produced(request_id, answer))

        try:
            connection = self._network.connect(effect.node)
            version = connection.version_for(effect.request, 0, effect.version_max)
            if not effect.has_response:
                connection.send_only(effect.request, version)
                return Produced(request_id, _NO_RESPONSE)
        except KafkaError as error:
            return Produced(request_id, error)
        try:
            connection.submit(effect.request, version, on_answer)
        except UnsendableRequestError as error:
            return Produced(request_id, error)
        except KafkaError:
            return None  # closing the connection has answered it
        return None

    def _request_producer_id(self) -> Event:
        try:
            response = self._network.run_plan(lambda _cluster: _ask_for_producer_id())
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, "a producer id for idempotence")
        except KafkaError as error:
            return ProducerIdFailed(error)
        return ProducerIdGranted(response.producer_id, response.producer_epoch)

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> Event:
        raise AssertionError(f"no transaction can have {sorted(partitions)}: there is none")


def _ask_for_producer_id() -> Plan[InitProducerIdResponse]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    response = yield from call(ANY_BROKER, request, InitProducerIdResponse)
    return response
