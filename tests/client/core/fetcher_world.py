"""A fetcher and brokers with logs; a test decides what happens to the requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import fetch
from minikafka.protocol.records import encode_batch
from minikafka_client.core import fetcher
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.partition_reader import PartitionReader
from minikafka_client.errors import ConnectionLostError, KafkaError
from minikafka_client.types import AutoOffsetReset, ConsumerRecord, IsolationLevel, TopicPartition
from tests.client.core.sender_world import NODES, TOPIC, metadata


def config(**changes: object) -> fetcher.FetcherConfig:
    settings: dict[str, object] = {
        "fetch_min_bytes": 1,
        "fetch_max_wait_ms": 500,
        "fetch_max_bytes": 1_000,
        "max_partition_fetch_bytes": 400,
        "prefetch_size_bytes_max": 1_000,
        "isolation_level": IsolationLevel.READ_UNCOMMITTED,
        "auto_offset_reset": AutoOffsetReset.EARLIEST,
        "check_crcs": True,
    }
    return fetcher.FetcherConfig(**(settings | changes))  # type: ignore[arg-type]  # a test may change any


class Log:
    """One partition: batches of three records; a record's value is its offset.

    Attributes:
        epochs: (leader epoch, its first offset), as a leader keeps them (KIP-101).
    """

    def __init__(self, record_count: int = 0) -> None:
        self.start_offset = 0
        self.batches: list[tuple[int, bytes]] = []
        self.end_offset = 0
        self.epochs: list[tuple[int, int]] = []
        while self.end_offset < record_count:
            self.append()

    def append(self, leader_epoch: int = 0) -> None:
        first = self.end_offset
        if not self.epochs or self.epochs[-1][0] != leader_epoch:
            self.epochs.append((leader_epoch, first))
        records = [(None, b"%d" % (first + each), (), 1) for each in range(3)]
        batch = encode_batch(records, base_offset=first, partition_leader_epoch=leader_epoch)
        self.batches.append((first, bytes(batch)))
        self.end_offset += 3

    def truncate(self, offset: int) -> None:
        """A leader was elected that had nothing from this offset on."""
        self.batches = [each for each in self.batches if each[0] < offset]
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.end_offset = offset

    def parting(self, leader_epoch: int, offset: int) -> fetch.EpochEndOffset | None:
        """Where this log parts from one whose record before ``offset`` is of this epoch."""
        if leader_epoch < 0:
            return None
        older = [each for each in self.epochs if each[0] <= leader_epoch]
        newer = [each for each in self.epochs if each[0] > leader_epoch]
        epoch = older[-1][0] if older else -1
        end = newer[0][1] if newer else self.end_offset
        if epoch == leader_epoch and end >= offset:
            return None
        return fetch.EpochEndOffset(epoch=epoch, end_offset=end)

    def read(self, offset: int, size_bytes_max: int, *, at_least_one: bool) -> bytes | None:
        """Whole batches from the one with this offset on; None when it is out of range."""
        if not self.start_offset <= offset <= self.end_offset:
            return None
        found = b""
        for first, batch in self.batches:
            if first + 3 <= offset:
                continue
            if len(found) + len(batch) > size_bytes_max and (found or not at_least_one):
                break
            found += batch
        return found


@dataclass
class InFlight:
    """A fetch; ``partitions`` is what it amounts to together with its session."""

    request_id: int
    request: fetch.Request
    partitions: list[tuple[bytes, fetch.Partition]]


class Sessions:
    """A broker's fetch sessions, strict about what a client may ask (KIP-227)."""

    def __init__(self) -> None:
        self.grants = True
        self.partitions: dict[int, tuple[bytes, fetch.Partition]] = {}
        self._id = 0
        self._epoch = 0
        self._last_id = 100

    def forget(self) -> None:
        """The broker was restarted, or needed the room."""
        self._id = 0

    def effective(self, request: fetch.Request) -> list[tuple[bytes, fetch.Partition]] | ErrorCode:
        """Everything that a request wants, or its error."""
        named = [(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
        if request.session_epoch <= 0:
            assert not request.forgotten_topics_data
            assert named, "a full request for nothing"
            self._id = 0
            self.partitions = {}
        elif request.session_id != self._id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif request.session_epoch != self._epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        for topic_id, each in named:
            assert self.partitions.pop(each.partition, None) != (topic_id, each), "nothing new"
            self.partitions[each.partition] = topic_id, each
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                del self.partitions[index]
        first = [self.partitions[each.partition] for _, each in named]
        return first + [each for each in self.partitions.values() if each not in first]

    def granted(self, request: fetch.Request) -> int:
        """The session id of the answer."""
        if not self.grants:
            self._id = 0
        elif request.session_epoch == 0:
            self._last_id += 1
            self._id, self._epoch = self._last_id, 1
        else:
            self._epoch += 1
        return self._id


@dataclass
class World:
    """Carries out the fetcher's effects."""

    partition_count: int = 3
    settings: fetcher.FetcherConfig = field(default_factory=config)
    record_count: int = 60

    def __post_init__(self) -> None:
        self.now = 50.0
        self.leaders = [NODES[index % len(NODES)] for index in range(self.partition_count)]
        self.epochs = [0] * self.partition_count
        self.cluster = Cluster([("h", 9001)])
        self.cluster.update(metadata(self.leaders, self.epochs), self.now)
        backoff = Backoff(100, 1_000, lambda: 0.5)
        self.fetcher = fetcher.Fetcher(self.settings, self.cluster, backoff)
        self.sessions = {node: Sessions() for node in NODES}
        self.topic_id = ZERO_UUID
        self.followers: set[int] = set()
        self.nearest = -1
        self.logs = [Log(self.record_count) for _ in range(self.partition_count)]
        self.in_flight: dict[int, deque[InFlight]] = {node: deque() for node in NODES}
        self.wants_connection: list[int] = []
        self.wants_metadata = False
        self.max_bytes = 0

    def assign(self, partition: int, offset: int | None = 0) -> PartitionReader:
        reader = PartitionReader(TopicPartition(TOPIC, partition))
        if offset is not None:
            reader.seek(offset)
        self.fetcher.readers[reader.partition] = reader
        self.feed(fetcher.Changed())
        return reader

    def reader(self, partition: int) -> PartitionReader:
        return self.fetcher.readers[TopicPartition(TOPIC, partition)]

    def feed(
        self,
        *events: fetcher.Changed | fetcher.Fetched | fetcher.NodeConnected | fetcher.NodeFailed,
    ) -> None:
        for event in events:
            self.run(self.fetcher.handle(event, self.now))

    def run(self, effects: list[fetcher.Effect]) -> None:
        for effect in effects:
            match effect:
                case fetcher.SendFetch(node, request_id, request):
                    assert not self.in_flight[node], "two fetches to one broker"
                    found = self.sessions[node].effective(request)
                    if isinstance(found, ErrorCode):
                        self.feed(
                            fetcher.Fetched(
                                request_id, fetch.Response(responses=[], error_code=found)
                            )
                        )
                    else:
                        self.in_flight[node].append(InFlight(request_id, request, found))
                case fetcher.Connect(node):
                    self.wants_connection.append(node)
                case fetcher.RefreshMetadata():
                    self.wants_metadata = True

    def expire(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.run(self.fetcher.expire(self.now))

    def recover(self) -> None:
        """Whatever the fetcher has asked for, it gets."""
        while self.wants_connection:
            self.feed(fetcher.NodeConnected(self.wants_connection.pop()))
        if self.wants_metadata:
            self.wants_metadata = False
            self.update_metadata()

    def update_metadata(self) -> None:
        fresh = metadata(self.leaders, self.epochs)
        fresh.topics[0].topic_id = self.topic_id
        self.cluster.update(fresh, self.now)
        self.feed(fetcher.Changed())

    def move_leader(self, partition: int, node: int) -> None:
        self.leaders[partition] = node
        self.epochs[partition] += 1

    def fail(self, node: int, error: KafkaError | None = None) -> None:
        """The connection breaks, or never comes about."""
        if self.in_flight[node]:
            waiting = self.in_flight[node].popleft()
            self.feed(fetcher.Fetched(waiting.request_id, error or ConnectionLostError("lost")))
        elif node in self.wants_connection:
            self.wants_connection.remove(node)
            self.feed(fetcher.NodeFailed(node))

    def answer(
        self,
        node: int,
        codes: Sequence[ErrorCode] = (),
        *,
        new_leader: fetch.LeaderIdAndEpoch | None = None,
        error_code: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        """The broker answers; ``codes`` are for the partitions of the request in their order."""
        if not self.in_flight[node]:
            return
        waiting = self.in_flight[node].popleft()
        request = waiting.request
        is_full = request.session_epoch == 0
        remaining = self.max_bytes = request.max_bytes
        turn = iter(codes)
        outcomes: list[fetch.PartitionData] = []
        for _, asked in waiting.partitions:
            outcome = self._outcome(node, asked, next(turn, ErrorCode.NONE), remaining)
            if new_leader is not None:
                outcome.current_leader = new_leader
            remaining -= len(outcome.records or b"")
            has_news = outcome.error_code or outcome.records or new_leader or self.nearest >= 0
            if is_full or has_news or outcome.diverging_epoch.end_offset >= 0:
                outcomes.append(outcome)
        answered = [fetch.TopicResponse(topic=TOPIC, topic_id=self.topic_id, partitions=outcomes)]
        response = fetch.Response(
            responses=answered if outcomes else [],
            error_code=error_code,
            session_id=self.sessions[node].granted(request),
            throttle_time_ms=throttle_time_ms,
        )
        if new_leader is not None:
            response.node_endpoints = [fetch.NodeEndpoint(node_id=2, host="new", port=1)]
        self.feed(fetcher.Fetched(waiting.request_id, response))

    def _outcome(
        self, node: int, asked: fetch.Partition, code: ErrorCode, size_bytes_max: int
    ) -> fetch.PartitionData:
        log = self.logs[asked.partition]
        payload: bytes | None = None
        is_leader = self.leaders[asked.partition] == node
        if code is ErrorCode.NONE and not is_leader and node not in self.followers:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        parting = log.parting(asked.last_fetched_epoch, asked.fetch_offset)
        if code is ErrorCode.NONE and parting is None:
            limit = min(asked.partition_max_bytes, size_bytes_max)
            is_first = size_bytes_max == self.max_bytes
            payload = log.read(asked.fetch_offset, limit, at_least_one=is_first)
            if payload is None:
                code = ErrorCode.OFFSET_OUT_OF_RANGE
        return fetch.PartitionData(
            partition_index=asked.partition,
            error_code=code,
            high_watermark=log.end_offset,
            last_stable_offset=log.end_offset - 3,
            log_start_offset=log.start_offset,
            diverging_epoch=parting or fetch.EpochEndOffset(),
            preferred_read_replica=self.nearest if is_leader else -1,
            aborted_transactions=None,
            records=None if payload is None else memoryview(payload),
        )

    def take(self) -> list[ConsumerRecord]:
        """The application takes the next run, if there is one."""
        reader = self.fetcher.next_arrived()
        if reader is None:
            return []
        run = reader.fetched.popleft()
        assert run.first_offset == reader.position
        reader.position = run.next_offset
        self.fetcher.resumed(reader)
        self.feed(fetcher.Changed())
        return list(run.records)
