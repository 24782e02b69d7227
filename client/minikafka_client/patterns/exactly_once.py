"""Offsets stored with the results: nothing is lost and nothing is repeated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, TypeVarTuple, Unpack

from minikafka_client.consumer_options import AutoOffsetResetName, ConsumerOptions
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.errors import NoOffsetError
from minikafka_client.patterns.subscribed import Subscribed, Topics
from minikafka_client.trio_face.reading import RebalanceCallback
from minikafka_client.types import Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")

logger = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Keeps results and offsets in one place, so that one transaction changes both.

    The methods block; they are called in the task that asks for batches. There is at most one open
    transaction. See `minikafka_client.patterns.sqlite.SqliteOffsets` for one.
    """

    def stored_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """The next offset of each of these partitions; those that have none are left out."""
        ...

    def begin(
        self, group_id: str, partition: TopicPartition, expected: int | None, next_offset: int
    ) -> bool:
        """Open a transaction that moves a partition's offset from ``expected`` to ``next_offset``.

        False, and no transaction, if the stored offset is another one (None: there is none). No
        other process may be able to move it before the transaction ends.
        """
        ...

    def commit(self) -> None:
        """End the transaction: results and offset are there, or neither."""
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
    commits the results of the one before together with the offset from which to go on, and the
    store is where a new process looks for it. What is done elsewhere (a mail that is sent) is not
    covered. Leaving the block commits; leaving it with an exception rolls back.

    The group only shares out the partitions; nothing is committed to Kafka. A member that was
    given up by its group and does not know it cannot do harm: the offset that it wants to move has
    been moved by its successor, so its batch is not handed out.

    Args:
        store: results and offsets.
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is needed. ``auto_offset_reset`` (``"earliest"``) is
            for partitions without a stored offset only: when a stored one does not exist any more,
            records were lost to retention or the topic is another one, and that is an error.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(
        self,
        store: OffsetStore,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._begin_at: AutoOffsetResetName = options.get("auto_offset_reset", "earliest")
        options["auto_offset_reset"] = "none"
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
        self._group_id = options.get("group_id") or ""
        self._store = store
        self._stored: dict[TopicPartition, int | None] = {}
        self._open_batch: FetchedRecords[Key, Value] | None = None

    def __aiter__(self) -> Self:
        """Iterate over runs of one partition's records without end.

        Raises (while iterating):
            NoOffsetError: a stored offset does not exist in the partition (any more).
            KafkaError: as for `Consumer`.
            Exception: what the store raises.
        """
        return self

    async def __anext__(self) -> FetchedRecords[Key, Value]:
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
                "going on where it has stopped",
                partition.partition,
                partition.topic,
                expected,
            )
            await self._place([partition])

    def roll_back(self) -> None:
        """Undo what was written for the present batch; it is handed out again."""
        self._store.roll_back()
        self.go_back()

    def go_back(self) -> None:
        """Hand out the present batch again, of which the store knows nothing any more."""
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
            self.go_back()
            raise
        self._open_batch = None
        self._stored[batch.topic_partition] = batch.next_offset

    async def _in_store(self, method: Callable[[Unpack[_Args]], _Result], *args: *_Args) -> _Result:
        """Call the store, where it wants to be called."""
        return method(*args)

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._place(partitions)
        await super()._assigned(partitions)

    async def _place(self, partitions: Sequence[TopicPartition]) -> None:
        """Go on where the store says."""
        stored = await self._in_store(self._store.stored_offsets, self._group_id, partitions)
        for partition in partitions:
            self._stored[partition] = stored.get(partition)
        for partition, offset in stored.items():
            self.consumer.seek(partition, offset)
        unknown = [partition for partition in partitions if partition not in stored]
        if not unknown:
            return
        if self._begin_at == "none":
            raise NoOffsetError(
                f"the store has no offset of group {self._group_id!r} for {unknown}; store some, "
                f"or set auto_offset_reset"
            )
        if self._begin_at == "earliest":
            await self.consumer.seek_to_beginning(unknown)
        else:
            await self.consumer.seek_to_end(unknown)

    async def _leave(self) -> None:
        if not self._has_failed:
            await self._commit_open_batch()
        elif self._open_batch is not None:
            self._open_batch = None
            await self._in_store(self._store.roll_back)
