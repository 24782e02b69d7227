"""Writes records on blocking sockets: no trio, no threads.

It is made for worker processes that write what they have and exit. Nothing happens in the
background: batches are sent, and answers received, while the caller sends more, and in `flush`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final, Self, Unpack

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import init_producer_id, produce
from minikafka_client import errors
from minikafka_client.core import sender as machine
from minikafka_client.core.accumulator import Accumulator, StickyPartitions
from minikafka_client.core.appender import Appender, NoMetadata, NoRoom
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster, parse_bootstrap
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.wire import Answer
from minikafka_client.options import ConnectionConfig, split_options
from minikafka_client.plans.plan import ANY_BROKER, Plan, call
from minikafka_client.plans.rounds import refresh_metadata
from minikafka_client.producer_options import ProducerConfig, ProducerOptions, sender_config_of
from minikafka_client.signatures import ExcDetails, with_options
from minikafka_client.sync.network import BlockingNetwork, StaleMetadata
from minikafka_client.types import Headers, TopicPartition

_NO_RESPONSE: Final = produce.Response(responses=[])


class Writer:
    """Sends records: ``with Writer("localhost:9092") as writer``; leaving the block flushes.

    There are no handles for single records: `flush` returns when all are stored, or raises why the
    first of those that failed did.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        options: see `minikafka_client.producer_options.ProducerConfig` (nothing lingers here) and
            `minikafka_client.options.ConnectionConfig`.

    Attributes:
        delivered_records: how many records were acknowledged.
        end_offsets: by topic and partition, the offset after the last acknowledged record
            (unknown with acks=0).

    Raises:
        ValueError: an option is refused.
    """

    @with_options(ProducerConfig, ConnectionConfig)
    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[ProducerOptions]
    ) -> None:
        connection, config = split_options(options, ProducerConfig, type(self).__name__)
        self._check(config)
        self.delivered_records = 0
        self.end_offsets: dict[tuple[str, int], int] = {}
        self._config = config
        self._cluster = Cluster(parse_bootstrap(bootstrap_servers))
        self._network = BlockingNetwork(self._cluster, connection, random.random)
        self._retry = Backoff(
            connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random
        )
        self._accumulator = Accumulator(
            batch_size=config.batch_size,
            buffer_memory=config.buffer_memory,
            delivery_timeout_s=config.delivery_timeout_ms / 1000,
        )
        sender_config = sender_config_of(
            config,
            connection,
            linger_s=config.delivery_timeout_ms / 1000,  # until flush, only full batches are sent
        )
        self._sender = self._new_sender(sender_config)
        self._has_full = False
        self._appender = Appender(
            self._cluster,
            self._accumulator,
            StickyPartitions(random.random),
            config.partitioner,
            min(config.max_request_size, config.buffer_memory),
            clock=time.monotonic,
            on_opened=lambda _batch: None,
            on_full=self._note_full,
        )
        self._stale = StaleMetadata(self._network, self._retry)
        self._first_error: errors.KafkaError | None = None
        self._unreachable: list[machine.NodeFailed] = []

    def _check(self, config: ProducerConfig) -> None:
        if config.transactional_id is not None:
            raise ValueError(
                "a Writer has no transactions; use minikafka_client.sync.Producer, or "
                "TransactionalWriter"
            )

    def _new_sender(self, config: machine.SenderConfig) -> machine.Sender:
        return machine.Sender(config, self._cluster, self._accumulator, self._retry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: *ExcDetails) -> None:
        exc = details[1]
        try:
            if exc is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections; records that are not flushed are lost."""
        self._network.close()

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            KafkaError: there is no such topic, or no metadata within ``max_block_ms``.
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
                error = errors.broker_error(known.error_code, f"topic {topic!r}")
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
        """Put a record into the buffer; batches are sent when they are full.

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
        """Send an encoded record batch (magic 2, no producer id, correct CRC).

        Its base offset, leader epoch and producer fields are overwritten. The caller must not
        change ``payload`` afterwards.

        Raises:
            KafkaError: as `send`.
            RecordTooLargeError: it is larger than ``max_request_size``.
        """
        if len(payload) > self._config.max_request_size:
            raise errors.RecordTooLargeError(
                f"a batch of {len(payload)} bytes; max_request_size is "
                f"{self._config.max_request_size}"
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
            KafkaError: why the first of those that failed did.
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
            raise errors.ClosedError("this Writer is closed; use it inside its `with` block")

    def _raise_first_error(self) -> None:
        error, self._first_error = self._first_error, None
        if error is not None:
            raise error

    def _note_full(self) -> None:
        self._has_full = True

    def _go_on(self) -> None:
        """Send what is full, and receive the answers that have arrived."""
        self._check_open()
        self._has_full = False
        self._run(self._sender.expire(time.monotonic()))
        if self._stale.refresh_if_due():
            self._feed(machine.MetadataChanged())
        self._report_unreachable()
        while self._network.has_unanswered and self._network.wait(time.monotonic()):
            pass
        self._raise_first_error()

    def _make_room(self) -> None:
        """Wait until a batch is delivered."""
        self._check_open()
        before = self._accumulator.used_bytes
        give_up_at = time.monotonic() + self._config.max_block_ms / 1000
        self._sender.is_flushing = True
        self._run(self._sender.expire(time.monotonic()))
        while self._accumulator.used_bytes >= before:
            if time.monotonic() >= give_up_at:
                raise errors.RequestTimeoutError(
                    f"no room for a record within max_block_ms: {before} bytes wait for brokers"
                )
            self._wait(give_up_at)
        self._sender.is_flushing = False
        self._raise_first_error()

    def _wait(self, until: float | None) -> None:
        if self._stale.refresh_if_due():
            self._feed(machine.MetadataChanged())
            return
        if self._report_unreachable():
            return
        times = (until, self._sender.deadline(), self._stale.due_at)
        if not self._network.wait(min((each for each in times if each is not None), default=None)):
            self._run(self._sender.expire(time.monotonic()))

    def _report_unreachable(self) -> bool:
        """Report brokers that could not be reached; they may be retried."""
        failures, self._unreachable = self._unreachable, []
        for failure in failures:
            self._feed(failure)
        return bool(failures)

    def _feed(self, event: machine.Event) -> None:
        if self._network.is_closed:
            return  # closing answers the requests in flight
        self._run(self._sender.handle(event, time.monotonic()))

    def _run(self, effects: list[machine.Effect]) -> None:
        while effects:
            more: list[machine.Effect] = []
            for effect in effects:
                event = self._done(effect)
                if event is not None:
                    more += self._sender.handle(event, time.monotonic())
            effects = more

    def _done(self, effect: machine.Effect) -> machine.Event | None:
        """Carry out an effect; returns what happened, if that is known immediately."""
        match effect:
            case machine.SendProduce():
                return self._send(effect)
            case machine.Tell(batch):
                self._note(batch)
                return None
            case machine.Connect(node):
                try:
                    self._network.connect(node)
                except errors.KafkaError as error:
                    # Reported later: now, it would be retried before the leader is looked up.
                    self._unreachable.append(machine.NodeFailed(node, error))
                    return None
                return machine.NodeConnected(node)
            case machine.RequestProducerId():
                return self._request_producer_id()
            case machine.RefreshMetadata(topics):
                self._stale.want(topics)
                return None
            case machine.AddPartitions(partitions):
                return self._add_partitions(partitions)

    def _note(self, batch: ProducerBatch) -> None:
        if batch.error is None:
            self.delivered_records += batch.record_count
            if batch.base_offset >= 0:
                end = batch.base_offset + batch.record_count
                self.end_offsets[batch.topic, batch.partition] = end
        elif self._first_error is None:
            self._first_error = batch.error

    def _send(self, effect: machine.SendProduce) -> machine.Event | None:
        request_id = effect.request_id

        def on_answer(answer: Answer) -> None:
            self._feed(machine.Produced(request_id, answer))

        if effect.has_response:
            error = self._network.submit(
                effect.node, effect.request, 0, effect.version_max, on_answer
            )
            return None if error is None else machine.Produced(request_id, error)
        try:
            connection = self._network.connect(effect.node)
            version = connection.version_for(effect.request, 0, effect.version_max)
            connection.send_only(effect.request, version)
        except errors.KafkaError as error:
            return machine.Produced(request_id, error)
        return machine.Produced(request_id, _NO_RESPONSE)

    def _request_producer_id(self) -> machine.Event:
        try:
            response = self._network.run_plan(lambda _cluster: _ask_for_producer_id())
            if response.error_code != ErrorCode.NONE:
                raise errors.broker_error(response.error_code, "a producer id for idempotence")
        except errors.KafkaError as error:
            return machine.ProducerIdFailed(error)
        return machine.ProducerIdGranted(response.producer_id, response.producer_epoch)

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> machine.Event:
        raise AssertionError(f"a Writer has no transaction to add {sorted(partitions)} to")


def _ask_for_producer_id() -> Plan[init_producer_id.Response]:
    request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
    return call(ANY_BROKER, request, init_producer_id.Response)
