"""Decides which batches go to which broker, and what an answer means for them.

A partition's batches are sent in order, up to ``max_in_flight`` concurrently. While one has to be
retried, nothing else of its partition is sent, so that with idempotence nothing is reordered, and
without it only what was already in flight.

Sequences (KIP-98, KIP-360). Each batch keeps the sequence it was first sent with, so a broker that
has already stored it says so. A broker that answers OUT_OF_ORDER_SEQUENCE_NUMBER (or does not know
the producer) has not stored the batch. Behind a batch that is still undecided this is expected, and
the batch is retried after that one. At the head it means that client and broker disagree, because
an earlier batch failed: then nothing more is sent until all answers are in, the producer's epoch is
raised, and the remaining batches restart at sequence 0. The new epoch fences stragglers of the old.

Some batches are *in doubt*: one of their requests was never answered, and a broker may still read
it from a connection that was closed long ago; or they are parts of a batch that was sent before it
was split, and perhaps stored. Only their old sequence keeps these from being stored twice, so they
never get a new one: out of order at the head, they fail, and the batches behind them continue with
their sequences.

A batch that is too large for its topic is split; its parts take its place and share its sequences,
so that the batches behind it keep theirs.

A retry waits for the back-off, but a leader that is newer than the one that refused gets it
immediately (KIP-951).

A broker recognizes only a producer's last five batches. So no batch is sent while the fifth one
before it is undecided, even if those in between are stored: the broker could mistake the retry of a
batch that it has forgotten for a new one.

A broker accepts any sequence from a producer that it does not know: it cannot tell a new producer
from a forgotten one. So a producer's first batch of a partition (and of an epoch) is sent alone
until a broker has stored it; otherwise its retry, after an error that only it met, could be stored
behind the second batch.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import produce
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.schema import Response
from minikafka_client.core.accumulator import Accumulator, PartitionQueue
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.batch_split import split_batch
from minikafka_client.core.cluster import NO_LEADER, Cluster
from minikafka_client.core.identity import ProducerIdentity
from minikafka_client.core.meters import error_name
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import (
    ClosedError,
    DeliveryTimeoutError,
    KafkaError,
    NotConnectedError,
    UnreadableResponseError,
    UnsendableRequestError,
    UnsupportedByBrokerError,
    broker_error,
)
from minikafka_client.log_events import LogEvent
from minikafka_client.types import BrokerDescription, TopicPartition


class SenderConfig(NamedTuple):
    """The producer's settings, as far as sending goes; see `Producer`."""

    acks: int
    is_idempotent: bool
    linger_s: float
    max_in_flight: int
    max_request_size: int
    request_timeout_ms: int
    compression: Compression
    compression_level: int | None
    transactional_id: str | None = None


# --- events ---


class NodeConnected(NamedTuple):
    node: int


class NodeFailed(NamedTuple):
    """A broker cannot be reached; it may be tried again (the network waits long enough)."""

    node: int
    error: KafkaError


class MetadataChanged:
    """New metadata has arrived."""


class Produced(NamedTuple):
    request_id: int
    answer: Response | KafkaError


class ProducerIdGranted(NamedTuple):
    producer_id: int
    producer_epoch: int


class ProducerIdFailed(NamedTuple):
    """The answer to a `RequestProducerId`: it failed, permanently unless retriable."""

    error: KafkaError


class PartitionsAdded(NamedTuple):
    """The answer to `AddPartitions`: they are in the transaction, or (``error``) they are not."""

    error: KafkaError | None = None


class Closing:
    """Fail everything that is not delivered."""


Event = (
    NodeConnected
    | NodeFailed
    | MetadataChanged
    | Produced
    | ProducerIdGranted
    | ProducerIdFailed
    | PartitionsAdded
    | Closing
)

# --- effects ---


class Connect(NamedTuple):
    """Open a connection to a broker; answered by `NodeConnected` or `NodeFailed`."""

    node: int


class SendProduce(NamedTuple):
    """Send a request to a connected broker; answered by `Produced`."""

    node: int
    request_id: int
    request: produce.Request
    version_max: int
    has_response: bool


class RefreshMetadata(NamedTuple):
    """Ask for the metadata of these topics soon."""

    topics: frozenset[str]


class RequestProducerId:
    """Ask for a producer id; answered by `ProducerIdGranted` or `ProducerIdFailed`."""


class AddPartitions(NamedTuple):
    """Add these to the transaction at its coordinator; answered by `PartitionsAdded`."""

    partitions: frozenset[TopicPartition]


class Tell(NamedTuple):
    """A batch is DONE: notify its waiters (`ProducerBatch.tell`)."""

    batch: ProducerBatch


Effect = Connect | SendProduce | RefreshMetadata | RequestProducerId | AddPartitions | Tell


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

    ``is_flushing``: a caller waits, so open batches are closed without lingering.
    """

    def __init__(
        self, config: SenderConfig, cluster: Cluster, accumulator: Accumulator, backoff: Backoff
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self.is_flushing = False
        self.outcomes = BatchOutcomes(config, accumulator, backoff)
        self._nodes: dict[int, _Node] = {}
        self._requests: dict[int, _Request] = {}
        self._next_request_id = 0
        self._identity = ProducerIdentity(
            backoff, is_transactional=config.transactional_id is not None
        )
        self._wake_at = math.inf

    # --- the machine ---

    def handle(self, event: Event, now: float) -> list[Effect]:
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
                    self.outcomes.give_up(batch, error, effects)
            case _:  # MetadataChanged: only a reason to look again
                pass
        self._go_on(now, effects)
        return effects

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        self._go_on(now, effects)
        return effects

    def _go_on(self, now: float, effects: list[Effect]) -> None:
        self._wake_at = math.inf
        if self._accumulator.active:
            self._wake_at = self.outcomes.give_up_overdue(now, effects)
            while self._send_round(now, effects):
                pass

    def deadline(self) -> float | None:
        """When `expire` is due, if no event comes first."""
        return None if self._wake_at == math.inf else self._wake_at

    @property
    def is_idle(self) -> bool:
        return not self._requests

    def opened(self, batch: ProducerBatch) -> float:
        """Account for a batch that was just opened; returns the new deadline."""
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
            if node_id in by_node and total > self._config.max_request_size:
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
                self.outcomes.give_up(batch, error, effects)

    def _renew_epoch(self, queue: PartitionQueue, effects: list[Effect]) -> bool:
        """Start a partition's sequences again, once none of its requests is unanswered."""
        if any(batch.state is BatchState.SENT for batch in queue.unacknowledged):
            return False
        self.outcomes.give_up_doubtful(queue, effects)
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
                self.outcomes.failed(batch, answer, now, effects)
            return
        if self._config.acks == 0:
            for batch in request.batches:
                self.outcomes.delivered(batch, -1, -1, effects)
            return
        assert isinstance(answer, produce.Response)
        node.muted_until = now + answer.throttle_time_ms / 1000
        outcomes = read_produce_response(self._cluster, answer)
        for batch in request.batches:
            outcome = outcomes.get((batch.topic, batch.partition))
            if outcome is None:
                missing = UnreadableResponseError(
                    f"the answer leaves out partition {batch.partition} of topic {batch.topic!r}"
                )
                self.outcomes.failed(batch, missing, now, effects)
            else:
                self._decided(batch, outcome, now, effects)

    def _decided(
        self,
        batch: ProducerBatch,
        outcome: produce.PartitionResponse,
        now: float,
        effects: list[Effect],
    ) -> None:
        if outcome.error_code in _DELIVERED:
            self.outcomes.delivered(batch, outcome.base_offset, outcome.log_append_time_ms, effects)
            return
        error = broker_error(
            outcome.error_code,
            f"{batch.record_count} records for partition {batch.partition} of {batch.topic!r}",
            outcome.error_message,
        )
        if error.code in TOO_LARGE and batch.record_count > 1:
            self.outcomes.split(batch, error)
        else:
            self.outcomes.failed(batch, error, now, effects)
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


NAMED_TOPICS_VERSION: Final = 12
"""The last version that names topics; later ones have their ids (KIP-516)."""
ANY_VERSION: Final = 32767


def produce_request(
    cluster: Cluster, batches: Sequence[ProducerBatch], *, acks: int, timeout_ms: int
) -> tuple[produce.Request, int]:
    """The request and the newest version in which it makes sense."""
    version_max = ANY_VERSION
    topics: dict[str, list[produce.PartitionData]] = {}
    for batch in batches:
        topics.setdefault(batch.topic, []).append(
            produce.PartitionData(index=batch.partition, records=batch.payload)
        )
    topic_data: list[produce.TopicData] = []
    for name, partitions in topics.items():
        known = cluster.topics.get(name)
        topic_id = ZERO_UUID if known is None else known.topic_id
        if topic_id == ZERO_UUID:
            version_max = NAMED_TOPICS_VERSION
        topic_data.append(
            produce.TopicData(topic_id=topic_id, name=name, partition_data=partitions)
        )
    return produce.Request(acks=acks, timeout_ms=timeout_ms, topic_data=topic_data), version_max


def read_produce_response(
    cluster: Cluster, response: produce.Response
) -> Mapping[tuple[str, int], produce.PartitionResponse]:
    """The outcomes by (topic, partition); new leaders update the cluster (KIP-951)."""
    for endpoint in response.node_endpoints:
        cluster.learn_broker(
            BrokerDescription(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        )
    outcomes: dict[tuple[str, int], produce.PartitionResponse] = {}
    for topic in response.responses:
        name = topic.name or cluster.names_by_id.get(topic.topic_id, "")
        for partition in topic.partition_responses:
            outcomes[name, partition.index] = partition
            leader = partition.current_leader
            if leader.leader_id >= 0:
                cluster.lead_moved(
                    TopicPartition(name, partition.index), leader.leader_id, leader.leader_epoch
                )
    return outcomes


_SEQUENCES_APART: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class BatchOutcomes:
    """Decides the outcome of batches, and updates the accumulator; ``errors``: by `error_name`."""

    def __init__(self, config: SenderConfig, accumulator: Accumulator, backoff: Backoff) -> None:
        self.retries = 0
        self.splits = 0
        self.errors: Counter[str] = Counter()
        self._config = config
        self._accumulator = accumulator
        self._backoff = backoff

    def delivered(
        self, batch: ProducerBatch, base_offset: int, append_time_ms: int, effects: list[Effect]
    ) -> None:
        if batch.state is BatchState.DONE:
            return  # it failed while the request was in flight
        queue = self._accumulator.queues[batch.topic, batch.partition]
        queue.stored_identity = queue.identity  # it changes only while no batch is in flight
        self._accumulator.remove(batch)
        batch.succeed(base_offset, append_time_ms)
        effects.append(Tell(batch))

    def failed(
        self, batch: ProducerBatch, error: KafkaError, now: float, effects: list[Effect]
    ) -> None:
        """A batch was not stored, or may not have been: retry it, or fail it."""
        if batch.state is BatchState.DONE:
            return
        self.errors[error_name(error)] += 1
        queue = self._accumulator.queues[batch.topic, batch.partition]
        is_apart = self._config.is_idempotent and error.code in _SEQUENCES_APART
        if is_apart and queue.unacknowledged[0] is batch:
            if batch.is_doubtful:
                self.give_up(batch, _doubtful_error(batch), effects)
                return
            queue.needs_new_epoch = True
        # Without acknowledgements it is unknown what was stored; a retry could duplicate it.
        is_final = self._config.acks == 0 or not (is_apart or error.is_retriable)
        if is_final:
            self.give_up(batch, error, effects)
            return
        batch.state = BatchState.RETRY
        batch.last_error = error
        batch.retry_at = now + self._backoff.seconds(batch.attempts)
        batch.attempts += 1
        self.retries += 1

    def split(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Send two in the place of one; the sequences stay what they are, record by record."""
        if batch.state is BatchState.DONE:
            return
        logger.info(
            "%d records for partition %d of topic %r are split: %s",
            batch.record_count,
            batch.partition,
            batch.topic,
            error,
            extra=LogEvent.BATCH_SPLIT.about(
                topic=batch.topic, partition=batch.partition, record_count=batch.record_count
            ),
        )
        self.errors[error_name(error)] += 1
        self.splits += 1
        config, sequence = self._config, batch.base_sequence
        parts, largest = split_batch(batch, config.compression, config.compression_level)
        for part in parts:
            part.is_doubtful = batch.is_doubtful or batch.attempts > 0
        if config.is_idempotent:
            queue = self._accumulator.queues[batch.topic, batch.partition]
            is_transactional = config.transactional_id is not None
            for part in parts:
                part.stamp(*queue.identity, sequence, is_transactional=is_transactional)
                sequence = part.next_sequence()
        self._accumulator.replace(batch, parts)
        self._accumulator.refused_as_too_large(batch.topic, largest)

    def give_up(self, batch: ProducerBatch, error: KafkaError, effects: list[Effect]) -> None:
        queue = self._accumulator.queues[batch.topic, batch.partition]
        was_sent = batch.state in (BatchState.SENT, BatchState.RETRY)
        if was_sent and self._config.is_idempotent and queue.stored_identity != queue.identity:
            # Whether the broker knows this producer depends on a request whose answer was
            # lost. A new epoch is new to it in any case.
            queue.needs_new_epoch = True
        self._accumulator.remove(batch)
        batch.fail(error)
        effects.append(Tell(batch))

    def give_up_overdue(self, now: float, effects: list[Effect]) -> float:
        """Fail batches that are too old; returns when the next one will be."""
        next_at = math.inf
        for queue in list(self._accumulator.active.values()):
            while (batch := queue.oldest) is not None:
                if batch.deadline > now:
                    next_at = min(next_at, batch.deadline)
                    break  # the ones behind it are younger
                why = batch.last_error or "no broker could be sent to"
                error = DeliveryTimeoutError(
                    f"{batch.record_count} records for partition {batch.partition} of topic "
                    f"{batch.topic!r} were not acknowledged within delivery_timeout_ms; "
                    f"the last reason: {why}"
                )
                self.give_up(batch, error, effects)
        return next_at

    def give_up_doubtful(self, queue: PartitionQueue, effects: list[Effect]) -> None:
        """Fail the batches in doubt: a partition's sequences are about to restart without them."""
        for batch in [each for each in queue.unacknowledged if each.is_doubtful]:
            self.give_up(batch, _doubtful_error(batch), effects)


def _doubtful_error(batch: ProducerBatch) -> KafkaError:
    return KafkaError(
        f"{batch.record_count} records for partition {batch.partition} of topic {batch.topic!r} "
        f"may or may not be stored: a request of theirs was never answered, and what the broker "
        f"has does not continue with them; read the partition to find out"
    )


def log_retry(batch: ProducerBatch, error: KafkaError) -> None:
    if batch.state is BatchState.RETRY:
        logger.warning(
            "will be sent again: %s",
            error,
            extra=LogEvent.RETRIED.about(
                topic=batch.topic,
                partition=batch.partition,
                attempt=batch.attempts,
                error=str(error),
            ),
        )
