"""Commit before processing: nothing is repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Self, Unpack

from minikafka_client.consumer_options import AutoOffsetResetName, ConsumerOptions
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.patterns.handed_out import HandedOut
from minikafka_client.patterns.subscribed import Subscribed, Topics
from minikafka_client.trio_face.reading import RebalanceCallback
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer


class AtMostOnce(Subscribed[Key, Value]):
    """Commits records before it hands them out: ``async for record in AtMostOnce(...)``.

    **A crash repeats nothing and loses** what was committed and not processed: up to
    ``max_records`` records (with ``batches()``, one batch). ``max_records=1`` risks only the record
    in process, for a round trip to the coordinator each.

    Without a crash nothing is lost: on leaving the block, what was not handed out is given back to
    the group. If a commit is refused, or nobody knows whether it was done, its records are not
    handed out; they are read again if the group still wants it.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        max_records: commit and hand out at most so many at a time.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is needed. A partition without a committed offset is
            read from its end unless ``auto_offset_reset`` says otherwise: if the group's offsets
            expire (``offsets.retention.minutes``), ``"earliest"`` repeats everything.

    Attributes:
        handed_out: the records that were taken from the consumer.

    Raises:
        ValueError: an option is refused.
    """

    reset: ClassVar[AutoOffsetResetName] = "latest"

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if max_records < 1:
            raise ValueError(f"max_records={max_records}; at least 1 is needed")
        super().__init__(
            bootstrap,
            topics,
            options,
            on_partitions_revoked=on_partitions_revoked,
            on_partitions_assigned=on_partitions_assigned,
            on_partitions_lost=on_partitions_lost,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )
        self._max_records = max_records
        self.handed_out: HandedOut[Key, Value] = HandedOut()

    def __aiter__(self) -> Self:
        """Iterate over records without end.

        Raises (while iterating):
            KafkaError: as for `Consumer`, or a commit failed; iterating again goes on with the
                same records.
        """
        return self

    async def __anext__(self) -> ConsumerRecord[Key, Value]:
        record = self.handed_out.next_record()
        while record is None:
            records = await self.consumer.poll(self._max_records)
            first: dict[TopicPartition, int] = {}
            for each in records:
                first.setdefault(TopicPartition(each.topic, each.partition), each.offset)
            if await self._commit_or_go_back(first):
                self.handed_out.take(records)
                record = self.handed_out.next_record()
        return record

    def batches(self) -> AsyncIterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records, each committed before it is handed out.

        Raises (while iterating):
            KafkaError: as when iterating over records.
        """
        self._go_back(self.handed_out.not_handed_out())
        self.handed_out.waiting.clear()
        return _Batches(self)

    async def next_batch(self) -> FetchedRecords[Key, Value]:
        """What `batches` does for each."""
        while True:
            run = await anext(self.consumer.batches())
            if await self._commit_or_go_back({run.topic_partition: run.first_offset}):
                return run

    async def _commit_or_go_back(self, first: Mapping[TopicPartition, int]) -> bool:
        """Commit everything taken; if that is not certain, take it back and say False."""
        is_committed = False
        try:
            is_committed = await self._commit(self.consumer.positions())
        finally:
            if not is_committed:
                self._go_back(first)
        return is_committed

    def _go_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if partition in self.consumer.assignment:
                self.consumer.seek(partition, offset)

    async def _leave(self) -> None:
        # Committed and never handed out: nobody has processed it.
        if self.handed_out.waiting:
            await self._commit(self.handed_out.not_handed_out())


class _Batches(Generic[Key, Value]):
    def __init__(self, pattern: AtMostOnce[Key, Value]) -> None:
        self._pattern = pattern

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FetchedRecords[Key, Value]:
        return await self._pattern.next_batch()
