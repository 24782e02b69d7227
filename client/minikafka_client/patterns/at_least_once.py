"""Commit after processing: nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Generic, Self, Unpack

from minikafka_client.consumer_options import ConsumerOptions
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.errors import KafkaError
from minikafka_client.patterns.handed_out import HandedOut
from minikafka_client.patterns.subscribed import Subscribed, Topics
from minikafka_client.trio_face.commits import CommitCallback, Offsets
from minikafka_client.trio_face.reading import RebalanceCallback
from minikafka_client.types import ConsumerRecord, Key, OffsetAndMetadata, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

logger = logging.getLogger(__name__)


class AtLeastOnce(Subscribed[Key, Value]):
    """Commits what is processed before it takes more: ``async for record in AtLeastOnce(...)``.

    **A crash loses nothing and repeats** what was handed out since the last commit: up to
    ``max_records`` records (with ``batches()``, one batch), and in the background mode what was
    handed out while a commit was on its way, too. So processing must bear repetition; an upsert by
    (topic, partition, offset) does (`minikafka_client.patterns.sqlite.RecordTable`).

    Without a crash nothing is repeated: there is a commit before partitions go to another member,
    and one on leaving the block. If the block is left with an exception, the record that was in
    process is not committed, and those before it are.

    By default each commit is waited for. With ``in_background`` the next records are processed
    meanwhile. Commits never overtake each other: one is on its way at a time, and what becomes
    ready to commit meanwhile goes into the next one. A failure is told to ``on_commit`` and made
    good by the next commit; the last one, on leaving or before a rebalance, is waited for.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        max_records: commit after at most so many records; fewer when no more are there.
        in_background: do not wait for commits.
        on_commit: hears of each background commit: its offsets, and the error or None.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is needed. A partition without a committed offset is
            read from its beginning unless ``auto_offset_reset`` says otherwise: ``"latest"`` may
            skip records of partitions that are added later.

    Attributes:
        handed_out: the records that were taken from the consumer.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        in_background: bool = False,
        on_commit: CommitCallback | None = None,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if max_records < 1:
            raise ValueError(f"max_records={max_records}; at least 1 is needed")
        if on_commit is not None and not in_background:
            raise ValueError("on_commit hears of background commits; set in_background=True")
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
        self._in_background = in_background
        self._on_commit = on_commit
        self.handed_out: HandedOut[Key, Value] = HandedOut()
        self._taken: dict[TopicPartition, OffsetAndMetadata | int] = {}
        self._committed: Offsets = {}  # or on its way
        self._is_on_its_way = False
        self._next: Offsets | None = None

    # --- reading ---

    def __aiter__(self) -> Self:
        """Iterate over records without end; asking for one says that those before are processed.

        Raises (while iterating):
            KafkaError: as for `Consumer`, or a commit failed for a reason that will not pass.
        """
        return self

    async def __anext__(self) -> ConsumerRecord[Key, Value]:
        record = self.handed_out.next_record()
        while record is None:
            await self._commit_processed()
            records = await self.consumer.poll(self._max_records)
            self._taken = self.consumer.positions()
            self.handed_out.take(records)
            record = self.handed_out.next_record()
        return record

    def batches(self) -> AsyncIterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records; there is a commit after each.

        Raises (while iterating):
            KafkaError: as when iterating over records.
        """
        for partition, offset in self.handed_out.not_handed_out().items():
            self.consumer.seek(partition, offset)
            self._taken[partition] = offset
        self.handed_out.waiting.clear()
        return _Batches(self)

    async def next_batch(self) -> FetchedRecords[Key, Value]:
        """What `batches` does for each."""
        self.handed_out.all_processed()
        await self._commit_processed()
        run = await anext(self.consumer.batches())
        self._taken = self.consumer.positions()
        self.handed_out.take_run(run)
        return run

    # --- commits ---

    async def _commit_processed(self) -> None:
        """Commit everything that was taken: the application asks for more."""
        offsets = dict(self._taken)
        if offsets == self._committed:
            return
        if self._in_background:
            self._committed = offsets
            self._commit_in_background(offsets)
        elif await self._commit(offsets):
            self._committed = offsets

    def _commit_in_background(self, offsets: Offsets) -> None:
        if self._is_on_its_way:
            self._next = offsets
            return
        self._is_on_its_way = True
        self.consumer.commit_nowait(offsets, callback=self._background_commit_ended)

    def _background_commit_ended(self, offsets: Offsets, error: KafkaError | None) -> None:
        self._is_on_its_way = False
        following, self._next = self._next, None
        if error is not None:
            self._committed = {}
            if self._on_commit is None:
                logger.warning("not committed: %s", error)
        if following is not None:
            self._commit_in_background(following)
        if self._on_commit is not None:
            self._on_commit(offsets, error)

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._commit_finally()
        self._forget(partitions)
        await super()._revoked(partitions)

    async def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._forget(partitions)
        await super()._lost(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        """What others do with these partitions from now on is not known here."""
        for partition in partitions:
            self._taken.pop(partition, None)
        if self._next is not None:
            self._next = {p: offset for p, offset in self._next.items() if p not in partitions}
            self._next = self._next or None
        self._committed = {}

    async def _leave(self) -> None:
        if not self._has_failed:
            self.handed_out.all_processed()
        await self._commit_finally()

    async def _commit_finally(self) -> None:
        """Commit what is processed, after what is on its way, and wait for the answer."""
        self._next = None
        offsets = {**self._taken, **self.handed_out.not_processed()}
        if offsets != self._committed or self._is_on_its_way:
            await self._commit(offsets)


class _Batches(Generic[Key, Value]):
    def __init__(self, pattern: AtLeastOnce[Key, Value]) -> None:
        self._pattern = pattern

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FetchedRecords[Key, Value]:
        return await self._pattern.next_batch()
