"""Offsets are stored with the results: nothing is lost and nothing is repeated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, Self, TypeVar, TypeVarTuple, Unpack

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import NoOffsetError
from minikafka_client.patterns.subscribed import (
    PatternOptions,
    Subscribed,
    Topics,
    with_pattern_options,
)
from minikafka_client.types import AutoOffsetReset, Key, TopicPartition, Value

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")

logger = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Keeps results and offsets in one place, so that one transaction changes both.

    The methods block; they are called in the task that asks for batches. At most one transaction is
    open. `minikafka_client.patterns.sqlite.SqliteOffsets` is an example.
    """

    def stored_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return the next offset of each of these partitions; those without one are left out."""
        ...

    def begin(
        self, group_id: str, partition: TopicPartition, expected: int | None, next_offset: int
    ) -> bool:
        """Open a transaction that moves a partition's offset from ``expected`` to ``next_offset``.

        Return False, and open none, if the stored offset is a different one (None: there is none).
        No other process may be able to move the offset before the transaction ends.
        """
        ...

    def commit(self) -> None:
        """Commit the transaction: both results and offset are stored, or neither."""
        ...

    def roll_back(self) -> None:
        """Undo the transaction, if one is open."""
        ...


class ExactlyOnceInto(Subscribed[Key, Value]):
    """Hands out batches, each in an open transaction of ``store``: write the results into it.

        async with ExactlyOnceInto(store, "localhost:9092", ["orders"], group_id="g") as source:
            async for batch in source:
                for record in batch.records:
                    database.execute("UPDATE ...", ...)

    **A crash loses nothing and repeats nothing** of what is in the store: asking for the next batch
    commits the results of the previous one together with the next offset, and a new process starts
    from the offset in the store. Side effects elsewhere (sending a mail) are not covered. Leaving
    the block commits; an exception rolls back.

    The group only distributes the partitions; nothing is committed to Kafka. A member that was
    removed from its group without noticing does no harm: its successor has already moved the
    offset, so its batch is not handed out.

    Args:
        store: for results and offsets.
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is required. ``auto_offset_reset`` applies only to
            partitions without a stored offset. A stored offset that no longer exists is an error:
            records were lost to retention, or the topic was created again.

    Raises:
        ValueError: an option is refused.
    """

    @with_pattern_options()
    def __init__(
        self,
        store: OffsetStore,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        **options: Unpack[PatternOptions[Key, Value]],
    ) -> None:
        self._begin_at = AutoOffsetReset(options.get("auto_offset_reset", "earliest"))
        options["auto_offset_reset"] = "none"
        super().__init__(
            bootstrap_servers,
            topics,
            **options,
        )
        self._group_id = options.get("group_id") or ""
        self._store = store
        self._stored: dict[TopicPartition, int | None] = {}
        self._open_batch: ConsumedBatch[Key, Value] | None = None

    def __aiter__(self) -> Self:
        """Iterate over runs of one partition's records without end.

        Raises (while iterating):
            NoOffsetError: a stored offset does not, or no longer, exist in the partition.
            KafkaError: as for `Consumer`.
            Exception: whatever the store raises.
        """
        return self

    async def __anext__(self) -> ConsumedBatch[Key, Value]:
        await self._commit_open_batch()
        while True:
            batch = await anext(self.consumer.batches())
            partition = batch.topic_partition
            expected = self._stored[partition]
            move = (self._group_id, partition, expected, batch.next_offset)
            if await self._in_store(self._store.begin, *move):
                self._open_batch = batch
                return batch
            logger.warning(
                "partition %d of topic %r was processed by another member from offset %s on; "
                "continuing where it stopped",
                partition.partition,
                partition.topic,
                expected,
            )
            await self._place([partition])

    def roll_back(self) -> None:
        """Undo what was written for the current batch; it is handed out again."""
        self._store.roll_back()
        self._read_again()

    def _read_again(self) -> None:
        batch, self._open_batch = self._open_batch, None
        if batch is not None and batch.topic_partition in self.consumer.assignment:
            self.consumer.seek(batch.topic_partition, batch.first_offset)

    async def _commit_open_batch(self) -> None:
        batch = self._open_batch
        if batch is None:
            return
        try:
            await self._in_store(self._store.commit)
        except BaseException:
            await self._in_store(self._store.roll_back)
            self._read_again()
            raise
        self._open_batch = None
        self._stored[batch.topic_partition] = batch.next_offset

    async def _in_store(self, method: Callable[[Unpack[_Args]], _Result], *args: *_Args) -> _Result:
        """Call the store; the blocking API does it in the caller's thread."""
        return method(*args)

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._place(partitions)
        await super()._assigned(partitions)

    async def _place(self, partitions: Sequence[TopicPartition]) -> None:
        stored = await self._in_store(self._store.stored_offsets, self._group_id, partitions)
        for partition in partitions:
            self._stored[partition] = stored.get(partition)
        for partition, offset in stored.items():
            self.consumer.seek(partition, offset)
        unknown = [partition for partition in partitions if partition not in stored]
        if not unknown:
            return
        if self._begin_at is AutoOffsetReset.NONE:
            raise NoOffsetError(
                f"the store has no offset of group {self._group_id!r} for {unknown}; store some, "
                f"or set auto_offset_reset"
            )
        if self._begin_at is AutoOffsetReset.EARLIEST:
            await self.consumer.seek_to_beginning(unknown)
        else:
            await self.consumer.seek_to_end(unknown)

    async def _leave(self) -> None:
        if not self._has_failed:
            await self._commit_open_batch()
        elif self._open_batch is not None:
            self._open_batch = None
            await self._in_store(self._store.roll_back)
