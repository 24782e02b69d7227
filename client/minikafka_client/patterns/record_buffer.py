"""Records that are taken from the consumer in portions and handed out one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Generic, Self

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.patterns.subscribed import Subscribed
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value


class RecordBuffer(Generic[Key, Value]):
    """Records taken from the consumer, and which of them the application is working on."""

    def __init__(self) -> None:
        self.records: deque[ConsumerRecord[Key, Value]] = deque()
        self._in_process: tuple[TopicPartition, int] | None = None

    def next_record(self) -> ConsumerRecord[Key, Value] | None:
        """Return the next record, or None; the one before it counts as processed."""
        if not self.records:
            self._in_process = None
            return None
        record = self.records.popleft()
        self._in_process = TopicPartition(record.topic, record.partition), record.offset
        return record

    def hand_out_run(self, run: ConsumedBatch[Key, Value]) -> None:
        self._in_process = run.topic_partition, run.first_offset

    def all_processed(self) -> None:
        self._in_process = None

    def waiting_offsets(self) -> dict[TopicPartition, int]:
        """Return the first offset per partition that was not handed out."""
        first: dict[TopicPartition, int] = {}
        for record in self.records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def unprocessed_offsets(self) -> dict[TopicPartition, int]:
        """Return the first offset per partition that was not handed out or is in process."""
        first = self.waiting_offsets()
        if self._in_process is not None:
            partition, offset = self._in_process
            first[partition] = offset
        return first


class BufferedPattern(Subscribed[Key, Value]):
    """A pattern that hands out records one by one, and commits once per portion of them."""

    buffer: RecordBuffer[Key, Value]
    _max_records: int

    def _take_at_most(self, max_records: int) -> None:
        if max_records < 1:
            raise ValueError(f"max_records={max_records}; at least 1 is needed")
        self._max_records = max_records
        self.buffer = RecordBuffer()

    def __aiter__(self) -> Self:
        """Iterate over records without end; asking for one means that those before are processed.

        Raises (while iterating):
            KafkaError: as for `Consumer`, or a commit failed; iterating again goes on with the
                same records.
        """
        return self

    async def __anext__(self) -> ConsumerRecord[Key, Value]:
        record = self.buffer.next_record()
        while record is None:
            self.buffer.records.extend(await self._next_portion())
            record = self.buffer.next_record()
        return record

    def batches(self) -> AsyncIterator[ConsumedBatch[Key, Value]]:
        """Iterate over runs of one partition's records; there is a commit for each.

        Raises (while iterating):
            KafkaError: as when iterating over records.
        """
        self._give_back(self.buffer.waiting_offsets())
        self.buffer.records.clear()
        return _Batches(self._next_batch)

    @abstractmethod
    async def _next_portion(self) -> Sequence[ConsumerRecord[Key, Value]]:
        """Take records from the consumer; commit what must be committed before they are seen."""

    @abstractmethod
    async def _next_batch(self) -> ConsumedBatch[Key, Value]:
        """Do the same for `batches`."""

    @abstractmethod
    def _give_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go back to the first records that were not handed out."""


class _Batches(Generic[Key, Value]):
    def __init__(self, next_batch: Callable[[], Awaitable[ConsumedBatch[Key, Value]]]) -> None:
        self._next_batch = next_batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumedBatch[Key, Value]:
        return await self._next_batch()
