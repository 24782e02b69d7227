"""The consumer for trio programs."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Final, Generic, Self, Unpack, cast

import trio

from minikafka_client.consumer_options import (
    ASSIGNMENT_STRATEGY,
    ConsumerArguments,
    ConsumerConfig,
    ConsumerOptions,
    RebalanceCallback,
)
from minikafka_client.core.assignors.registry import choose_assignors
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import FINAL_TOPIC_ERRORS, Cluster, parse_bootstrap
from minikafka_client.core.consumer_group_member import ConsumerGroupMember, HeartbeatConfig
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.fetcher import RESET_SPECS, Fetcher, FetcherConfig
from minikafka_client.core.group_member import GroupConfig, GroupMember
from minikafka_client.core.membership import Member, Subscribed
from minikafka_client.core.membership import MetadataChanged as GroupMetadataChanged
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.core.serialization import Deserializers
from minikafka_client.errors import AuthenticationError, KafkaError, broker_error
from minikafka_client.options import ConnectionConfig, split_options
from minikafka_client.plans.group_offsets import MemberEpoch, list_group_offsets
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.topics import describe_topics
from minikafka_client.properties import consumer_options
from minikafka_client.signatures import ExcDetails, with_options
from minikafka_client.statistics import ConsumerStatistics
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.commits import CommitCallback, Commits
from minikafka_client.trio_api.fetch_loop import FetchLoop
from minikafka_client.trio_api.group_loop import GroupLoop
from minikafka_client.trio_api.metadata_keeper import MetadataKeeper
from minikafka_client.trio_api.network import Network
from minikafka_client.trio_api.poller import (
    BatchIterator,
    Poller,
    RebalanceCallbacks,
    RecordIterator,
)
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    AutoOffsetReset,
    ConsumerRecord,
    GroupMetadata,
    IsolationLevel,
    Key,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    SubscriptionPattern,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer


from minikafka_client.statistics import (
    ConnectionStatistics,
    GroupStatistics,
    PartitionStatistics,
)

_CLOSE_PATIENCE_S: Final = 1.0
"""Limit for leaving the group, and for the last commit after an exception."""


class Consumer(Generic[Key, Value]):
    """Reads records: ``async with Consumer("localhost:9092", group_id="g") as consumer``.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: awaited in the task
            that asks for records; "revoked" may still commit, "lost" is too late for that.
        key_deserializer, value_deserializer: convert the bytes of keys and values; see
            `minikafka_client.serializers`. None: they stay bytes.
        options: see `minikafka_client.consumer_options.ConsumerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        TypeError: there is no such option.
        ValueError: an option is refused.
    """

    @with_options(ConsumerConfig, ConnectionConfig)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        connection, config = split_options(options, ConsumerConfig, type(self).__name__)
        self._isolation_level = IsolationLevel.of(config.isolation_level)
        self._auto_commit_interval_s = config.auto_commit_interval_ms / 1000
        self._poller = Poller(
            RebalanceCallbacks(on_partitions_revoked, on_partitions_assigned, on_partitions_lost),
            auto_commits=config.enable_auto_commit and config.group_id is not None,
            deserializers=Deserializers(key_deserializer, value_deserializer),
        )
        self._may_create_topics = config.allow_auto_create_topics
        self._background = Background("Consumer")
        self._cluster = Cluster(parse_bootstrap(bootstrap_servers))
        self._network = Network(self._cluster, connection, self._background, random.random)
        self._keeper = MetadataKeeper(
            self._network,
            random.random,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            on_change=self._on_metadata,
        )
        retry = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random)
        self._fetches = self._new_fetch_loop(config, connection, retry)
        self._wanted: frozenset[str] | re.Pattern[str] | SubscriptionPattern | None = None
        self._group: GroupLoop | None = None
        self._commits: Commits | None = None
        if config.group_id is not None:
            self._group = self._new_group_loop(config, config.group_id, retry)
            self._commits = Commits(
                config.group_id,
                self._network,
                self._background,
                self._group,
                is_subscribed=lambda: self._wanted is not None,
                on_refused=self._commit_refused,
            )
        self._poller.attach(self._fetches, self._group, self._commits)

    def _new_fetch_loop(
        self, config: ConsumerConfig, connection: ConnectionConfig, retry: Backoff
    ) -> FetchLoop:
        reset = AutoOffsetReset(config.auto_offset_reset)
        fetcher_config = FetcherConfig(
            fetch_min_bytes=config.fetch_min_bytes,
            fetch_max_wait_ms=config.fetch_max_wait_ms,
            fetch_max_bytes=config.fetch_max_bytes,
            max_partition_fetch_bytes=config.max_partition_fetch_bytes,
            prefetch_size_bytes_max=config.prefetch_size_bytes_max,
            isolation_level=self._isolation_level,
            auto_offset_reset=reset,
            check_crcs=config.check_crcs,
            client_rack=config.client_rack,
            metadata_max_age_ms=connection.metadata_max_age_ms,
        )
        return FetchLoop(
            Fetcher(fetcher_config, self._cluster, retry),
            self._network,
            self._keeper,
            self._background,
            group_id=config.group_id,
            member_epoch=self._member_epoch,
            reset_spec=RESET_SPECS.get(reset),
            isolation_level=self._isolation_level,
            retry=retry,
            on_arrival=self._poller.wake,
        )

    def _new_group_loop(self, config: ConsumerConfig, group_id: str, retry: Backoff) -> GroupLoop:
        return GroupLoop(
            self._new_member(config, group_id, retry),
            group_id,
            self._network,
            self._keeper,
            self._background,
            has_progressed=self._poller.has_progressed,
            on_action=self._poller.interrupt,
        )

    def _new_member(self, config: ConsumerConfig, group_id: str, retry: Backoff) -> Member:
        if config.group_protocol == "consumer":
            heartbeats = HeartbeatConfig(
                group_id,
                config.max_poll_interval_ms,
                config.group_instance_id,
                config.client_rack or None,
                config.group_remote_assignor,
            )
            return ConsumerGroupMember(heartbeats, str(uuid.uuid4()), self._cluster, retry)
        strategy = config.partition_assignment_strategy
        classic = GroupConfig(
            group_id,
            config.group_instance_id,
            choose_assignors(ASSIGNMENT_STRATEGY if strategy is None else strategy),
            *config.classic_timing(),
            config.max_poll_interval_ms,
        )
        return GroupMember(classic, self._cluster, retry)

    @classmethod
    @with_options(arguments=ConsumerArguments)
    def from_config(
        cls, config: Mapping[str, object], **arguments: Unpack[ConsumerArguments[Key, Value]]
    ) -> Self:
        """Make a consumer of a dictionary for confluent-kafka, or of a Java client's properties.

        ``{"bootstrap.servers": "localhost:9092", "group.id": "g"}``: the names are Kafka's,
        or librdkafka's where they mean the same; `minikafka_client.properties` has them all.
        The other arguments are those of the class.

        Raises:
            TypeError: Kafka has no such property.
            ValueError: a property cannot be set here, or its value is malformed.
        """
        bootstrap_servers, options = consumer_options(config, cls.__name__)
        return cls(bootstrap_servers, **arguments, **options)

    async def __aenter__(self) -> Self:
        await self._background.open()
        self._background.start_soon(self._keeper.run)
        self._background.start_soon(self._fetches.run)
        self._background.start_soon(self._fetches.find_positions)
        if self._group is not None:
            self._background.start_soon(self._group.run)
        if self._poller.auto_commits:
            self._background.start_soon(self._commit_by_the_clock)
        return self

    async def __aexit__(self, *details: *ExcDetails) -> bool | None:
        exc = details[1]
        # Cancelled or not, the group should not have to wait for the session to time out. A
        # cancellation may also come in an exception group, from a nursery inside the block.
        has_failed = exc is not None
        patience_s = _CLOSE_PATIENCE_S if has_failed else inf
        try:
            with trio.move_on_after(patience_s, shield=has_failed):
                await self._poller.give_back(is_orderly=not has_failed)
            with trio.move_on_after(_CLOSE_PATIENCE_S, shield=has_failed):
                await self._leave_group("the consumer was closed")
        finally:
            self._network.close()
            is_handled = await self._background.close(*details)
        return is_handled

    # --- what to read ---

    async def subscribe(
        self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern
    ) -> None:
        """Join the group for these topics, or for all whose whole name a pattern matches.

        A `SubscriptionPattern` is evaluated by the broker, which needs the ``"consumer"`` protocol;
        a pattern of Python by this consumer, whenever its metadata is refreshed. Returns
        immediately; polling (in any form) joins the group.

        Raises:
            ValueError: the consumer has no group_id, or has partitions from `assign`, or the
                classic protocol and a `SubscriptionPattern`.
        """
        await trio.lowlevel.checkpoint()
        group = self._require_group("subscribe")
        if self._wanted is None and self._poller.readers:
            raise ValueError("partitions were assigned with assign(); unsubscribe first")
        if isinstance(topics, str):
            raise TypeError(f"subscribe takes topics, not one string: [{topics!r}]")
        if isinstance(topics, SubscriptionPattern) and not group.member.uses_member_epochs:
            raise ValueError(
                f"{topics!r} needs group_protocol='consumer'; with the classic protocol subscribe "
                f"to re.compile({topics.pattern!r})"
            )
        names = None if isinstance(topics, re.Pattern | SubscriptionPattern) else frozenset(topics)
        self._wanted = cast("re.Pattern[str] | SubscriptionPattern", topics)
        self._wanted = self._wanted if names is None else names
        self._keeper.wants_all_topics = isinstance(topics, re.Pattern)
        self._keeper.topics = set(names or ())
        self._keeper.allow_auto_topic_creation = names is not None and self._may_create_topics
        group.error = None
        self._keeper.want()
        if isinstance(self._wanted, SubscriptionPattern):
            group.feed(Subscribed((), self._wanted.pattern))
        elif isinstance(self._wanted, frozenset):
            group.feed(Subscribed(tuple(sorted(self._wanted))))

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment.

        They start at the group's committed offset, if there is a group, else as
        ``auto_offset_reset`` says.

        Raises:
            ValueError: the consumer is subscribed.
        """
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        if self._wanted is not None:
            raise ValueError("the consumer is subscribed to topics; unsubscribe first")
        wanted = [TopicPartition(*partition) for partition in partitions]
        self._poller.drop(self._poller.readers.keys() - set(wanted))
        self._poller.add(wanted)
        self._keeper.topics = {partition.topic for partition in wanted}
        self._keeper.want()
        self._fetches.changed()

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the assigned partitions."""
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        await self._poller.give_back(is_orderly=True)
        await self._leave_group("the consumer unsubscribed")
        self._wanted = None
        self._poller.drop(list(self._poller.readers))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._poller.readers)

    # --- reading ---

    def __aiter__(self) -> RecordIterator[Key, Value]:
        """Iterate over records without end: ``async for record in consumer``.

        It may be left with ``break`` and resumed; the next record follows. It is a
        checkpoint now and then, not for each record.

        Raises (while iterating):
            KafkaError: a partition has failed, or the group cannot be joined; iterating again
                continues once the cause is removed (`seek`, if the position does not exist).
            DeserializationError: the next record's key or value cannot be deserialized; seek past
                it to continue.
        """
        return RecordIterator(self._poller)

    def batches(self) -> AsyncIterator[ConsumedBatch[Key, Value]]:
        """Iterate over batches of one partition's records: ``async for batch in c.batches()``.

        Keys and values are deserialized on access, which may raise `DeserializationError`; by then
        the position is behind the batch.

        Raises (while iterating):
            KafkaError: as when iterating over records.
        """
        return cast("AsyncIterator[ConsumedBatch[Key, Value]]", BatchIterator(self._poller))

    async def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord[Key, Value]]:
        """Return up to ``max_records``; waits up to ``timeout_ms`` for the first (None: forever).

        Returns an empty list after the timeout.

        Raises:
            KafkaError: as when iterating over records.
        """
        deadline = inf if timeout_ms is None else trio.current_time() + timeout_ms / 1000
        await self._poller.begin()
        records: list[ConsumerRecord] = []
        while len(records) < max_records:
            try:
                iteration = await self._poller.next_iteration(-inf if records else deadline)
            except KafkaError:
                if records:
                    break  # the next poll raises it
                raise
            if iteration is None:
                break
            records += self._poller.consumption.take(iteration, max_records - len(records))
        return cast("list[ConsumerRecord[Key, Value]]", records)

    def statistics(self) -> ConsumerStatistics:
        """Rates, positions and lag; see `minikafka_client.statistics`.

        Raises:
            ClosedError: it is not open.
        """
        self._background.check_open()
        member = self._group.member if self._group is not None else None
        return _statistics(self._poller, member, self._network.statistics())

    # --- positions ---

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Continue reading at ``offset``.

        ``leader_epoch`` is that of the record before it, as returned by `positions`: with it, a
        truncation of the log below ``offset`` is detected (KIP-320).

        Raises:
            ValueError: the partition is not assigned, or the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is negative; seek_to_end goes to the end")
        self._reader(partition).seek(offset, leader_epoch)
        self._moved()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue at the log start offset (of all assigned partitions, if none is named)."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue at the end (of all assigned partitions, if none is named)."""
        await self._seek_to(partitions, LATEST)

    async def _seek_to(self, partitions: Iterable[TopicPartition], spec: int) -> None:
        await trio.lowlevel.checkpoint()
        for partition in list(partitions) or list(self._poller.readers):
            self._reader(partition).reset(spec)
        self._moved()

    def _moved(self) -> None:
        self._poller.interrupt()
        self._fetches.changed()

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be returned; waits until it is known.

        Raises:
            KafkaError: the partition has failed.
            ValueError: the partition is not assigned.
        """
        await trio.lowlevel.checkpoint()
        while True:
            reader = self._reader(partition)
            if reader.phase is Phase.READY:
                return self._poller.consumption.position(reader)
            if reader.error is not None:
                raise reader.error
            await self._fetches.next_change()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing from these partitions until `resume`."""
        for partition in partitions:
            self._reader(partition).is_paused = True
        self._moved()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in partitions:
            reader = self._reader(partition)
            reader.is_paused = False
            self._fetches.fetcher.resumed(reader)
        self._moved()

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end at the last fetch; None before the first."""
        reader = self._reader(partition)
        self._poller.consumption.position(reader)
        return reader.lag

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata | int]:
        """What `commit` commits: the position of every partition that has one."""
        return dict(self._poller.consumption.positions(self._poller.readers.values()))

    def _reader(self, partition: TopicPartition) -> PartitionReader:
        reader = self._poller.readers.get(partition)
        if reader is None:
            raise ValueError(
                f"partition {partition[1]} of topic {partition[0]!r} is not assigned to this "
                f"consumer"
            )
        return reader

    # --- offsets of partitions ---

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The log start offsets.

        Raises:
            KafkaError: the only partition has none, or no broker answered.
            SomeFailedError: some of several partitions have none.
        """
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last record that this isolation level sees.

        Raises:
            KafkaError: the only partition has none, or no broker answered.
            SomeFailedError: some of several partitions have none.
        """
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time; None where there is none.

        Raises:
            KafkaError: the only partition does not exist, or no broker answered.
            SomeFailedError: some of several partitions do not exist.
        """
        found = await self._list_offsets(timestamps_ms)
        return {p: each if each.offset >= 0 else None for p, each in found.items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partition indexes of a topic.

        Raises:
            KafkaError: there is no such topic, or no broker answered.
        """
        described = await self._network.run_plan(lambda cluster: describe_topics(cluster, [topic]))
        return [partition.partition for partition in described[topic].partitions]

    async def _offsets(
        self, partitions: Iterable[TopicPartition], spec: int
    ) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, spec))
        return {partition: each.offset for partition, each in found.items()}

    async def _list_offsets(
        self, specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self._network.run_plan(
            lambda cluster: list_offsets(cluster, specs, isolation_level=self._isolation_level)
        )

    # --- commits ---

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit offsets (None: those of everything returned so far) and wait for the answer.

        Raises:
            CommitFailedError: the group moved on without this member.
            KafkaError: the coordinator could not be reached, or refused.
            ValueError: the consumer has no group_id.
        """
        await self._require_commits().commit(self._committable(offsets))

    def commit_nowait(
        self, offsets: Offsets | None = None, *, callback: CommitCallback | None = None
    ) -> None:
        """Start a commit; ``callback`` is called with the result. Commits keep their order."""
        self._require_commits().commit_nowait(self._committable(offsets), callback)

    def group_metadata(self) -> GroupMetadata:
        """The membership that commits the group's offsets, for `Transaction.send_offsets`.

        Raises:
            CommitFailedError: the consumer is subscribed, but not a member of the group now.
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
        # Wait for offsets of transactions that are not decided yet (KIP-447).
        is_committed = self._isolation_level is IsolationLevel.READ_COMMITTED
        found = await self._network.run_plan(
            lambda cluster: list_group_offsets(
                cluster, group_id, asked, require_stable=is_committed
            )
        )
        return {partition: found.get(partition) for partition in asked}

    # --- events ---

    async def _commit_by_the_clock(self) -> None:
        commits = self._require_commits()
        while True:
            await trio.sleep(self._auto_commit_interval_s)
            offsets = self._poller.consumption.all_processed(self._poller.readers.values())
            if offsets and (self._wanted is None or self._group_generation() >= 0):
                await commits.commit_quietly(offsets)

    def _member_epoch(self) -> MemberEpoch | None:
        """As whom to ask for committed offsets; None as anybody."""
        if self._group is None or self._wanted is None:
            return None
        member = self._group.member
        if not member.uses_member_epochs or member.generation_id < 0:
            return None
        return MemberEpoch(member.member_id, member.generation_id)

    def _group_generation(self) -> int:
        return self._group.member.generation_id if self._group is not None else -1

    def _commit_refused(self, code: int) -> None:
        group = self._require_group("commit")
        group.run_effects(group.member.commit_refused(code, trio.current_time()))

    async def _leave_group(self, reason: str) -> None:
        if self._group is not None and self._wanted is not None:
            await self._group.leave(reason)

    def _on_metadata(self) -> None:
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
        self._poller.topic_error = self._topic_error()
        self._fetches.changed()
        self._poller.wake()

    def _topic_error(self) -> KafkaError | None:
        """Why no record will ever arrive: authentication, or a topic that is wanted by name."""
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


def _statistics(
    poller: Poller, member: Member | None, connections: ConnectionStatistics
) -> ConsumerStatistics:
    now = trio.current_time()
    fetches = poller.fetches
    fetcher = fetches.fetcher
    partitions = {
        partition: PartitionStatistics(
            position=poller.consumption.position(reader),
            end_offset=reader.end_offset,
            lag=reader.lag,
            prefetched_bytes=reader.buffered_bytes,
            is_paused=reader.is_paused,
            preferred_replica=reader.preferred_replica,
        )
        for partition, reader in sorted(poller.readers.items())
    }
    lags = [each.lag for each in partitions.values()]
    known_lags = [lag for lag in lags if lag is not None]
    return ConsumerStatistics(
        consumed=poller.consumed.rates(now),
        consumed_records=poller.consumed.records,
        consumed_bytes=poller.consumed.size_bytes,
        fetched_bytes=fetcher.fetched_bytes,
        prefetched_bytes=fetcher.buffered_bytes,
        prefetch_size_bytes_max=fetcher.prefetch_size_bytes_max,
        lag=sum(known_lags) if len(known_lags) == len(lags) else None,
        partitions=partitions,
        fetches=fetches.meter.requests,
        errors=dict(fetcher.errors),
        latency=fetches.meter.latencies(now),
        brokers=fetches.meter.brokers(now),
        group=None if member is None else _group_statistics(poller, member, now),
        connections=connections,
    )


def _group_statistics(poller: Poller, member: Member, now: float) -> GroupStatistics:
    return GroupStatistics(
        state=member.state_name,
        member_id=member.member_id,
        generation_id=member.generation_id,
        coordinator=-1 if member.coordinator is None else member.coordinator,
        rebalances=member.rebalance_count,
        last_poll_age_s=None if poller.polled_at == -inf else now - poller.polled_at,
    )
