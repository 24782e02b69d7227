"""Decides what to fetch from which broker, and what the answers mean for the partitions.

Each broker has at most one fetch unanswered. It names every partition of that broker that is READY
and not paused, even if it has unconsumed records: a fetch waits at the broker until there is
something to send, and a partition that it does not name would have to wait for it too. Memory is
bounded instead: what has been fetched and requested never exceeds ``prefetch_size_bytes_max`` (but
a broker always sends one batch, however large), shared evenly between the brokers.

A partition is read from its leader, or until the metadata expires from the nearer replica that the
leader named (KIP-392). An error of a replica sends the reader back to the leader. A leader that is
newer than the one that refused is asked without a pause (KIP-951).

An offset that no longer exists (retention, DeleteRecords) is reset as ``auto_offset_reset`` says. A
log that was truncated, or a topic that was recreated, is read again from where it differs from what
was read before; without a reset policy the partition fails (KIP-320). Both wait until the
application has consumed what was fetched before.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import fetch
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.schema import Response
from minikafka_client import errors
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import NO_LEADER, Cluster
from minikafka_client.core.fetch_session import FULL, FetchSession, Wanted
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.meters import error_name
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.log_events import LogEvent
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    AutoOffsetReset,
    BrokerDescription,
    IsolationLevel,
    OffsetAndMetadata,
    TopicPartition,
)


class FetcherConfig(NamedTuple):
    """The consumer's settings, as far as fetching goes; see `Consumer`."""

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_size_bytes_max: int
    isolation_level: IsolationLevel
    auto_offset_reset: AutoOffsetReset
    check_crcs: bool
    client_rack: str = ""
    metadata_max_age_ms: int = 300_000


# --- events ---


class NodeConnected(NamedTuple):
    node: int


class NodeFailed(NamedTuple):
    """A broker cannot be reached; it may be tried again (the network waits long enough)."""

    node: int


class Fetched(NamedTuple):
    request_id: int
    answer: Response | errors.KafkaError


class Changed:
    """Partitions were assigned, moved, paused or resumed, records consumed, or metadata changed."""


Event = NodeConnected | NodeFailed | Fetched | Changed

# --- effects ---


class Connect(NamedTuple):
    """Open a connection to a broker; answered by `NodeConnected` or `NodeFailed`."""

    node: int


class SendFetch(NamedTuple):
    """Send a request to a connected broker; answered by `Fetched`."""

    node: int
    request_id: int
    request: fetch.Request
    version_max: int


class RefreshMetadata(NamedTuple):
    """Ask for the metadata of these topics soon."""

    topics: frozenset[str]


Effect = Connect | SendFetch | RefreshMetadata


logger = logging.getLogger(__name__)


class _Node:
    """A broker as the fetcher sees it; ``request_id`` is -1 while no fetch is unanswered."""

    __slots__ = ("is_connected", "is_connecting", "muted_until", "request_id", "session")

    def __init__(self) -> None:
        self.is_connected = False
        self.is_connecting = False
        self.muted_until = 0.0
        self.request_id = -1
        self.session = FetchSession()


class _Asked(NamedTuple):
    node: int
    reserved_bytes: int
    terms: dict[PartitionReader, int]


class Fetcher:
    """The machine.

    Attributes:
        readers: the assigned partitions; their owner adds, removes and seeks, then feeds `Changed`.
        arrived: partitions with records to consume, in the order of their arrival.
        has_unplaced: whether a position of some partition has to be looked up.
    """

    def __init__(self, config: FetcherConfig, cluster: Cluster, backoff: Backoff) -> None:
        self._config = config
        self._cluster = cluster
        self._backoff = backoff
        self.readers: dict[TopicPartition, PartitionReader] = {}
        self.arrived: deque[PartitionReader] = deque()
        self.fetched_bytes = 0
        self.errors: Counter[str] = Counter()
        self.has_unplaced = False
        self._nodes: dict[int, _Node] = {}
        self._asked: dict[int, _Asked] = {}
        self._next_request_id = 0
        self._wake_at = math.inf

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case NodeConnected(node_id):
                node = self._node(node_id)
                node.is_connected, node.is_connecting = True, False
            case NodeFailed(node_id):
                node = self._node(node_id)
                node.is_connected = node.is_connecting = False
                effects.append(RefreshMetadata(frozenset(each.topic for each in self.readers)))
            case Fetched(request_id, answer):
                self._answered(self._asked.pop(request_id), answer, now, effects)
            case _:  # Changed: nothing but a reason to look again
                pass
        return effects + self.expire(now)

    def expire(self, now: float) -> list[Effect]:
        """Ask for whatever can be asked for now."""
        effects: list[Effect] = []
        self._wake_at = math.inf
        sources = {
            partition: self._source(reader, now) for partition, reader in self.readers.items()
        }
        share_bytes = self._config.prefetch_size_bytes_max // max(1, len(set(sources.values())))
        for node_id, readers in self._wanted(sources, now, effects).items():
            self._ask(node_id, readers, share_bytes, effects)
        return effects

    def deadline(self) -> float | None:
        """When `expire` has something to do again, if nothing happens before."""
        return None if self._wake_at == math.inf else self._wake_at

    def next_arrived(self) -> PartitionReader | None:
        """The partition with records to consume that has waited longest."""
        for _ in range(len(self.arrived)):
            reader = self.arrived.popleft()
            if not reader.fetched or self.readers.get(reader.partition) is not reader:
                continue  # moved, or no longer ours
            if not reader.is_paused:
                return reader
            self.arrived.append(reader)
        return None

    def resumed(self, reader: PartitionReader) -> None:
        if reader.fetched and reader not in self.arrived:
            self.arrived.append(reader)

    @property
    def prefetch_size_bytes_max(self) -> int:
        return self._config.prefetch_size_bytes_max

    @property
    def buffered_bytes(self) -> int:
        return sum(reader.buffered_bytes for reader in self.readers.values())

    # --- asking ---

    def _node(self, node: int) -> _Node:
        return self._nodes.setdefault(node, _Node())

    def _source(self, reader: PartitionReader, now: float) -> int:
        replica = reader.preferred_replica
        if replica >= 0:
            if now < reader.preferred_until and replica in self._cluster.brokers:
                return replica
            reader.preferred_replica = -1
        return self._cluster.leader(*reader.partition)

    def _wanted(
        self, sources: dict[TopicPartition, int], now: float, effects: list[Effect]
    ) -> dict[int, list[PartitionReader]]:
        wanted: dict[int, list[PartitionReader]] = {}
        leaderless: set[str] = set()
        self.has_unplaced = False
        for partition, reader in self.readers.items():
            if reader.phase is not Phase.READY or reader.is_paused:
                self.has_unplaced = self.has_unplaced or reader.is_unplaced
                continue
            if reader.retry_at > now and self._must_wait(reader):
                continue
            source = sources[partition]
            if source == NO_LEADER:
                leaderless.add(partition.topic)
            elif not reader.is_fetching and self._is_free(source, now, effects):
                if self._is_recreated(reader):
                    recreated(self._config, reader)
                    self.has_unplaced = self.has_unplaced or reader.is_unplaced
                else:
                    wanted.setdefault(source, []).append(reader)
        if leaderless:
            effects.append(RefreshMetadata(frozenset(leaderless)))
        return wanted

    def _must_wait(self, reader: PartitionReader) -> bool:
        if reader.retry_at == math.inf:
            must_wait = not reader.is_drained
        else:
            must_wait = self._cluster.leader_epoch(*reader.partition) <= reader.asked_epoch
        if must_wait:
            self._wake_at = min(self._wake_at, reader.retry_at)
        else:
            reader.retry_at = 0.0
        return must_wait

    def _is_recreated(self, reader: PartitionReader) -> bool:
        """Whether the topic was recreated since it was last read (KIP-516)."""
        known = self._cluster.topics.get(reader.partition.topic)
        if known is None or known.topic_id in (reader.topic_id, ZERO_UUID):
            return False
        if not reader.topic_id:
            reader.topic_id = known.topic_id
            return False
        return True

    def _is_free(self, node_id: int, now: float, effects: list[Effect]) -> bool:
        node = self._node(node_id)
        if not node.is_connected:
            if not node.is_connecting:
                node.is_connecting = True
                effects.append(Connect(node_id))
            return False
        if node.muted_until > now:
            self._wake_at = min(self._wake_at, node.muted_until)
            return False
        return node.request_id < 0

    def _ask(
        self, node_id: int, readers: list[PartitionReader], share_bytes: int, effects: list[Effect]
    ) -> None:
        partition_max_bytes = self._config.max_partition_fetch_bytes
        # A broker that took more than its share would make the others wait for its answer.
        max_bytes = max(
            1, min(self._config.fetch_max_bytes, share_bytes, partition_max_bytes * len(readers))
        )
        reserved = sum(asked.reserved_bytes for asked in self._asked.values())
        free = self._config.prefetch_size_bytes_max - self.buffered_bytes - reserved
        # Many small fetches would cost more than they bring forward.
        if free < min(partition_max_bytes, max_bytes):
            return
        max_bytes = min(max_bytes, free)
        # Brokers fill a response in the order of the request: the emptiest partition comes first.
        readers.sort(key=lambda reader: reader.buffered_bytes)
        node = self._node(node_id)
        request, version_max = fetch_request(
            self._cluster, node.session, node_id, readers, self._config, max_bytes
        )
        request_id = self._next_request_id
        self._next_request_id += 1
        node.request_id = request_id
        for reader in readers:
            reader.is_fetching = True
            reader.asked_epoch = self._cluster.leader_epoch(*reader.partition)
        terms = {reader: reader.term for reader in readers}
        self._asked[request_id] = _Asked(node_id, max_bytes, terms)
        effects.append(SendFetch(node_id, request_id, request, version_max))

    # --- answers ---

    def _answered(
        self, asked: _Asked, answer: Response | errors.KafkaError, now: float, effects: list[Effect]
    ) -> None:
        node = self._node(asked.node)
        node.request_id = -1
        current = self._current(asked)
        for reader in current.values():
            reader.is_fetching = False
        if isinstance(answer, errors.KafkaError):
            node.session.lost()
            node.is_connected = node.is_connected and not answer.is_retriable
            self._refused(current.values(), answer, now, effects)
            return
        assert isinstance(answer, fetch.Response)
        was_full = node.session.epoch == FULL
        node.session.answered(answer)
        node.muted_until = now + answer.throttle_time_ms / 1000
        if answer.error_code in _SESSION_GONE and not was_full:
            return  # the next request is a full one
        if answer.error_code:
            error = _fetch_error(answer.error_code, f"fetch from broker {asked.node}")
            self._refused(current.values(), error, now, effects)
            return
        for partition, outcome in read_fetch_response(self._cluster, answer):
            if partition in current:
                self._arrived(current[partition], outcome, asked.node, now, effects)

    def _current(self, asked: _Asked) -> dict[TopicPartition, PartitionReader]:
        """The partitions of a request that are still ours and were not moved."""
        return {
            reader.partition: reader
            for reader, term in asked.terms.items()
            if self.readers.get(reader.partition) is reader and reader.term == term
        }

    def _refused(
        self,
        readers: Iterable[PartitionReader],
        error: errors.KafkaError,
        now: float,
        effects: list[Effect],
    ) -> None:
        partitions = [reader.partition for reader in readers]
        effects.append(RefreshMetadata(frozenset(partition.topic for partition in partitions)))
        self.errors[error_name(error)] += len(partitions)
        if error.is_retriable:
            logger.warning(
                "the fetch of %d partitions will be repeated: %s",
                len(partitions),
                error,
                extra=LogEvent.RETRIED.about(partitions=partitions, error=str(error)),
            )
        for reader in readers:
            if error.is_retriable:
                self._retry_later(reader, now)
            else:
                reader.fail(error)

    def _retry_later(self, reader: PartitionReader, now: float) -> None:
        reader.preferred_replica = -1
        reader.retry_at = now + self._backoff.seconds(reader.attempts)
        reader.attempts += 1

    def _arrived(
        self,
        reader: PartitionReader,
        outcome: fetch.PartitionData,
        node_id: int,
        now: float,
        effects: list[Effect],
    ) -> None:
        code = outcome.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and node_id == reader.preferred_replica:
            reader.preferred_replica = -1  # the leader knows better which offsets there are
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            out_of_range(self._config, reader)
        elif code:
            topic, partition = reader.partition
            error = _fetch_error(code, f"fetch of partition {partition} of topic {topic!r}")
            self._refused([reader], error, now, effects)
        elif is_truncation(outcome):
            truncated(self._config, reader, outcome.diverging_epoch)
        else:
            if outcome.preferred_read_replica not in (-1, node_id):
                reader.preferred_replica = outcome.preferred_read_replica
                reader.preferred_until = now + self._config.metadata_max_age_ms / 1000
            if keep_records(self._config, reader, outcome):
                self.fetched_bytes += reader.fetched[-1].size_bytes
                self.resumed(reader)


def _fetch_error(code: int, subject: str) -> errors.KafkaError:
    """As Java has it: a broker may stumble over a fetch, but a damaged log stays damaged."""
    error = errors.broker_error(code, subject)
    if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        error.is_retriable = True
    elif error.code is ErrorCode.CORRUPT_MESSAGE:
        error.is_retriable = False
    return error


_SESSION_GONE: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


NAMED_TOPICS_VERSION: Final = 12
"""The last version that names topics; later ones have their ids (KIP-516)."""
ANY_VERSION: Final = 32767
_NO_EPOCH: Final = -1


def fetch_request(
    cluster: Cluster,
    session: FetchSession,
    node: int,
    readers: Sequence[PartitionReader],
    config: FetcherConfig,
    max_bytes: int,
) -> tuple[fetch.Request, int]:
    """The request for a broker, and the newest version in which it makes sense."""
    wanted: dict[TopicPartition, Wanted] = {}
    uses_topic_ids = True
    for reader in readers:
        topic, partition = reader.partition
        known = cluster.topics.get(topic)
        topic_id = ZERO_UUID if known is None else known.topic_id
        uses_topic_ids = uses_topic_ids and topic_id != ZERO_UUID
        # A follower may not have replicated the rest of the log yet: that is no truncation.
        is_from_leader = node != reader.preferred_replica
        wanted[reader.partition] = Wanted(
            topic_id,
            reader.fetch_offset,
            cluster.leader_epoch(topic, partition),
            reader.fetched_epoch if is_from_leader else _NO_EPOCH,
            config.max_partition_fetch_bytes,
        )
    part = session.request(wanted, uses_topic_ids=uses_topic_ids)
    request = fetch.Request(
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=config.isolation_level,
        session_id=part.session_id,
        session_epoch=part.epoch,
        topics=part.topics,
        forgotten_topics_data=part.forgotten,
        rack_id=config.client_rack,
    )
    return request, ANY_VERSION if uses_topic_ids else NAMED_TOPICS_VERSION


def read_fetch_response(
    cluster: Cluster, response: fetch.Response
) -> Iterator[tuple[TopicPartition, fetch.PartitionData]]:
    """The outcomes; new leaders in the response update the cluster (KIP-951)."""
    for endpoint in response.node_endpoints:
        cluster.learn_broker(
            BrokerDescription(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
        )
    for topic in response.responses:
        name = topic.topic or cluster.names_by_id.get(topic.topic_id, "")
        for outcome in topic.partitions:
            partition = TopicPartition(name, outcome.partition_index)
            leader = outcome.current_leader
            if leader.leader_id >= 0:
                cluster.lead_moved(partition, leader.leader_id, leader.leader_epoch)
            yield partition, outcome


RESET_SPECS: Final = {AutoOffsetReset.EARLIEST: EARLIEST, AutoOffsetReset.LATEST: LATEST}


def keep_records(
    config: FetcherConfig, reader: PartitionReader, outcome: fetch.PartitionData
) -> bool:
    """Keep what was fetched; False if it is empty or unreadable (then the reader fails)."""
    reader.attempts = 0
    is_committed = config.isolation_level is IsolationLevel.READ_COMMITTED
    reader.end_offset = outcome.last_stable_offset if is_committed else outcome.high_watermark
    reader.log_start_offset = outcome.log_start_offset
    if outcome.records is None or not len(outcome.records):
        return False
    aborted = None
    if is_committed:
        aborted = [
            (each.producer_id, each.first_offset) for each in outcome.aborted_transactions or ()
        ]
    try:
        records = ConsumedBatch(
            reader.partition,
            cast("memoryview", outcome.records),  # what a decoded payload always is
            reader.fetch_offset,
            aborted=aborted,
            check_crcs=config.check_crcs,
        )
    except CorruptBatchError as error:
        topic, partition = reader.partition
        reader.fail(
            errors.CorruptRecordsError(topic, partition, reader.fetch_offset, None, str(error))
        )
        return False
    if records.next_offset == reader.fetch_offset:
        return False  # not one whole batch: the broker did not finish it in this response
    reader.take(records)
    return True


def is_truncation(outcome: fetch.PartitionData) -> bool:
    return outcome.diverging_epoch.epoch >= 0 and outcome.diverging_epoch.end_offset >= 0


def truncated(
    config: FetcherConfig, reader: PartitionReader, parting: fetch.EpochEndOffset
) -> None:
    """The leader's log has other records than those that we read, from its ``end_offset`` on."""
    if parting.end_offset >= reader.fetch_offset:
        reader.fetched_epoch = parting.epoch  # beyond what we have: nothing is lost
        return
    if reader.fetched:
        reader.unfetch()  # not consumed yet
        return
    if not _is_ready_to_move(reader):
        return
    divergent = OffsetAndMetadata(parting.end_offset, "", parting.epoch)
    if config.auto_offset_reset is AutoOffsetReset.NONE:
        _fail_truncated(reader, divergent)
        return
    logger.warning(
        "partition %d of topic %r was truncated: reading again from offset %d, after records "
        "before %d were read",
        reader.partition.partition,
        reader.partition.topic,
        divergent.offset,
        reader.position,
        extra=LogEvent.LOG_TRUNCATED.about(
            topic=reader.partition.topic,
            partition=reader.partition.partition,
            position=reader.position,
            divergent_offset=divergent.offset,
        ),
    )
    reader.seek(divergent.offset, divergent.leader_epoch)


def recreated(config: FetcherConfig, reader: PartitionReader) -> None:
    """The topic was deleted and recreated: it has none of the records that were read."""
    reader.unfetch()
    if not _is_ready_to_move(reader):
        return
    if config.auto_offset_reset is AutoOffsetReset.NONE:
        _fail_truncated(reader, OffsetAndMetadata(0))
        return
    logger.warning(
        "topic %r was deleted and recreated: reading its partition %d from the beginning",
        reader.partition.topic,
        reader.partition.partition,
        extra=LogEvent.TOPIC_RECREATED.about(
            topic=reader.partition.topic, partition=reader.partition.partition
        ),
    )
    reader.reset(EARLIEST)


def out_of_range(config: FetcherConfig, reader: PartitionReader) -> None:
    if not _is_ready_to_move(reader):
        return
    topic, partition = reader.partition
    spec = RESET_SPECS.get(config.auto_offset_reset)
    if spec is None:
        reader.fail(
            errors.NoOffsetError(
                f"partition {partition} of topic {topic!r} has no offset {reader.position} (any "
                f"more); seek, or set auto_offset_reset"
            )
        )
        return
    logger.warning(
        "partition %d of topic %r has no offset %d: continuing at the %s one",
        partition,
        topic,
        reader.position,
        config.auto_offset_reset.value,
        extra=LogEvent.OFFSET_RESET.about(
            topic=topic, partition=partition, position=reader.position
        ),
    )
    reader.reset(spec)


def _is_ready_to_move(reader: PartitionReader) -> bool:
    """What has been fetched is consumed first; then the offset after it is fetched again."""
    if reader.is_drained:
        return True
    reader.retry_at = math.inf
    return False


def _fail_truncated(reader: PartitionReader, divergent: OffsetAndMetadata) -> None:
    position = OffsetAndMetadata(reader.position, "", reader.leader_epoch)
    reader.fail(errors.LogTruncationError(reader.partition, position, divergent))
