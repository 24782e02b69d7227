"""What a consumer of a share group fetches, holds and acknowledges (KIP-932).

With each broker that leads some of its partitions the consumer has a *share session*. One request
is in flight in it at a time:

    request                           epoch        leads to
    ShareFetch naming all partitions  0            1; an error: 0
    ShareFetch naming what changed    n > 0        n + 1; after 2**31 - 1 comes 1; an error: 0
    ShareAcknowledge                  n > 0        the same
    ShareAcknowledge, the last        -1           closed: the broker releases what is still held

A record goes through these states, once the broker has acquired it for this consumer:

    state       means                                            leaves it by
    buffered    the application has not seen it                  taken -> held; its lock ends: gone
    held        the application works on it                      acknowledged -> decided
    decided     the acknowledgement waits for the next request   sent -> in flight
    in flight   the broker is about to decide                    answered: settled, with a result

An acknowledgement travels with the next fetch from that broker, or alone after
``ACKNOWLEDGE_LINGER_S``. Renewing a lock is an acknowledgement after which the record is held as
before. When the session ends (an error, a lost connection), the broker releases what was held in
it: acknowledgements that it has not answered fail, and so do later ones of the same records.
Whether those in flight took effect is not known then.

Nothing is fetched while the application has records that it has not seen: their locks run. A
record whose lock has ended before the application sees it is dropped; another consumer gets it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, cast

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import share_acknowledge, share_fetch
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import (
    CorruptRecordsError,
    KafkaError,
    broker_error,
)
from minikafka_client.types import (
    BrokerDescription,
    ConsumerRecord,
    ShareAcquireMode,
    TopicPartition,
)

ACKNOWLEDGE_LINGER_S: Final = 0.5
"""An acknowledgement waits this long for a fetch that it could travel with."""
CLOSING: Final = -1
EPOCH_MAX: Final = 0x7FFFFFFF
RENEW_VERSION: Final = 2


class AcknowledgeType(IntEnum):
    """What became of a record; GAP: there is none at this offset (compaction, transactions)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ShareConfig(NamedTuple):
    """The settings of a share consumer, as far as fetching goes."""

    group_id: str
    member_id: str
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    acquire_mode: ShareAcquireMode


_Place = tuple[bytes, int]
_Key = tuple[TopicPartition, int]
"""A record: its partition and offset."""


class Acquired(NamedTuple):
    """A record that the broker has acquired for this consumer.

    ``session``: the number of the session that holds it. ``expires_at``: when its lock ends.
    """

    record: ConsumerRecord
    delivery_count: int
    node: int
    session: int
    topic_id: bytes
    expires_at: float

    @property
    def key(self) -> _Key:
        return TopicPartition(self.record.topic, self.record.partition), self.record.offset


# --- events ---


class Changed:
    """The assignment, the metadata, what is decided, or the application's appetite has changed."""


class Answered(NamedTuple):
    node: int
    request_id: int
    answer: Response | KafkaError


class NodeConnected(NamedTuple):
    node: int


class NodeFailed(NamedTuple):
    node: int


Event = Changed | Answered | NodeConnected | NodeFailed

# --- effects ---


class SendShare(NamedTuple):
    """Send a request of a session; answered by `Answered`."""

    node: int
    request_id: int
    request: Request
    version_min: int


class Connect(NamedTuple):
    node: int


class RefreshMetadata(NamedTuple):
    topics: frozenset[str]


class Settled(NamedTuple):
    """A partition's acknowledgements were decided: they took effect, or why not."""

    partition: TopicPartition
    offsets: tuple[int, ...]
    error: KafkaError | None


Effect = SendShare | Connect | RefreshMetadata | Settled


@dataclass(slots=True)
class Session:
    """The session with one broker; ``number`` rises whenever it is opened again.

    ``decided`` and ``in_flight`` have acknowledgement types by place and offset.
    """

    number: int = 0
    epoch: int = 0
    places: set[_Place] = field(default_factory=set[_Place])
    decided: dict[_Place, dict[int, AcknowledgeType]] = field(
        default_factory=dict[_Place, dict[int, AcknowledgeType]]
    )
    in_flight: dict[_Place, dict[int, AcknowledgeType]] = field(
        default_factory=dict[_Place, dict[int, AcknowledgeType]]
    )
    unanswered: int | None = None
    is_fetching: bool = False
    is_connected: bool = False
    is_connecting: bool = False
    flush_at: float = math.inf
    retry_at: float = 0.0
    failures: int = 0

    def advanced(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        self.failures = 0


class ShareFetcher:
    """The machine.

    Attributes:
        assigned: the partitions to fetch from.
        wants_records: whether the application waits.
        buffer: records that it has not seen.
        held: records that it has seen and not decided about.
        error: why nothing more can be fetched; the application gets it once.
        lock_timeout_ms: how long the broker locks records; 0 before the first fetch.
    """

    def __init__(self, config: ShareConfig, cluster: Cluster, backoff: Backoff) -> None:
        self._config = config
        self._cluster = cluster
        self._backoff = backoff
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.wants_records = False
        self.buffer: deque[Acquired] = deque()
        self.held: dict[_Key, Acquired] = {}
        self.error: KafkaError | None = None
        self.lock_timeout_ms = 0
        self.sessions: dict[int, Session] = {}
        self._names: dict[bytes, str] = {}
        self._last_request = 0
        self._is_closing = False

    # --- the application's side ---

    def take(self, now: float) -> Acquired | None:
        """The next record, which is held from now on; None when there is none."""
        while self.buffer:
            acquired = self.buffer.popleft()
            if acquired.expires_at > now:
                self.held[acquired.key] = acquired
                return acquired
        return None

    def untake(self, acquired: Acquired) -> None:
        """The record that was just taken is the next one again."""
        del self.held[acquired.key]
        self.buffer.appendleft(acquired)

    def decide(self, key: _Key, decision: AcknowledgeType, now: float) -> list[Effect]:
        """Acknowledge a record that is held.

        Raises:
            KeyError: it is not held.
        """
        acquired = self.held[key]
        if decision is not AcknowledgeType.RENEW:
            del self.held[key]
        return self._decide(acquired, decision, now)

    def _decide(self, acquired: Acquired, decision: AcknowledgeType, now: float) -> list[Effect]:
        partition, offset = acquired.key
        session = self.sessions[acquired.node]
        if session.number != acquired.session:
            return [Settled(partition, (offset,), _session_ended(partition))]
        place = (acquired.topic_id, partition.partition)
        session.decided.setdefault(place, {})[offset] = decision
        linger_s = 0.0 if decision is AcknowledgeType.RENEW else ACKNOWLEDGE_LINGER_S
        session.flush_at = min(session.flush_at, now + linger_s)
        return []

    def give_back(self, now: float) -> list[Effect]:
        """Release what the application has not seen."""
        effects: list[Effect] = []
        while self.buffer:
            effects += self._decide(self.buffer.popleft(), AcknowledgeType.RELEASE, now)
        return effects

    def flush(self, now: float) -> None:
        """Send what is decided as soon as possible."""
        for session in self.sessions.values():
            if session.decided:
                session.flush_at = now

    def close(self) -> None:
        """Send what is decided, and close every session."""
        self._is_closing = True

    @property
    def is_closed(self) -> bool:
        return all(
            session.epoch == 0 or not session.is_connected for session in self.sessions.values()
        )

    def undecided(self) -> set[_Key]:
        """Records whose acknowledgement was not answered yet."""
        return {
            (TopicPartition(self._names[topic_id], index), offset)
            for session in self.sessions.values()
            for part in (session.decided, session.in_flight)
            for (topic_id, index), offsets in part.items()
            for offset, decision in offsets.items()
            if decision is not AcknowledgeType.GAP
        }

    # --- the machine ---

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Answered(node, request_id, answer):
                session = self.sessions[node]
                if session.unanswered == request_id:
                    session.unanswered = None
                    self._answered(node, session, answer, now, effects)
            case NodeConnected(node):
                session = self.sessions[node]
                session.is_connected, session.is_connecting = True, False
            case NodeFailed(node):
                session = self.sessions[node]
                session.is_connecting = False
                self._pause(session, now)
                effects.append(RefreshMetadata(frozenset()))
            case _:
                pass
        return effects + self.expire(now)

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        wanted: dict[int, dict[_Place, TopicPartition]] = {}
        unknown: set[str] = set()
        for partition in sorted(self.assigned):
            node = self._cluster.leader(*partition)
            topic = self._cluster.topics.get(partition.topic)
            if node < 0 or topic is None:
                unknown.add(partition.topic)
                continue
            self._names[topic.topic_id] = partition.topic
            self.sessions.setdefault(node, Session())
            wanted.setdefault(node, {})[topic.topic_id, partition.partition] = partition
        if unknown and self.wants_records and not self._is_closing:
            effects.append(RefreshMetadata(frozenset(unknown)))
        for node, session in self.sessions.items():
            self._next_request(node, session, wanted.get(node, {}).keys(), now, effects)
        return effects

    def deadline(self) -> float | None:
        times: list[float] = []
        for session in self.sessions.values():
            if session.unanswered is None:
                if session.retry_at:
                    times.append(session.retry_at)
                elif session.epoch and session.decided:
                    times.append(session.flush_at)
        first = min(times, default=math.inf)
        return None if first == math.inf else first

    def _next_request(
        self,
        node: int,
        session: Session,
        wanted: Iterable[_Place],
        now: float,
        effects: list[Effect],
    ) -> None:
        if session.unanswered is not None or now < session.retry_at:
            return
        session.retry_at = 0.0
        places = set(wanted)
        may_fetch = not self._is_closing and self.wants_records and not self.buffer
        fetches = may_fetch and bool(places) and self.error is None
        closes = self._is_closing and session.epoch > 0
        acknowledges = session.epoch > 0 and bool(session.decided) and now >= session.flush_at
        if not (fetches or closes or acknowledges):
            return
        if not session.is_connected:
            if not session.is_connecting and not self._is_closing:
                session.is_connecting = True
                effects.append(Connect(node))
            return
        renews = any(
            decision is AcknowledgeType.RENEW
            for offsets in session.decided.values()
            for decision in offsets.values()
        )
        session.in_flight, session.decided = session.decided, {}
        session.flush_at = math.inf
        # A fetch that renews would bring no records.
        session.is_fetching = fetches and not renews
        if session.is_fetching:
            request: Request = self._fetch_request(session, places)
        else:
            epoch = CLOSING if closes else session.epoch
            request = self._acknowledge_request(session, epoch, renews=renews)
        self._last_request += 1
        session.unanswered = self._last_request
        version_min = RENEW_VERSION if renews else 0
        effects.append(SendShare(node, self._last_request, request, version_min))

    def _fetch_request(self, session: Session, places: set[_Place]) -> share_fetch.Request:
        if session.epoch == 0:
            session.number += 1
            session.places = set()
        forgotten = _by_topic(session.places - places)
        named = _by_topic((places - session.places) | session.in_flight.keys())
        session.places = places
        config = self._config
        return share_fetch.Request(
            group_id=config.group_id,
            member_id=config.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records,
            batch_size=config.max_poll_records,
            share_acquire_mode=config.acquire_mode.value,
            topics=[
                share_fetch.Topic(
                    topic_id=topic_id,
                    partitions=[
                        share_fetch.Partition(
                            partition_index=index,
                            acknowledgement_batches=[
                                share_fetch.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                                )
                                for first, last, kind in _runs(
                                    session.in_flight.get((topic_id, index), {})
                                )
                            ],
                        )
                        for index in indexes
                    ],
                )
                for topic_id, indexes in named.items()
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in forgotten.items()
            ],
        )

    def _acknowledge_request(
        self, session: Session, epoch: int, *, renews: bool
    ) -> share_acknowledge.Request:
        return share_acknowledge.Request(
            group_id=self._config.group_id,
            member_id=self._config.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=[
                share_acknowledge.Topic(
                    topic_id=topic_id,
                    partitions=[
                        share_acknowledge.Partition(
                            partition_index=index,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                                )
                                for first, last, kind in _runs(session.in_flight[topic_id, index])
                            ],
                        )
                        for index in indexes
                    ],
                )
                for topic_id, indexes in _by_topic(session.in_flight).items()
            ],
        )

    # --- answers ---

    def _answered(
        self,
        node: int,
        session: Session,
        answer: Response | KafkaError,
        now: float,
        effects: list[Effect],
    ) -> None:
        if isinstance(answer, KafkaError):
            session.is_connected = False
            self._session_failed(session, answer, now, effects)
            effects.append(RefreshMetadata(frozenset()))
            return
        assert isinstance(answer, share_fetch.Response | share_acknowledge.Response)
        if answer.error_code:
            error = broker_error(
                answer.error_code, f"share group {self._config.group_id!r}", answer.error_message
            )
            self._session_failed(session, error, now, effects)
            return
        for each in answer.node_endpoints:
            self._cluster.learn_broker(BrokerDescription(*(each.node_id, each.host, each.port)))
        if isinstance(answer, share_fetch.Response):
            session.advanced()
            self.lock_timeout_ms = answer.acquisition_lock_timeout_ms
            self._fetched(node, session, answer, now, effects)
        else:
            self._acknowledged(session, answer, effects)
            if self._is_closing:
                session.epoch = 0
            else:
                session.advanced()
        for place in list(session.in_flight):  # what an answer leaves out was taken
            self._settle(session, place, None, effects)

    def _fetched(
        self,
        node: int,
        session: Session,
        answer: share_fetch.Response,
        now: float,
        effects: list[Effect],
    ) -> None:
        for topic in answer.responses:
            name = self._names.get(topic.topic_id)
            if name is None:
                continue
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                place = (topic.topic_id, data.partition_index)
                subject = f"partition {partition.partition} of topic {name!r}"
                if place in session.in_flight:
                    refusal = (
                        broker_error(
                            data.acknowledge_error_code,
                            f"acknowledgement in {subject}",
                            data.acknowledge_error_message,
                        )
                        if data.acknowledge_error_code
                        else None
                    )
                    self._settle(session, place, refusal, effects)
                if data.error_code:
                    error = broker_error(data.error_code, subject, data.error_message)
                    self._partition_failed(
                        session, partition, error, data.current_leader, now, effects
                    )
                elif data.acquired_records:
                    self._acquired(node, session, topic.topic_id, partition, data, now)

    def _acquired(
        self,
        node: int,
        session: Session,
        topic_id: bytes,
        partition: TopicPartition,
        data: share_fetch.PartitionData,
        now: float,
    ) -> None:
        counts = {
            offset: acquired.delivery_count
            for acquired in data.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        decided = session.decided.setdefault((topic_id, partition.partition), {})
        records, damaged = self._decoded(partition, cast("memoryview", data.records), min(counts))
        expires_at = now + self.lock_timeout_ms / 1000
        for record in records:
            delivery_count = counts.pop(record.offset, None)
            if delivery_count is not None:
                self.buffer.append(
                    Acquired(record, delivery_count, node, session.number, topic_id, expires_at)
                )
        for offset in counts:  # there are no records at these offsets, or unreadable ones
            is_damaged = damaged is not None and offset >= damaged.offset
            decided[offset] = AcknowledgeType.REJECT if is_damaged else AcknowledgeType.GAP
        if damaged is not None:
            self.error = damaged
        if counts:
            session.flush_at = min(session.flush_at, now + ACKNOWLEDGE_LINGER_S)
        if not decided:
            del session.decided[topic_id, partition.partition]

    def _decoded(
        self, partition: TopicPartition, payload: memoryview, first_offset: int
    ) -> tuple[list[ConsumerRecord], CorruptRecordsError | None]:
        """The readable records, and why there are not more."""
        run: ConsumedBatch = ConsumedBatch(
            partition, payload, first_offset, check_crcs=self._config.check_crcs
        )
        try:
            return list(run.records), None
        except CorruptRecordsError as error:
            return list(run.until(error.offset).records), error

    def _acknowledged(
        self, session: Session, answer: share_acknowledge.Response, effects: list[Effect]
    ) -> None:
        for topic in answer.responses:
            for data in topic.partitions:
                place = (topic.topic_id, data.partition_index)
                if place not in session.in_flight:
                    continue
                name = self._names[topic.topic_id]
                error = None
                if data.error_code:
                    error = broker_error(
                        data.error_code,
                        f"acknowledgement in partition {data.partition_index} of topic {name!r}",
                        data.error_message,
                    )
                    if error.is_retriable:
                        effects.append(RefreshMetadata(frozenset({name})))
                self._settle(session, place, error, effects)

    def _settle(
        self, session: Session, place: _Place, error: KafkaError | None, effects: list[Effect]
    ) -> None:
        offsets = session.in_flight.pop(place)
        partition = TopicPartition(self._names[place[0]], place[1])
        told = tuple(
            sorted(o for o, decision in offsets.items() if decision is not AcknowledgeType.GAP)
        )
        if told:
            effects.append(Settled(partition, told, error))

    def _partition_failed(
        self,
        session: Session,
        partition: TopicPartition,
        error: KafkaError,
        leader: share_fetch.LeaderIdAndEpoch,
        now: float,
        effects: list[Effect],
    ) -> None:
        moved = self._cluster.lead_moved(partition, leader.leader_id, leader.leader_epoch)
        if moved:
            return
        if error.is_retriable or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            effects.append(RefreshMetadata(frozenset({partition.topic})))
            self._pause(session, now)
        else:
            self.error = error

    def _session_failed(
        self, session: Session, error: KafkaError, now: float, effects: list[Effect]
    ) -> None:
        for place, offsets in session.decided.items():
            session.in_flight.setdefault(place, {}).update(offsets)
        session.decided = {}
        session.flush_at = math.inf
        for place in list(session.in_flight):
            self._settle(session, place, error, effects)
        session.epoch = 0
        session.number += 1  # the broker releases what was held in the old one
        session.places = set()
        self.buffer = deque(
            each for each in self.buffer if self.sessions[each.node].number == each.session
        )
        if error.is_retriable:
            self._pause(session, now)
        else:
            self.error = error

    def _pause(self, session: Session, now: float) -> None:
        session.retry_at = now + self._backoff.seconds(session.failures)
        session.failures += 1


def _session_ended(partition: TopicPartition) -> KafkaError:
    return broker_error(
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        f"acknowledgement in partition {partition.partition} of topic {partition.topic!r}",
        "the session in which it was acquired has ended",
    )


def _by_topic(places: Iterable[_Place]) -> dict[bytes, list[int]]:
    grouped: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        grouped.setdefault(topic_id, []).append(index)
    return grouped


def _runs(
    offsets: Mapping[int, AcknowledgeType],
) -> list[tuple[int, int, AcknowledgeType]]:
    """First and last offset of consecutive offsets that are decided alike."""
    runs: list[tuple[int, int, AcknowledgeType]] = []
    for offset in sorted(offsets):
        kind = offsets[offset]
        if runs and runs[-1][1] == offset - 1 and runs[-1][2] is kind:
            runs[-1] = (runs[-1][0], offset, kind)
        else:
            runs.append((offset, offset, kind))
    return runs
