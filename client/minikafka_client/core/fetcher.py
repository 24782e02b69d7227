"""Decides what to fetch from which broker, and what the answers mean for the partitions.

Each broker has at most one fetch unanswered. It names every partition of that broker that is READY
and not paused, whether or not some of its records are still here: a fetch waits at the broker until
there is something to send, and a partition that it does not name would wait for it, too. Memory is
bounded instead: what is here and what has been asked for never exceeds ``prefetch_size_bytes_max``
(but a broker always sends one batch, however large), shared evenly between the brokers.

A partition is read from its leader, or for as long as metadata lives from the replica that the
leader named, because it is nearer (KIP-392). What is wrong with a replica sends the reader back to
the leader. A leader that is newer than the one that refused is asked without a pause (KIP-951).
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchResponse, PartitionData
from minikafka.protocol.schema import ZERO_UUID, Response
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import NO_LEADER, Cluster
from minikafka_client.core.fetch_outcomes import (
    is_truncation,
    keep_records,
    made_anew,
    out_of_range,
    truncated,
)
from minikafka_client.core.fetch_request import fetch_request, read_fetch_response
from minikafka_client.core.fetch_session import FULL, FetchSession
from minikafka_client.core.fetcher_messages import (
    Connect,
    Effect,
    Event,
    Fetched,
    FetcherConfig,
    NodeConnected,
    NodeFailed,
    RefreshMetadata,
    SendFetch,
)
from minikafka_client.core.meters import error_name
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.errors import KafkaError, broker_error
from minikafka_client.log_events import LogEvent
from minikafka_client.types import TopicPartition

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
        arrived: partitions with records to hand out, in the order in which these came.
        fetched_bytes: what came in all.
        errors: what partitions' fetches met, by `error_name`.
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
        """Take in an event, and go on."""
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
        """A partition that has records to hand out now, the one that has waited longest."""
        for _ in range(len(self.arrived)):
            reader = self.arrived.popleft()
            if not reader.fetched or self.readers.get(reader.partition) is not reader:
                continue  # sought elsewhere, or no longer ours
            if not reader.is_paused:
                return reader
            self.arrived.append(reader)
        return None

    def resumed(self, reader: PartitionReader) -> None:
        """Line a partition up (again) that has records to hand out."""
        if reader.fetched and reader not in self.arrived:
            self.arrived.append(reader)

    @property
    def prefetch_size_bytes_max(self) -> int:
        """How much may be here and on its way."""
        return self._config.prefetch_size_bytes_max

    @property
    def buffered_bytes(self) -> int:
        """What all fetched records occupy."""
        return sum(reader.buffered_bytes for reader in self.readers.values())

    # --- asking ---

    def _node(self, node: int) -> _Node:
        return self._nodes.setdefault(node, _Node())

    def _source(self, reader: PartitionReader, now: float) -> int:
        """The broker to read a partition from."""
        replica = reader.preferred_replica
        if replica >= 0:
            if now < reader.preferred_until and replica in self._cluster.brokers:
                return replica
            reader.preferred_replica = -1
        return self._cluster.leader(*reader.partition)

    def _wanted(
        self, sources: dict[TopicPartition, int], now: float, effects: list[Effect]
    ) -> dict[int, list[PartitionReader]]:
        """What to ask each broker for that has no fetch unanswered."""
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
                if self._is_made_anew(reader):
                    made_anew(self._config, reader)
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

    def _is_made_anew(self, reader: PartitionReader) -> bool:
        """Whether the topic is another one than the one that was read until now (KIP-516)."""
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
        partition_max_bytes = self._config.partition_fetch_size_bytes_max
        # A broker that took more than its share would make the others wait for its answer.
        max_bytes = max(
            1,
            min(self._config.fetch_size_bytes_max, share_bytes, partition_max_bytes * len(readers)),
        )
        reserved = sum(asked.reserved_bytes for asked in self._asked.values())
        free = self._config.prefetch_size_bytes_max - self.buffered_bytes - reserved
        # Many small fetches would cost more than they bring forward.
        if free < min(partition_max_bytes, max_bytes):
            return
        max_bytes = min(max_bytes, free)
        # Brokers fill a response in the order of the request: who has least comes first.
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
        self, asked: _Asked, answer: Response | KafkaError, now: float, effects: list[Effect]
    ) -> None:
        node = self._node(asked.node)
        node.request_id = -1
        current = self._current(asked)
        for reader in current.values():
            reader.is_fetching = False
        if isinstance(answer, KafkaError):
            node.session.lost()
            node.is_connected = node.is_connected and not answer.is_retriable
            self._refused(current.values(), answer, now, effects)
            return
        assert isinstance(answer, FetchResponse)
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
        """The partitions of a request that are still ours and were not sought elsewhere."""
        return {
            reader.partition: reader
            for reader, term in asked.terms.items()
            if self.readers.get(reader.partition) is reader and reader.term == term
        }

    def _refused(
        self,
        readers: Iterable[PartitionReader],
        error: KafkaError,
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
        outcome: PartitionData,
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


def _fetch_error(code: int, subject: str) -> KafkaError:
    """As Java has it: a broker may stumble over a fetch, but a damaged log stays damaged."""
    error = broker_error(code, subject)
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
