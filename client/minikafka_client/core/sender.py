"""Decides which batches go to which broker, and what an answer means for them.

A partition's batches are sent in order, up to ``max_in_flight`` at once. When one must be repeated,
nothing of its partition is sent until it is through, so that with idempotence nothing is ever
reordered, and without it only what was already in flight is.

Sequences (KIP-98, KIP-360). Each batch keeps the sequence it was first sent with, so a broker that
has it already says so. A broker that says OUT_OF_ORDER_SEQUENCE_NUMBER (or does not know the
producer) has not stored the batch. Behind a batch that is still undecided that was to be expected,
and it is repeated after it. At the head it means that the sequences have come apart, because a
batch before it was given up: then nothing more is sent until all answers are in, the producer's
epoch is raised, and what is left starts again at sequence 0. The old epoch's stragglers are fenced
by it.

Some batches are *in doubt*: a request of theirs was never answered, and a broker may still find it
in a connection that is long closed; or they are parts of a batch that was sent before it was split,
and perhaps stored. Only their old sequence keeps these from being stored twice. So they never get a
new one: out of order at the head they are given up, and what is behind them goes on with its
sequences.

A batch that is too large for its topic is split; its parts take its place and share its sequences,
so that those behind it need no new ones.

A batch that is repeated waits a little before; but a leader that is newer than the one that refused
it gets it at once (KIP-951).

A broker recognizes only the last five batches of a producer. So no batch is sent while the fifth
one before it is undecided, even if those in between are through: the broker could take the
repetition of a batch that it has forgotten for one that it never had.

A broker takes any sequence from a producer that it does not know yet: it cannot tell a new producer
from one that it has forgotten. So a producer's first batch of a partition (and of an epoch) travels
alone until a broker has stored it; else its repetition, after an error that only it met, would come
behind the second batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from minikafka.protocol.schema import Response
from minikafka_client.core.accumulator import Accumulator, PartitionQueue
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import NO_LEADER, Cluster
from minikafka_client.core.fates import TOO_LARGE, BatchFates, log_retry
from minikafka_client.core.identity import ProducerIdentity
from minikafka_client.core.produce_request import produce_request, read_produce_response
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.sender_messages import (
    Closing,
    Connect,
    Effect,
    Event,
    NodeConnected,
    NodeFailed,
    Produced,
    ProducerIdFailed,
    ProducerIdGranted,
    RefreshMetadata,
    RequestProducerId,
    SenderConfig,
    SendProduce,
)
from minikafka_client.errors import (
    ClosedError,
    KafkaError,
    NotConnectedError,
    UnreadableResponseError,
    UnsendableRequestError,
    UnsupportedByBrokerError,
    broker_error,
)
from minikafka_client.log_events import LogEvent

logger = logging.getLogger(__name__)

_NOTHING_SENT: Final = (NotConnectedError, UnsendableRequestError, UnsupportedByBrokerError)
_DELIVERED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class _Node:
    """A broker as the sender sees it: absent, connecting or connected."""

    __slots__ = ("in_flight", "is_connected", "is_connecting", "muted_until")

    def __init__(self) -> None:
        self.is_connected = False
        self.is_connecting = False
        self.muted_until = 0.0
        self.in_flight = 0


class _Request(NamedTuple):
    node: int
    batches: Sequence[ProducerBatch]


class Sender:
    """The machine; the accumulator's batches change state only here.

    Attributes:
        is_flushing: somebody waits: open batches are closed without lingering.
        fates: what becomes of batches, and counts it.
    """

    def __init__(
        self, config: SenderConfig, cluster: Cluster, accumulator: Accumulator, backoff: Backoff
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self.is_flushing = False
        self.fates = BatchFates(config, accumulator, backoff)
        self._nodes: dict[int, _Node] = {}
        self._requests: dict[int, _Request] = {}
        self._next_request_id = 0
        self._identity = ProducerIdentity(
            backoff, is_transactional=config.transactional_id is not None
        )
        self._wake_at = math.inf

    # --- the machine's three doors ---

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take in an event, and go on."""
        effects: list[Effect] = []
        match event:
            case Produced(request_id, answer):
                self._answered(self._requests.pop(request_id), answer, now, effects)
            case NodeConnected(node):
                self._node(node).is_connected = True
                self._node(node).is_connecting = False
            case NodeFailed(node, error):
                self._node(node).is_connected = False
                self._node(node).is_connecting = False
                for (topic, partition), queue in self._accumulator.active.items():
                    if self._cluster.leader(topic, partition) == node:
                        queue.batches()[0].last_error = error
                effects.append(RefreshMetadata(frozenset(t for t, _ in self._accumulator.active)))
            case ProducerIdGranted(producer_id, producer_epoch):
                self._identity.granted(producer_id, producer_epoch)
            case ProducerIdFailed(error):
                self._producer_id_failed(error, now, effects)
            case Closing():
                for batch in self._accumulator.batches():
                    error = ClosedError(
                        f"the producer was closed before {batch.record_count} records for "
                        f"partition {batch.partition} of topic {batch.topic!r} were delivered"
                    )
                    self.fates.give_up(batch, error, effects)
            case _:  # MetadataChanged: nothing but a reason to look again
                pass
        self._go_on(now, effects)
        return effects

    def expire(self, now: float) -> list[Effect]:
        """Give up what is too old, and send whatever can be sent now."""
        effects: list[Effect] = []
        self._go_on(now, effects)
        return effects

    def _go_on(self, now: float, effects: list[Effect]) -> None:
        self._wake_at = math.inf
        if self._accumulator.active:
            self._wake_at = self.fates.give_up_overdue(now, effects)
            while self._send_round(now, effects):
                pass

    def deadline(self) -> float | None:
        """When `expire` has something to do again, if nothing happens before."""
        return None if self._wake_at == math.inf else self._wake_at

    @property
    def is_idle(self) -> bool:
        """Whether no request is unanswered."""
        return not self._requests

    def opened(self, batch: ProducerBatch) -> float:
        """Take note of a batch that was just opened; returns the new deadline."""
        linger_until = batch.created_at + (0 if self.is_flushing else self._config.linger_s)
        self._wake_at = min(self._wake_at, linger_until, batch.deadline)
        return self._wake_at

    # --- sending ---

    def _node(self, node: int) -> _Node:
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = _Node()
        return known

    def _send_round(self, now: float, effects: list[Effect]) -> bool:
        """At most one request to each broker; True when another round may find more to send."""
        if not self._has_identity(now, effects):
            return False
        has_more = False
        leaderless: set[str] = set()
        by_node: dict[int, list[ProducerBatch]] = {}
        size_bytes: dict[int, int] = {}
        for (topic, partition), queue in list(self._accumulator.active.items()):
            node_id = self._cluster.leader(topic, partition)
            if node_id == NO_LEADER:
                leaderless.add(topic)
                continue
            if not self._can_take(node_id, now, effects):
                continue
            batch = self._next_batch(queue, now, effects)
            if batch is None:
                continue
            batch.build(self._config.compression, self._config.compression_level)
            total = size_bytes.get(node_id, 0) + len(batch)
            if node_id in by_node and total > self._config.request_size_bytes_max:
                has_more = True  # it is still the first of its partition in the next round
                continue
            size_bytes[node_id] = total
            by_node.setdefault(node_id, []).append(batch)
        if leaderless:
            effects.append(RefreshMetadata(frozenset(leaderless)))
        if self._config.is_idempotent and not self._identity.is_known:
            return False  # the last epoch was used up in this round
        for node_id, batches in by_node.items():
            has_more |= self._send(node_id, batches, effects)
        return has_more

    def _can_take(self, node_id: int, now: float, effects: list[Effect]) -> bool:
        node = self._node(node_id)
        if not node.is_connected:
            if not node.is_connecting:
                node.is_connecting = True
                effects.append(Connect(node_id))
            return False
        if node.muted_until > now:
            self._wake_at = min(self._wake_at, node.muted_until)
            return False
        return node.in_flight < self._config.max_in_flight

    def _next_batch(
        self, queue: PartitionQueue, now: float, effects: list[Effect]
    ) -> ProducerBatch | None:
        """The batch of a partition whose turn it is, if any may be sent now."""
        if queue.needs_new_epoch and not self._renew_epoch(queue, effects):
            return None
        waiting = queue.unacknowledged
        if waiting:
            head = waiting[0]
            if any(batch.state is BatchState.RETRY for batch in waiting):
                if head.state is not BatchState.RETRY:
                    return None
                newest = self._cluster.leader_epoch(head.topic, head.partition)
                if head.retry_at > now and newest <= head.leader_epoch:
                    self._wake_at = min(self._wake_at, head.retry_at)
                    return None
                return head
            if queue.next_ordinal - head.ordinal >= self._config.max_in_flight:
                return None
            if self._config.is_idempotent and queue.stored_identity != queue.identity:
                return None
        if not queue.ready and queue.open is not None:
            linger_until = queue.open.created_at + self._config.linger_s
            if linger_until > now and not self.is_flushing:
                self._wake_at = min(self._wake_at, linger_until)
                return None
            self._accumulator.close(queue, is_full=False)
        return queue.ready[0] if queue.ready else None

    def _send(self, node_id: int, batches: list[ProducerBatch], effects: list[Effect]) -> bool:
        """Send batches in one request; True when one of their partitions holds later ones."""
        has_more = False
        for batch in batches:
            queue = self._accumulator.queues[batch.topic, batch.partition]
            if batch.state is BatchState.READY:
                queue.ready.popleft()
                queue.unacknowledged.append(batch)
                batch.ordinal = queue.next_ordinal
                queue.next_ordinal += 1
                if self._config.is_idempotent:
                    self._identity.stamp_next(queue, batch)
            batch.state = BatchState.SENT
            batch.leader_epoch = self._cluster.leader_epoch(batch.topic, batch.partition)
            has_more = has_more or bool(queue.ready or queue.open)
        request, version_max = produce_request(
            self._cluster,
            batches,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
        )
        has_response = self._config.acks != 0
        request_id = self._next_request_id
        self._next_request_id += 1
        self._requests[request_id] = _Request(node_id, batches)
        self._node(node_id).in_flight += 1
        effects.append(SendProduce(node_id, request_id, request, version_max, has_response))
        return has_more

    # --- identity and sequences ---

    def _has_identity(self, now: float, effects: list[Effect]) -> bool:
        if not self._config.is_idempotent or self._identity.is_known:
            return True
        if self._identity.ask_again_at > now:
            self._wake_at = min(self._wake_at, self._identity.ask_again_at)
        else:
            self._ask_for_producer_id(effects)
        return False

    def _ask_for_producer_id(self, effects: list[Effect]) -> None:
        self._identity.asked()
        effects.append(RequestProducerId())

    def _producer_id_failed(self, error: KafkaError, now: float, effects: list[Effect]) -> None:
        self._identity.refused(now)
        for batch in self._accumulator.batches():
            batch.last_error = error
            if not error.is_retriable:
                self.fates.give_up(batch, error, effects)

    def _renew_epoch(self, queue: PartitionQueue, effects: list[Effect]) -> bool:
        """Start a partition's sequences again, once none of its requests is unanswered."""
        if any(batch.state is BatchState.SENT for batch in queue.unacknowledged):
            return False
        self.fates.give_up_doubtful(queue, effects)
        if not self._identity.restart(queue):
            self._ask_for_producer_id(effects)
            return False
        return True

    # --- answers ---

    def _answered(
        self, request: _Request, answer: Response | KafkaError, now: float, effects: list[Effect]
    ) -> None:
        node = self._node(request.node)
        node.in_flight -= 1
        if isinstance(answer, KafkaError):
            was_sent = not isinstance(answer, _NOTHING_SENT)
            logger.warning(
                "%d batches for broker %d: %s",
                len(request.batches),
                request.node,
                answer,
                extra=LogEvent.RETRIED.about(
                    node_id=request.node, batch_count=len(request.batches), error=str(answer)
                ),
            )
            node.is_connected = node.is_connected and not answer.is_retriable
            effects.append(RefreshMetadata(frozenset(batch.topic for batch in request.batches)))
            for batch in request.batches:
                batch.is_doubtful = batch.is_doubtful or was_sent
                self.fates.failed(batch, answer, now, effects)
            return
        if self._config.acks == 0:
            for batch in request.batches:
                self.fates.delivered(batch, -1, -1, effects)
            return
        assert isinstance(answer, ProduceResponse)
        node.muted_until = now + answer.throttle_time_ms / 1000
        outcomes = read_produce_response(self._cluster, answer)
        for batch in request.batches:
            outcome = outcomes.get((batch.topic, batch.partition))
            if outcome is None:
                missing = UnreadableResponseError(
                    f"the answer leaves out partition {batch.partition} of topic {batch.topic!r}"
                )
                self.fates.failed(batch, missing, now, effects)
            else:
                self._decided(batch, outcome, now, effects)

    def _decided(
        self,
        batch: ProducerBatch,
        outcome: PartitionProduceResponse,
        now: float,
        effects: list[Effect],
    ) -> None:
        if outcome.error_code in _DELIVERED:
            self.fates.delivered(batch, outcome.base_offset, outcome.log_append_time_ms, effects)
            return
        error = broker_error(
            outcome.error_code,
            f"{batch.record_count} records for partition {batch.partition} of {batch.topic!r}",
            outcome.error_message,
        )
        if error.code in TOO_LARGE and batch.record_count > 1:
            self.fates.split(batch, error)
        else:
            self.fates.failed(batch, error, now, effects)
            log_retry(batch, error)
        if error.code in _LEADER_UNKNOWN:
            effects.append(RefreshMetadata(frozenset({batch.topic})))


_LEADER_UNKNOWN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
