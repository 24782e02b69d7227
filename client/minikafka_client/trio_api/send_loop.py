"""Runs the sender machine on trio: feeds it events and carries out its effects."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import init_producer_id, produce
from minikafka_client import errors
from minikafka_client.core import sender as machine
from minikafka_client.core.meters import RateMeter, RequestMeter
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.wire import Answer
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.plan import ANY_BROKER, Call
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.metadata_keeper import MetadataKeeper
from minikafka_client.trio_api.network import Network
from minikafka_client.types import TopicPartition

logger = logging.getLogger(__name__)

PRODUCE_LANE: Final = "produce"
FAILURES_REMEMBERED_MAX: Final = 1_000
"""Failed batches that are kept to report those whose handles were never checked."""

_NO_RESPONSE = produce.Response(responses=[])


class SendLoop:
    """The sender's shell.

    Attributes:
        failures: the last batches that failed; ``failed_records``: how many records in all.
        on_progress: called whenever batches are done: memory is free again.
        add_partitions: carries out `AddPartitions`; only a transactional producer needs it.
    """

    def __init__(
        self,
        sender: machine.Sender,
        network: Network,
        keeper: MetadataKeeper,
        background: Background,
        on_progress: Callable[[], None],
        lock: AbstractContextManager[object],
    ) -> None:
        self.sender = sender
        self.lock = lock
        self.failures: deque[ProducerBatch] = deque(maxlen=FAILURES_REMEMBERED_MAX)
        self.failed_records = 0
        self.delivered = RateMeter()
        self.meter = RequestMeter()
        self.on_progress = on_progress
        self.add_partitions: Callable[[frozenset[TopicPartition]], None] = _no_transaction
        self._network = network
        self._keeper = keeper
        self._background = background
        self._events: deque[machine.Event] = deque()
        self._is_busy = False
        self._is_due = False
        self._wake = trio.Event()
        self._timer = trio.CancelScope()
        self._now: Callable[[], float] = trio.current_time

    def wake(self) -> None:
        self._is_due = True
        self._wake.set()

    def opened(self, batch: ProducerBatch) -> None:
        deadline = self.sender.opened(batch)
        if deadline <= batch.created_at:
            # More records may arrive before the task runs; a waiting caller shortens that.
            batch.on_awaited = self.send_if_idle
            self.wake()  # a third of what the timer costs
        else:
            self._at_latest(deadline)

    def send_if_idle(self) -> None:
        """Send now what the task is about to send, if no request is in flight.

        Switching tasks takes as long as making a small request. When requests are in flight, it
        is better that what many tasks wait for goes together.
        """
        if self._is_due and self.sender.is_idle:
            self._look()

    def _at_latest(self, deadline: float) -> None:
        """Wake up by ``deadline``; waking up too early costs less than moving the timer."""
        if deadline < self._timer.deadline:
            self._timer.deadline = deadline

    async def run(self) -> None:
        self._now = trio.lowlevel.current_clock().current_time  # the same, two calls sooner
        while True:
            self._look()
            self._timer = trio.CancelScope(deadline=self.sender.deadline() or math.inf)
            with self._timer:
                while True:
                    await self._wake.wait()
                    self._wake = trio.Event()
                    if self._is_due:
                        self._look()

    def _look(self) -> None:
        self._is_due = False
        with self.lock:
            self._run_effects(self.sender.expire(self._now()))
        self._at_latest(self.sender.deadline() or math.inf)

    def feed(self, event: machine.Event) -> None:
        if self._is_busy:  # the event of an effect that completed immediately waits
            self._events.append(event)
            return
        with self.lock:
            self._run_effects(self.sender.handle(event, self._now()))
        self._at_latest(self.sender.deadline() or math.inf)

    def _run_effects(self, effects: list[machine.Effect]) -> None:
        self._is_busy = True
        is_progress = False
        while True:
            for effect in effects:
                match effect:
                    case machine.SendProduce():
                        self._send(effect)
                    case machine.Tell(batch):
                        is_progress = True
                        self._note(batch)
                        batch.tell()
                    case machine.RefreshMetadata(topics):
                        self._keeper.want(topics)
                    case machine.Connect(node):
                        self._background.start_soon(self._connect, node)
                    case machine.RequestProducerId():
                        self._background.start_soon(self._request_producer_id)
                    case machine.AddPartitions(partitions):
                        self.add_partitions(partitions)
            if not self._events:
                break
            effects = self.sender.handle(self._events.popleft(), self._now())
        self._is_busy = False
        if is_progress:
            self.on_progress()

    def _note(self, batch: ProducerBatch) -> None:
        if batch.error is None:
            self.delivered.add(batch.record_count, batch.sent_bytes, self._now())
        else:
            was_aborted = isinstance(batch.error, errors.TransactionAbortedError)
            logger.log(
                logging.DEBUG if was_aborted else logging.ERROR,
                "%d records for partition %d of topic %r are not delivered: %s",
                batch.record_count,
                batch.partition,
                batch.topic,
                batch.error,
                extra=LogEvent.DELIVERY_FAILED.about(
                    topic=batch.topic,
                    partition=batch.partition,
                    record_count=batch.record_count,
                    error=str(batch.error),
                ),
            )
            self.failed_records += batch.record_count
            self.failures.append(batch)

    def _send(self, effect: machine.SendProduce) -> None:
        node, request_id = effect.node, effect.request_id
        sent_at = self._now()
        self.meter.sent(node)

        def on_answer(answer: Answer) -> None:
            if self._network.is_closing:
                return  # what was in flight has failed already
            now = self._now()
            if isinstance(answer, errors.KafkaError):
                self.meter.lost(node)
            else:
                self.meter.answered(node, now - sent_at, now)
            self.feed(machine.Produced(request_id, answer))

        connection = self._network.connected(effect.node, PRODUCE_LANE)
        try:
            if connection is None:
                raise errors.NotConnectedError(f"the connection to broker {effect.node} is closed")
            version = connection.version_for(effect.request, 0, effect.version_max)
            if effect.has_response:
                connection.submit(effect.request, version, on_answer)
            else:
                connection.send_only(
                    effect.request, version, lambda error: on_answer(error or _NO_RESPONSE)
                )
        except errors.KafkaError as error:
            on_answer(error)

    async def _connect(self, node: int) -> None:
        try:
            await self._network.connect(node, PRODUCE_LANE)
        except errors.KafkaError as error:
            self.feed(machine.NodeFailed(node, error))
        else:
            self.feed(machine.NodeConnected(node))

    async def _request_producer_id(self) -> None:
        request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            response = await self._network.call(Call(ANY_BROKER, request))
            assert isinstance(response, init_producer_id.Response)
            if response.error_code != ErrorCode.NONE:
                raise errors.broker_error(response.error_code, "a producer id for idempotence")
        except errors.KafkaError as error:
            logger.warning(
                "cannot get a producer id: %s",
                error,
                extra=LogEvent.PRODUCER_ID_FAILED.about(error=str(error)),
            )
            self.feed(machine.ProducerIdFailed(error))
        else:
            logger.info(
                "this is producer %d in epoch %d",
                response.producer_id,
                response.producer_epoch,
                extra=LogEvent.PRODUCER_ID_GRANTED.about(
                    producer_id=response.producer_id, producer_epoch=response.producer_epoch
                ),
            )
            self.feed(machine.ProducerIdGranted(response.producer_id, response.producer_epoch))


def _no_transaction(partitions: frozenset[TopicPartition]) -> None:
    raise AssertionError(f"only a transactional sender adds partitions, not {partitions}")
