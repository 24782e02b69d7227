"""The parts of a producer put together: accumulator, sender, metadata and connections."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Self

import trio

from minikafka_client.core.accumulator import Accumulator, StickyPartitions
from minikafka_client.core.appender import Appender
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import FINAL_TOPIC_ERRORS, Cluster, parse_bootstrap
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.sender import Closing, MetadataChanged, Sender
from minikafka_client.core.serialization import BYTES, Serializers
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
from minikafka_client.producer_options import ProducerConfig, sender_config_of
from minikafka_client.signatures import ExcDetails
from minikafka_client.statistics import ProducerStatistics
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.delivery import wait_until_done
from minikafka_client.trio_api.metadata_keeper import MetadataKeeper
from minikafka_client.trio_api.network import Network
from minikafka_client.trio_api.send_loop import SendLoop
from minikafka_client.trio_api.transactions import Transactions


def _at_once(function: Callable[[], None]) -> None:
    function()


class ProducerEngine:
    """A producer without its public API.

    Everything but `append` belongs to the trio thread. If it is shared with other threads, they may
    call `append` while they hold ``loop.lock``.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        connection: ConnectionConfig,
        config: ProducerConfig,
        *,
        serializers: Serializers = BYTES,
        is_shared: bool = False,
    ) -> None:
        self.config = config
        self.cluster = Cluster(parse_bootstrap(bootstrap_servers))
        self.background = Background("Producer")
        self.accumulator = Accumulator(
            batch_size=config.batch_size,
            buffer_memory=config.buffer_memory,
            delivery_timeout_s=config.delivery_timeout_ms / 1000,
        )
        self._is_shared = is_shared
        self._soon: Callable[[Callable[[], None]], None] = _at_once
        self._network = Network(self.cluster, connection, self.background, random.random)
        self.keeper = MetadataKeeper(
            self._network,
            random.random,
            allow_auto_topic_creation=True,
            on_change=self._on_metadata,
        )
        retry = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random)
        sender_config = sender_config_of(config, connection, linger_s=config.linger_ms / 1000)
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
            RLock(),  # uncontended, it is faster than a `nullcontext`
        )
        appender = Appender(
            self.cluster,
            self.accumulator,
            StickyPartitions(random.random),
            config.partitioner,
            min(config.max_request_size, config.buffer_memory),
            clock=self._now_if_open,
            on_opened=self._on_opened,
            on_full=self._on_full,
        )
        self.append = serializers.wrap(appender.append)
        # Where producers may append values directly: nowhere, if they are not bytes.
        self.sticky = self.accumulator.sticky if self.append == appender.append else {}
        self.transactions: Transactions | None = None
        if machine is not None:
            self.transactions = Transactions(
                machine, config, self._network, self.loop, self.background, self.flush
            )
            self.append = self.transactions.guard(self.append)
        self._room = trio.Event()
        self._waiting_for_room = 0
        self._flushing = 0

    async def __aenter__(self) -> Self:
        self.now = trio.lowlevel.current_clock().current_time
        if self._is_shared:
            self._soon = trio.lowlevel.current_trio_token().run_sync_soon
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

    async def __aexit__(self, *details: *ExcDetails) -> bool:
        """Flush unless there is an exception; `NotDeliveredError` for unchecked failures."""
        exc = details[1]
        unseen: list[ProducerBatch] = []
        try:
            if exc is None:
                await self.flush()
            # Before closing: the handles of what is dropped now raise `ClosedError`.
            unseen = [batch for batch in self.loop.failures if not batch.is_observed]
        finally:
            self.loop.feed(Closing())
            self._network.close()
            is_handled = await self.background.close(*details)
        if exc is None and unseen and unseen[0].error is not None:
            raise NotDeliveredError(sum(batch.record_count for batch in unseen), unseen[0].error)
        return is_handled

    def require_transactions(self) -> Transactions:
        """The transactions of a transactional producer that is open; `ValueError` for others."""
        self.check_open()
        if self.transactions is None:
            raise ValueError("transactions need a name; give the producer a transactional_id")
        return self.transactions

    def check_open(self) -> None:
        self.background.check_open()

    def statistics(self) -> ProducerStatistics:
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
            buffer_memory=accumulator.buffer_memory,
            buffered_batches=len(batches),
            in_flight_requests=loop.meter.in_flight,
            requests=loop.meter.requests,
            retries=loop.sender.outcomes.retries,
            splits=loop.sender.outcomes.splits,
            errors=dict(loop.sender.outcomes.errors),
            latency=loop.meter.latencies(now),
            brokers=loop.meter.brokers(now),
            connections=self._network.statistics(),
        )

    def _now_if_open(self) -> float:
        self.check_open()
        return self.now()

    # --- waiting ---

    async def wait_for_room(self, give_up_at: float) -> None:
        """Wait until batches are delivered; `RequestTimeoutError` if none was in time."""
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
                f"{self.accumulator.buffer_memory} bytes wait for brokers"
            )

    async def wait_for_metadata(self, topic: str, give_up_at: float) -> None:
        """Wait until a topic's partitions are known; raises if there is no such topic."""
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
        self.check_open()
        self._flushing += 1
        self._update_hurry()  # before others run: full and open batches go in one request
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

    # --- events ---

    def _on_opened(self, batch: ProducerBatch) -> None:
        self._soon(lambda: self.loop.opened(batch))

    def _on_full(self) -> None:
        self._soon(self.loop.wake)

    def _on_progress(self) -> None:
        if self._waiting_for_room:
            room, self._room = self._room, trio.Event()
            room.set()

    def _on_metadata(self) -> None:
        self.loop.feed(MetadataChanged())
