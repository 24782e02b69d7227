"""Records are taken from the consumer in portions and handed out one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic

from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value


class HandedOut(Generic[Key, Value]):
    """What was taken and waits, and what the application works on.

    Attributes:
        waiting: records that were taken and not handed out yet.
    """

    def __init__(self) -> None:
        self.waiting: deque[ConsumerRecord[Key, Value]] = deque()
        self._in_process: tuple[TopicPartition, int] | None = None

    def next_record(self) -> ConsumerRecord[Key, Value] | None:
        """Hand out the next one, if there is one; the one before is processed."""
        if not self.waiting:
            self._in_process = None
            return None
        record = self.waiting.popleft()
        self._in_process = TopicPartition(record.topic, record.partition), record.offset
        return record

    def take(self, records: Sequence[ConsumerRecord[Key, Value]]) -> None:
        """A new portion."""
        self.waiting.extend(records)

    def take_run(self, run: FetchedRecords[Key, Value]) -> None:
        """A run of records that is handed out as a whole."""
        self._in_process = run.topic_partition, run.first_offset

    def all_processed(self) -> None:
        """The application asks for more: nothing is in process."""
        self._in_process = None

    def not_handed_out(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that waits."""
        first: dict[TopicPartition, int] = {}
        for record in self.waiting:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def not_processed(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that waits or is in process."""
        first = self.not_handed_out()
        if self._in_process is not None:
            partition, offset = self._in_process
            first[partition] = offset
        return first
