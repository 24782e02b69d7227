"""Commit after processing: nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Unpack

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import KafkaError
from minikafka_client.patterns.record_buffer import BufferedPattern
from minikafka_client.patterns.subscribed import PatternOptions, Topics, with_pattern_options
from minikafka_client.trio_api.commits import CommitCallback
from minikafka_client.types import (
    ConsumerRecord,
    Key,
    OffsetAndMetadata,
    Offsets,
    TopicPartition,
    Value,
)

logger = logging.getLogger(__name__)


class AtLeastOnce(BufferedPattern[Key, Value]):
    """Commits what is processed before it takes more: ``async for record in AtLeastOnce(...)``.

    **A crash loses nothing and repeats** what was handed out since the last commit: up to
    ``max_records`` records (with ``batches()``, one batch), and in background mode also what was
    handed out during a commit. So processing must be idempotent, like an upsert by topic, partition
    and offset: see `minikafka_client.patterns.sqlite.RecordTable`.

    Without a crash nothing is repeated: there is a commit before partitions go to another member,
    and another on leaving the block. If an exception leaves the block, the record in process is not
    committed; those before it are.

    By default each commit blocks. With ``in_background`` the next records are processed meanwhile.
    Commits never overtake each other: one is in flight at a time, and what becomes ready in the
    meantime goes into the next. A failure is reported to ``on_commit``, and the next commit makes
    up for it; the last one, on leaving or before a rebalance, blocks.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        topics: as for `Consumer.subscribe`.
        max_records: commit after at most this many records; after fewer when no more have arrived.
        in_background: do not wait for commits.
        on_commit: called after each background commit with its offsets, and the error or None.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: as for `Consumer`.
        key_deserializer, value_deserializer: as for `Consumer`.
        options: the consumer's; ``group_id`` is required. A partition without a committed offset
            is read from the beginning by default; ``auto_offset_reset="latest"`` may skip records
            of partitions that are added later.

    Raises:
        ValueError: an option is refused.
    """

    @with_pattern_options()
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        in_background: bool = False,
        on_commit: CommitCallback | None = None,
        **options: Unpack[PatternOptions[Key, Value]],
    ) -> None:
        if on_commit is not None and not in_background:
            raise ValueError("on_commit is for background commits; set in_background=True")
        super().__init__(
            bootstrap_servers,
            topics,
            **options,
        )
        self._take_at_most(max_records)
        self._in_background = in_background
        self._on_commit = on_commit
        self._taken: dict[TopicPartition, OffsetAndMetadata | int] = {}
        self._committed: Offsets = {}  # or in flight
        self._is_in_flight = False
        self._next: Offsets | None = None

    # --- reading ---

    async def _next_portion(self) -> Sequence[ConsumerRecord[Key, Value]]:
        await self._commit_processed()
        records = await self.consumer.poll(self._max_records)
        self._taken = self.consumer.positions()
        return records

    async def _next_batch(self) -> ConsumedBatch[Key, Value]:
        self.buffer.all_processed()
        await self._commit_processed()
        run = await anext(self.consumer.batches())
        self._taken = self.consumer.positions()
        self.buffer.hand_out_run(run)
        return run

    def _give_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self.consumer.seek(partition, offset)
            self._taken[partition] = offset

    # --- commits ---

    async def _commit_processed(self) -> None:
        offsets = dict(self._taken)
        if offsets == self._committed:
            return
        if self._in_background:
            self._committed = offsets
            self._commit_in_background(offsets)
        elif await self._commit(offsets):
            self._committed = offsets

    def _commit_in_background(self, offsets: Offsets) -> None:
        if self._is_in_flight:
            self._next = offsets
            return
        self._is_in_flight = True
        self.consumer.commit_nowait(offsets, callback=self._background_commit_ended)

    def _background_commit_ended(self, offsets: Offsets, error: KafkaError | None) -> None:
        self._is_in_flight = False
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
        for partition in partitions:
            self._taken.pop(partition, None)
        if self._next is not None:
            self._next = {p: offset for p, offset in self._next.items() if p not in partitions}
            self._next = self._next or None
        self._committed = {}

    async def _leave(self) -> None:
        if not self._has_failed:
            self.buffer.all_processed()
        await self._commit_finally()

    async def _commit_finally(self) -> None:
        """Commit what is processed, after what is in flight, and wait for the answer."""
        self._next = None
        offsets = {**self._taken, **self.buffer.unprocessed_offsets()}
        if offsets != self._committed or self._is_in_flight:
            await self._commit(offsets)
