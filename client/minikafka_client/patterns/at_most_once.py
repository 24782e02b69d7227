"""Commit before processing: nothing is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Unpack

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.patterns.record_buffer import BufferedPattern
from minikafka_client.patterns.subscribed import PatternOptions, Topics, with_pattern_options
from minikafka_client.types import AutoOffsetResetName, ConsumerRecord, Key, TopicPartition, Value


class AtMostOnce(BufferedPattern[Key, Value]):
    """Commits records before it hands them out: ``async for record in AtMostOnce(...)``.

    **A crash repeats nothing and loses** what was committed and not processed: up to
    ``max_records`` records (with ``batches()``, one batch). ``max_records=1`` risks only the record
    in process, at the price of a round trip to the coordinator per record.

    Without a crash nothing is lost: on leaving the block, what was not handed out is returned to
    the group. If a commit is refused, or its outcome is unknown, its records are not handed out;
    they are read again if the group still has them to read.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        max_records: commit and hand out at most this many at a time.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is required. A partition without a committed offset
            is read from the end by default; with ``auto_offset_reset="earliest"``, everything is
            repeated once the group's offsets expire (``offsets.retention.minutes``).

    Raises:
        ValueError: an option is refused.
    """

    _reset: ClassVar[AutoOffsetResetName] = "latest"

    @with_pattern_options(auto_offset_reset="latest")
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        **options: Unpack[PatternOptions[Key, Value]],
    ) -> None:
        super().__init__(
            bootstrap_servers,
            topics,
            **options,
        )
        self._take_at_most(max_records)

    async def _next_portion(self) -> Sequence[ConsumerRecord[Key, Value]]:
        while True:
            records = await self.consumer.poll(self._max_records)
            first: dict[TopicPartition, int] = {}
            for each in records:
                first.setdefault(TopicPartition(each.topic, each.partition), each.offset)
            if await self._commit_or_give_back(first):
                return records

    async def _next_batch(self) -> ConsumedBatch[Key, Value]:
        while True:
            run = await anext(self.consumer.batches())
            if await self._commit_or_give_back({run.topic_partition: run.first_offset}):
                return run

    async def _commit_or_give_back(self, first: Mapping[TopicPartition, int]) -> bool:
        """Commit everything taken; if that may have failed, give it back and return False."""
        is_committed = False
        try:
            is_committed = await self._commit(self.consumer.positions())
        finally:
            if not is_committed:
                self._give_back(first)
        return is_committed

    def _give_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if partition in self.consumer.assignment:
                self.consumer.seek(partition, offset)

    async def _leave(self) -> None:
        # Committed but never handed out, so never processed.
        if self.buffer.records:
            await self._commit(self.buffer.waiting_offsets())
