"""What both producers are made of: accumulator, sender, metadata and connections together."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from types import TracebackType
from typing import Self

import trio

from minikafka.protocol.records.compression import Compression
from minikafka_client.core.accumulator import Accumulator, StickyPartitions
from minikafka_client.core.appender import Appender
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import FINAL_TOPIC_ERRORS, Cluster, parse_bootstrap
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.sender import Sender
from minikafka_client.core.sender_messages import Closing, MetadataChanged, SenderConfig
from minikafka_client.core.serializing import BYTES, Serializers
from minikafka_client.core.transaction import TransactionMachine
from minikafka_client.core.transactional_sender import TransactionalSender
from minikafka_client.errors import (
    AuthenticationError,
    KafkaError,
    NotDeliveredError,
    RequestTimeoutError,
    broker_error,
)
from minikafka_client.options import ConnectionConfig
from minikafka_client.producer_options import ProducerConfig
from minikafka_client.statistics import ProducerStatistics
from minikafka_client.trio_face.background import Background
from minikafka_client.trio_face.delivery import wait_until_done
from minikafka_client.trio_face.metadata_keeper import MetadataKeeper
from minikafka_client.trio_face.network import Network
from minikafka_client.trio_face.prepared import PreparedTransactions
from minikafka_client.trio_face.send_loop import SendLoop


def _at_once(function: Callable[[], None]) -> None:
    function()


class Producing:
    """A producer without its public face.

    Everything but `append` belongs to the trio thread. `append` may be called in another one that
    holds ``lock``; it then reaches the trio thread with ``soon``.

    Args:
        bootstrap: where to find the cluster.
        connection: how to connect.
        config: how to produce.
        serializers: what makes bytes of keys and values.
        lock: held while the accumulator changes.
        soon: runs a function in the trio thread.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        connection: ConnectionConfig,
        config: ProducerConfig,
        *,
        serializers: Serializers = BYTES,
        lock: AbstractContextManager[object] | None = None,
        soon: Callable[[Callable[[], None]], None] = _at_once,
    ) -> None:
        self.config = config
        self.cluster = Cluster(parse_bootstrap(bootstrap))
        self.background = Background("Producer")
        self.accumulator = Accumulator(
            batch_size_bytes=config.batch_size_bytes,
            buffer_memory_bytes=config.buffer_memory_bytes,
            delivery_timeout_s=config.delivery_timeout_ms / 1000,
        )
        self._soon = soon
        self._network = Network(self.cluster, connection, self.background, random.random)
        self.keeper = MetadataKeeper(
            self._network, random.random, allow_auto_topic_creation=True, on_news=self._on_news
        )
        sender_config = SenderConfig(
            acks=-1 if config.acks == "all" else config.acks,
            is_idempotent=config.is_idempotent,
            linger_s=config.linger_ms / 1000,
            max_in_flight=config.max_in_flight,
            request_size_bytes_max=config.request_size_bytes_max,
            request_timeout_ms=connection.request_timeout_ms,
            compression=Compression[config.compression.upper()],
            compression_level=config.compression_level,
            transactional_id=config.transactional_id,
        )
        retry = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random)
        machine: TransactionMachine | None = None
        if config.transactional_id is None:
            sender = Sender(sender_config, self.cluster, self.accumulator, retry)
        else:
            machine = TransactionMachine(config.transactional_id)
            sender = TransactionalSender(
                sender_config, self.cluster, self.accumulator, retry, machine
            )
        self.loop = SendLoop(
            sender,
            self._network,
            self.keeper,
            self.background,
            self._on_progress,
            lock if lock is not None else RLock(),  # sooner taken than a `nullcontext`
        )
        appender = Appender(
            self.cluster,
            self.accumulator,
            StickyPartitions(random.random),
            config.partitioner,
            min(config.request_size_bytes_max, config.buffer_memory_bytes),
            clock=self._now_if_open,
            on_opened=self._on_opened,
            on_full=self._on_full,
        )
        self.append = serializers.wrap(appender.append)
        # Where the faces may put values without asking: nowhere, if they are not bytes.
        self.sticky = self.accumulator.sticky if self.append == appender.append else {}
        self.transactions: PreparedTransactions | None = None
        if machine is not None:
            self.transactions = PreparedTransactions(
                machine, config, self._network, self.loop, self.background, self.flush
            )
            self.append = self.transactions.guard(self.append)
        self._room = trio.Event()
        self._waiting_for_room = 0
        self._flushing = 0

    async def __aenter__(self) -> Self:
        self.now = trio.lowlevel.current_clock().current_time
        await self.background.open()
        self.background.start_soon(self.keeper.run)
        self.background.start_soon(self.loop.run)
        if self.transactions is not None:
            try:
                await self.transactions.initialize()
            except BaseException as error:
                self._network.close()
                await self.background.close(type(error), error, error.__traceback__)
                raise
        return self

    now: Callable[[], float]
    """trio's clock, also for other threads; there from entering on."""

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Flush, unless there is an exception, and stop.

        Raises:
            NotDeliveredError: records failed, and nobody looked at their handles.
        """
        unseen: list[ProducerBatch] = []
        try:
            if exc is None:
                await self.flush()
            # Looked at before closing: what is dropped now is told by its handles.
            unseen = [batch for batch in self.loop.failures if not batch.is_observed]
        finally:
            self.loop.feed(Closing())
            self._network.close()
            is_handled = await self.background.close(exc_type, exc, traceback)
        if exc is None and unseen and unseen[0].error is not None:
            raise NotDeliveredError(sum(batch.record_count for batch in unseen), unseen[0].error)
        return is_handled

    def require_transactions(self) -> PreparedTransactions:
        """What only a transactional producer has.

        Raises:
            ValueError: it is none.
            ClosedError: it is not open.
        """
        self.check_open()
        if self.transactions is None:
            raise ValueError("transactions need a name; give the producer a transactional_id")
        return self.transactions

    def check_open(self) -> None:
        """Refuse to work outside the block.

        Raises:
            ClosedError: it was not entered, or is left.
        """
        self.background.check_open()

    def statistics(self) -> ProducerStatistics:
        """What it has done and has to do."""
        now = trio.current_time()
        loop, accumulator = self.loop, self.accumulator
        with loop.lock:
            batches = accumulator.batches()
            buffered_records = sum(batch.record_count for batch in batches)
        return ProducerStatistics(
            delivered=loop.delivered.rates(now),
            delivered_records=loop.delivered.records,
            delivered_bytes=loop.delivered.size_bytes,
            failed_records=loop.failed_records,
            buffered_records=buffered_records,
            buffered_bytes=accumulator.used_bytes,
            buffer_memory_bytes=accumulator.buffer_memory_bytes,
            buffered_batches=len(batches),
            in_flight_requests=loop.meter.in_flight,
            requests=loop.meter.requests,
            retries=loop.sender.fates.retries,
            splits=loop.sender.fates.splits,
            errors=dict(loop.sender.fates.errors),
            latency=loop.meter.latencies(now),
            brokers=loop.meter.brokers(now),
            connections=self._network.statistics(),
        )

    def _now_if_open(self) -> float:
        self.check_open()
        return self.now()

    # --- waiting ---

    async def wait_for_room(self, give_up_at: float) -> None:
        """Wait until batches are delivered.

        Raises:
            RequestTimeoutError: none was by then.
        """
        self._waiting_for_room += 1
        self._update_hurry()
        try:
            with trio.move_on_at(give_up_at) as scope:
                await self._room.wait()
        finally:
            self._waiting_for_room -= 1
            self._update_hurry()
        if scope.cancelled_caught:
            raise RequestTimeoutError(
                f"no room for a record within max_block_ms: {self.accumulator.used_bytes} of "
                f"{self.accumulator.buffer_memory_bytes} bytes wait for brokers"
            )

    async def wait_for_metadata(self, topic: str, give_up_at: float) -> None:
        """Wait until a topic's partitions are known.

        Raises:
            KafkaError: there is no such topic, or nobody could tell by then.
        """
        while not self.cluster.partition_count(topic):
            self.keeper.want([topic])
            with trio.move_on_at(give_up_at) as scope:
                await self.keeper.next_try()
            known = self.cluster.topics.get(topic)
            error: KafkaError | None = self.keeper.last_error
            if known is not None and known.error_code:
                error = broker_error(known.error_code, f"topic {topic!r}")
            is_final = isinstance(error, AuthenticationError)
            if error is not None:
                is_final = is_final or scope.cancelled_caught or error.code in FINAL_TOPIC_ERRORS
            if error is not None and is_final:
                self.keeper.topics.discard(topic)
                raise error
            if scope.cancelled_caught:
                raise RequestTimeoutError(f"no metadata of topic {topic!r} within max_block_ms")

    async def flush(self) -> None:
        """Wait until everything appended so far is delivered or has failed."""
        self.check_open()
        self._flushing += 1
        self._update_hurry()  # before others run: what is full goes together with what is not
        try:
            await trio.lowlevel.checkpoint()
            with self.loop.lock:
                self.accumulator.close_all()
                batches = self.accumulator.batches()
            self.loop.wake()
            self.loop.send_if_idle()
            for batch in batches:
                if batch.state is not BatchState.DONE:
                    await wait_until_done(batch)
        finally:
            self._flushing -= 1
            self._update_hurry()

    def _update_hurry(self) -> None:
        self.loop.sender.is_flushing = bool(self._flushing or self._waiting_for_room)
        if self.loop.sender.is_flushing:
            self.loop.wake()

    # --- what happens ---

    def _on_opened(self, batch: ProducerBatch) -> None:
        self._soon(lambda: self.loop.opened(batch))

    def _on_full(self) -> None:
        self._soon(self.loop.wake)

    def _on_progress(self) -> None:
        if self._waiting_for_room:
            room, self._room = self._room, trio.Event()
            room.set()

    def _on_news(self) -> None:
        self.loop.feed(MetadataChanged())
