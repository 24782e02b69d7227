"""How far one partition has been fetched, handed out and processed.

phase       means                                             leaves it by
UNKNOWN     assigned; nobody has said where to start           committed offset, seek, reset
RESETTING   to start at EARLIEST, LATEST or a timestamp       the offset is looked up -> READY
READY       ``position`` is valid, records are fetched        gone -> RESETTING, FAILED
FAILED      no offset to go on from; the application is told   seek -> READY or RESETTING

Each fetch says of which leader epoch the record before it was (KIP-320, KIP-595). A leader whose
log parted from what was read before answers where, instead of records.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.errors import KafkaError
from minikafka_client.types import TopicPartition


class Phase(Enum):
    """What a partition waits for; see the table above."""

    UNKNOWN = 0
    RESETTING = 1
    READY = 2
    FAILED = 3


class PartitionReader:
    """One assigned partition.

    Attributes:
        position: offset of the next record to hand out.
        leader_epoch: of the record before it, -1 when unknown.
        fetch_offset: offset of the next record to ask a broker for (>= position).
        fetched_epoch: of the record before that.
        processed: all records before it are processed; what auto-commit may commit.
        processed_epoch: of the record before that.
        topic_id: of the topic that was fetched from; empty before.
        preferred_replica: to be read from until ``preferred_until`` in place of the leader
            (KIP-392), -1 for the leader.
        asked_epoch: the leader epoch known at the last fetch; a newer leader than the one that
            refused is asked at once.
        reset_to: the offset specification in phase RESETTING.
        term: counts seeks; an answer to a request of an earlier term is dropped.
        fetched: what was fetched and not yet handed out, in order.
        end_offset: high watermark (last stable offset with read_committed), -1 before a fetch.
    """

    __slots__ = (
        "asked_epoch",
        "attempts",
        "end_offset",
        "error",
        "fetch_offset",
        "fetched",
        "fetched_epoch",
        "is_fetching",
        "is_paused",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "phase",
        "position",
        "preferred_replica",
        "preferred_until",
        "processed",
        "processed_epoch",
        "reset_to",
        "retry_at",
        "term",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.phase = Phase.UNKNOWN
        self.position = -1
        self.fetch_offset = -1
        self.processed = -1
        self.reset_to = 0
        self.term = 0
        self.leader_epoch = self.fetched_epoch = self.processed_epoch = -1
        self.topic_id = b""
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.asked_epoch = -1
        self.is_paused = False
        self.is_fetching = False
        self.fetched: deque[FetchedRecords] = deque()
        self.end_offset = -1
        self.log_start_offset = -1
        self.error: KafkaError | None = None
        self.attempts = 0
        self.retry_at = 0.0

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        """Go on at an offset; what was fetched is dropped.

        ``leader_epoch`` is that of the record before it: if the log has another one there (or
        none), it was truncated. -1 is not checked.
        """
        self._restart()
        self.phase = Phase.READY
        self.position = self.fetch_offset = self.processed = offset
        self.leader_epoch = self.fetched_epoch = self.processed_epoch = leader_epoch

    def reset(self, spec: int) -> None:
        """Go on at what an offset specification turns out to mean."""
        self._restart()
        self.phase = Phase.RESETTING
        self.reset_to = spec

    def fail(self, error: KafkaError) -> None:
        """Stop here until the application seeks."""
        self._restart()
        self.phase = Phase.FAILED
        self.error = error

    def _restart(self) -> None:
        self.term += 1
        self.fetched.clear()
        self.is_fetching = False
        self.error = None
        self.attempts = 0
        self.retry_at = 0.0
        self.topic_id = b""

    def take(self, records: FetchedRecords) -> None:
        """Keep what was fetched at `fetch_offset`."""
        records.epoch_before = self.fetched_epoch
        self.fetch_offset = records.next_offset
        self.fetched_epoch = records.leader_epoch
        self.fetched.append(records)

    def skip(self, records: FetchedRecords) -> None:
        """Go on behind what was fetched and has nothing for the application."""
        self.position = self.processed = records.next_offset
        self.leader_epoch = self.processed_epoch = records.leader_epoch

    def unfetch(self) -> None:
        """Drop what was fetched and not yet handed out, to fetch it again."""
        if self.fetched:
            first = self.fetched[0]
            self.fetch_offset, self.fetched_epoch = first.first_offset, first.epoch_before
            self.fetched.clear()

    @property
    def is_unplaced(self) -> bool:
        """Whether its position has to be looked up."""
        return self.phase in (Phase.UNKNOWN, Phase.RESETTING)

    @property
    def is_drained(self) -> bool:
        """Whether the application was given everything that was fetched."""
        return self.position == self.fetch_offset

    @property
    def buffered_bytes(self) -> int:
        """What its fetched records occupy."""
        return sum(records.size_bytes for records in self.fetched)

    @property
    def lag(self) -> int | None:
        """Records between position and the end last heard of."""
        if self.end_offset < 0 or self.position < 0:
            return None
        return max(0, self.end_offset - self.position)
