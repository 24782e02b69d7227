"""The consumer for trio programs."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, Unpack, cast

import trio

from minikafka_client.consumer_options import ConsumerConfig, ConsumerOptions
from minikafka_client.core.assignors.choice import choose_assignors
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import FINAL_TOPIC_ERRORS, Cluster, parse_bootstrap
from minikafka_client.core.fetch_outcomes import RESET_SPECS
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.core.fetcher import Fetcher
from minikafka_client.core.fetcher_messages import FetcherConfig
from minikafka_client.core.group_member import GroupMember
from minikafka_client.core.group_messages import GroupConfig, Subscribed
from minikafka_client.core.group_messages import MetadataChanged as GroupMetadataChanged
from minikafka_client.core.serializing import Deserializers
from minikafka_client.errors import AuthenticationError, KafkaError, broker_error
from minikafka_client.options import split_options
from minikafka_client.plans.group_offsets import list_group_offsets
from minikafka_client.statistics import ConsumerStatistics
from minikafka_client.trio_face.background import Background
from minikafka_client.trio_face.commits import CommitCallback, Commits, Offsets
from minikafka_client.trio_face.consumer_statistics import consumer_statistics
from minikafka_client.trio_face.fetch_loop import FetchLoop
from minikafka_client.trio_face.group_loop import GroupLoop
from minikafka_client.trio_face.iterators import BatchIterator, RecordIterator
from minikafka_client.trio_face.metadata_keeper import MetadataKeeper
from minikafka_client.trio_face.network import Network
from minikafka_client.trio_face.positions import Positions
from minikafka_client.trio_face.reading import Reading, RebalanceCallback, RebalanceCallbacks
from minikafka_client.types import (
    AutoOffsetReset,
    ConsumerRecord,
    GroupMetadata,
    IsolationLevel,
    Key,
    OffsetAndMetadata,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

__all__ = ["ConsumedBatch", "Consumer"]

ConsumedBatch = FetchedRecords
"""Records of one partition, as columns and as records; decoded when first looked at."""

_CLOSE_PATIENCE_S: Final = 1.0
"""How long leaving the group may take, and the last commit after an exception."""


class Consumer(Positions, Generic[Key, Value]):
    """Reads records: ``async with Consumer("localhost:9092", group_id="g") as consumer``.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: awaited in the task
            that asks for records; "revoked" may still commit, "lost" is too late for it.
        key_deserializer, value_deserializer: what makes keys and values of bytes; see
            `minikafka_client.serializers`. None: they are bytes.
        options: see `minikafka_client.consumer_options.ConsumerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        connection, config = split_options(options, ConsumerConfig)
        group_id = config.group_id
        reset = AutoOffsetReset(config.auto_offset_reset)
        isolation_level = IsolationLevel[config.isolation_level.upper()]
        self._reading = Reading(
            RebalanceCallbacks(on_partitions_revoked, on_partitions_assigned, on_partitions_lost),
            auto_commits=config.enable_auto_commit and group_id is not None,
            deserializers=Deserializers(key_deserializer, value_deserializer),
        )
        self._auto_commit_interval_s = config.auto_commit_interval_ms / 1000
        self._background = Background("Consumer")
        self._cluster = Cluster(parse_bootstrap(bootstrap))
        network = Network(self._cluster, connection, self._background, random.random)
        super().__init__(network, isolation_level)
        self._keeper = MetadataKeeper(
            self._network,
            random.random,
            allow_auto_topic_creation=config.allow_auto_topic_creation,
            on_news=self._on_news,
        )
        retry = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random)
        fetcher_config = FetcherConfig(
            fetch_min_bytes=config.fetch_min_bytes,
            fetch_max_wait_ms=config.fetch_max_wait_ms,
            fetch_size_bytes_max=config.fetch_size_bytes_max,
            partition_fetch_size_bytes_max=config.partition_fetch_size_bytes_max,
            prefetch_size_bytes_max=config.prefetch_size_bytes_max,
            isolation_level=isolation_level,
            auto_offset_reset=reset,
            check_crcs=config.check_crcs,
            client_rack=config.client_rack,
            metadata_max_age_ms=connection.metadata_max_age_ms,
        )
        self._fetcher = Fetcher(fetcher_config, self._cluster, retry)
        self._fetches = FetchLoop(
            self._fetcher,
            self._network,
            self._keeper,
            self._background,
            group_id=group_id,
            reset_spec=RESET_SPECS.get(reset),
            isolation_level=isolation_level,
            retry=retry,
            on_arrival=self._reading.wake,
        )
        self._wanted: frozenset[str] | re.Pattern[str] | None = None
        self._group: GroupLoop | None = None
        self._commits: Commits | None = None
        if group_id is not None:
            group_config = GroupConfig(
                group_id,
                config.group_instance_id,
                choose_assignors(config.assignors),
                config.session_timeout_ms,
                config.heartbeat_interval_ms,
                config.max_poll_interval_ms,
            )
            self._group = GroupLoop(
                GroupMember(group_config, self._cluster, retry),
                group_id,
                self._network,
                self._keeper,
                self._background,
                has_progressed=self._reading.has_progressed,
                on_action=self._reading.interrupt,
            )
            self._commits = Commits(
                group_id,
                self._network,
                self._background,
                self._group.member,
                is_subscribed=lambda: self._wanted is not None,
                on_refused=self._commit_refused,
            )
        self._reading.attach(self._fetches, self._group, self._commits)

    async def __aenter__(self) -> Self:
        await self._background.open()
        self._background.start_soon(self._keeper.run)
        self._background.start_soon(self._fetches.run)
        self._background.start_soon(self._fetches.find_positions)
        if self._group is not None:
            self._background.start_soon(self._group.run)
        if self._reading.auto_commits:
            self._background.start_soon(self._commit_by_the_clock)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        # Cancelled or not, the group should not have to wait for the session to time out. A
        # cancellation may also come in an exception group, from a nursery inside the block.
        has_failed = exc is not None
        patience_s = _CLOSE_PATIENCE_S if has_failed else inf
        try:
            with trio.move_on_after(patience_s, shield=has_failed):
                await self._reading.give_back(is_orderly=not has_failed)
            with trio.move_on_after(_CLOSE_PATIENCE_S, shield=has_failed):
                await self._leave_group("the consumer was closed")
        finally:
            self._network.close()
            is_handled = await self._background.close(exc_type, exc, traceback)
        return is_handled

    # --- what to read ---

    async def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Join the group for these topics (or all whose name the pattern matches fully).

        Returns at once; the group is joined while records are asked for.

        Raises:
            ValueError: the consumer has no group_id, or partitions are assigned by hand.
        """
        await trio.lowlevel.checkpoint()
        group = self._require_group("subscribe")
        if self._wanted is None and self._reading.readers:
            raise ValueError("partitions are assigned by hand; unsubscribe first")
        if isinstance(topics, str):
            raise TypeError(f"subscribe takes topics, not one string: [{topics!r}]")
        if isinstance(topics, re.Pattern):
            self._wanted = topics
            self._keeper.wants_all_topics = True
        else:
            self._wanted = frozenset(topics)
            self._keeper.wants_all_topics = False
            self._keeper.topics = set(self._wanted)
        group.error = None
        self._keeper.want()
        if not isinstance(self._wanted, re.Pattern):
            group.feed(Subscribed(tuple(sorted(self._wanted))))

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment.

        They begin at the group's committed offset, if there is a group, else as
        ``auto_offset_reset`` says.

        Raises:
            ValueError: the consumer is subscribed.
        """
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        if self._wanted is not None:
            raise ValueError("the consumer is subscribed to topics; unsubscribe first")
        wanted = [TopicPartition(*partition) for partition in partitions]
        self._reading.drop(self._reading.readers.keys() - set(wanted))
        self._reading.add(wanted)
        self._keeper.topics = {partition.topic for partition in wanted}
        self._keeper.want()
        self._fetches.changed()

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the assigned partitions."""
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        await self._reading.give_back(is_orderly=True)
        await self._leave_group("the consumer unsubscribed")
        self._wanted = None
        self._reading.drop(list(self._reading.readers))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._reading.readers)

    # --- reading ---

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end: ``async for record in consumer``.

        It may be left with ``break`` and begun again; it goes on with the next record. It is a
        checkpoint now and then, not for each record.

        Raises (while iterating):
            KafkaError: a partition has failed, or the group cannot be joined; iterating again
                goes on after the cause is gone (`seek`, for a position that does not exist).
            DeserializationError: the next record's key or value cannot be deserialized; seek past
                it to go on.
        """
        return cast("AsyncIterator[ConsumerRecord[Key, Value]]", RecordIterator(self._reading))

    def batches(self) -> AsyncIterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records: ``async for batch in c.batches()``.

        Keys and values are deserialized when they are looked at, and this is where the batch raises
        `DeserializationError`; the position is behind the batch then.

        Raises (while iterating):
            KafkaError: as when iterating over records.
        """
        return cast("AsyncIterator[FetchedRecords[Key, Value]]", BatchIterator(self._reading))

    async def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord[Key, Value]]:
        """Take up to ``max_records``; waits for the first one until ``timeout_ms`` (None: always).

        Returns an empty list when the time is over.

        Raises:
            KafkaError: as when iterating over records.
        """
        deadline = inf if timeout_ms is None else trio.current_time() + timeout_ms / 1000
        await self._reading.begin()
        records: list[ConsumerRecord] = []
        while len(records) < max_records:
            # Whoever has something already does not wait for more.
            try:
                iteration = await self._reading.next_iteration(-inf if records else deadline)
            except KafkaError:
                if records:
                    break  # it comes again when more is asked for
                raise
            if iteration is None:
                break
            records += self._reading.handout.take(iteration, max_records - len(records))
        return cast("list[ConsumerRecord[Key, Value]]", records)

    def statistics(self) -> ConsumerStatistics:
        """What the consumer has done, and how far it is; see `minikafka_client.statistics`.

        Raises:
            ClosedError: it is not open.
        """
        self._background.check_open()
        member = self._group.member if self._group is not None else None
        return consumer_statistics(self._reading, member, self._network.statistics())

    # --- commits ---

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit offsets (None: everything handed out so far) and wait for the answer.

        Raises:
            CommitFailedError: the group moved on without this member.
            KafkaError: the coordinator could not be reached, or refused.
            ValueError: the consumer has no group_id.
        """
        await self._require_commits().commit(self._committable(offsets))

    def commit_nowait(
        self, offsets: Offsets | None = None, *, callback: CommitCallback | None = None
    ) -> None:
        """Start a commit; ``callback`` hears how it ended. Commits keep their order."""
        self._require_commits().commit_nowait(self._committable(offsets), callback)

    def group_metadata(self) -> GroupMetadata:
        """Who commits the group's offsets now, for `Transaction.send_offsets`.

        Raises:
            CommitFailedError: it is subscribed, and no member of the group now.
            ValueError: the consumer has no group_id.
        """
        return self._require_commits().group_metadata()

    def _committable(self, offsets: Offsets | None) -> Offsets:
        return self.positions() if offsets is None else dict(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None where there is none."""
        asked = list(partitions)
        group_id = self._require_commits().group_id
        # Offsets of a transaction that is not decided yet are waited for (KIP-447).
        is_committed = self._isolation_level is IsolationLevel.READ_COMMITTED
        found = await self._network.run_plan(
            lambda cluster: list_group_offsets(
                cluster, group_id, asked, require_stable=is_committed
            )
        )
        return {partition: found.get(partition) for partition in asked}

    # --- what happens ---

    async def _commit_by_the_clock(self) -> None:
        commits = self._require_commits()
        while True:
            await trio.sleep(self._auto_commit_interval_s)
            offsets = self._reading.handout.all_processed(self._reading.readers.values())
            if offsets and (self._wanted is None or self._group_generation() >= 0):
                await commits.commit_quietly(offsets)

    def _group_generation(self) -> int:
        return self._group.member.generation_id if self._group is not None else -1

    def _commit_refused(self, code: int) -> None:
        group = self._require_group("commit")
        group.run_effects(group.member.commit_refused(code, trio.current_time()))

    async def _leave_group(self, reason: str) -> None:
        if self._group is not None and self._wanted is not None:
            await self._group.leave(reason)

    def _on_news(self) -> None:
        group = self._group
        if group is not None and self._wanted is not None:
            if isinstance(self._wanted, re.Pattern):
                matching = sorted(
                    name
                    for name, topic in self._cluster.topics.items()
                    if self._wanted.fullmatch(name) and not topic.is_internal
                )
                if tuple(matching) != group.member.topics:
                    group.feed(Subscribed(tuple(matching)))
            group.feed(GroupMetadataChanged())
        self._reading.topic_error = self._topic_error()
        self._fetches.changed()
        self._reading.wake()

    def _topic_error(self) -> KafkaError | None:
        """Why nothing will come: who we are, or a topic that is asked for by name."""
        if isinstance(self._keeper.last_error, AuthenticationError):
            return self._keeper.last_error
        for name in sorted(self._keeper.topics):
            known = self._cluster.topics.get(name)
            if known is not None and known.error_code in FINAL_TOPIC_ERRORS:
                return broker_error(known.error_code, f"topic {name!r}")
        return None

    def _require_group(self, what: str) -> GroupLoop:
        self._background.check_open()
        if self._group is None:
            raise ValueError(f"{what} needs a group; give the consumer a group_id")
        return self._group

    def _require_commits(self) -> Commits:
        self._background.check_open()
        if self._commits is None:
            raise ValueError("offsets are committed for a group; give the consumer a group_id")
        return self._commits
