"""How far one partition has been fetched, consumed and processed.

phase       means                                             leaves it by
UNKNOWN     assigned; where to start is not known yet          committed offset, seek, reset
RESETTING   to start at EARLIEST, LATEST or a timestamp        the offset is looked up -> READY
READY       ``position`` is valid, records are fetched         offset lost -> RESETTING, FAILED
FAILED      no offset to continue from; polling raises         seek -> READY or RESETTING

Each fetch names the leader epoch of the record before it (KIP-320, KIP-595). A leader whose log
diverges from what was read answers with the point of divergence instead of records.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import KafkaError
from minikafka_client.types import TopicPartition


class Phase(Enum):
    UNKNOWN = 0
    RESETTING = 1
    READY = 2
    FAILED = 3


class PartitionReader:
    """One assigned partition.

    Attributes:
        position: offset of the next record to consume; ``leader_epoch`` is that of the one before.
        fetch_offset: offset of the next record to ask a broker for (>= position);
            ``fetched_epoch`` is that of the one before.
        processed: all records before it are processed, so auto-commit may commit it;
            ``processed_epoch`` is that of the last one.
        topic_id: of the topic that was fetched from; empty before.
        preferred_replica: read until ``preferred_until`` instead of the leader (KIP-392), or -1.
        asked_epoch: the leader epoch known at the last fetch; a newer leader than the one that
            refused is asked immediately.
        term: counts seeks; an answer to a request of an earlier term is dropped.
        end_offset: high watermark (last stable offset with read_committed), -1 before a fetch.
    """

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
        self.fetched: deque[ConsumedBatch] = deque()
        self.end_offset = -1
        self.log_start_offset = -1
        self.error: KafkaError | None = None
        self.attempts = 0
        self.retry_at = 0.0

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        """Continue at an offset; what was fetched is dropped.

        ``leader_epoch`` is that of the record before it: if the log has another one there (or
        none), it was truncated. -1 is not checked.
        """
        self._restart()
        self.phase = Phase.READY
        self.position = self.fetch_offset = self.processed = offset
        self.leader_epoch = self.fetched_epoch = self.processed_epoch = leader_epoch

    def reset(self, spec: int) -> None:
        self._restart()
        self.phase = Phase.RESETTING
        self.reset_to = spec

    def fail(self, error: KafkaError) -> None:
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

    def take(self, records: ConsumedBatch) -> None:
        records.epoch_before = self.fetched_epoch
        self.fetch_offset = records.next_offset
        self.fetched_epoch = records.leader_epoch
        self.fetched.append(records)

    def skip(self, records: ConsumedBatch) -> None:
        self.position = self.processed = records.next_offset
        self.leader_epoch = self.processed_epoch = records.leader_epoch

    def unfetch(self) -> None:
        if self.fetched:
            first = self.fetched[0]
            self.fetch_offset, self.fetched_epoch = first.first_offset, first.epoch_before
            self.fetched.clear()

    @property
    def is_unplaced(self) -> bool:
        return self.phase in (Phase.UNKNOWN, Phase.RESETTING)

    @property
    def is_drained(self) -> bool:
        return self.position == self.fetch_offset

    @property
    def buffered_bytes(self) -> int:
        return sum(records.size_bytes for records in self.fetched)

    @property
    def lag(self) -> int | None:
        if self.end_offset < 0 or self.position < 0:
            return None
        return max(0, self.end_offset - self.position)
