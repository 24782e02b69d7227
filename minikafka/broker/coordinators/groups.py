"""The shell around the group coordinator.

There is one `GroupShard` for each partition of ``__consumer_offsets`` that this broker leads, run
by `runtime`. Clients see an offset only once it can no longer be lost, so committed offsets never
go back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from ...coordinator.group import (
    Ask,
    CreateInternalTopics,
    DeleteShareState,
    GroupConfig,
    InitializeShareState,
    Match,
    Now,
)
from ...coordinator.group.topics import GroupSettings, Topic
from ...coordinator.share.commands import Delete, Initialize
from ...coordinator.share.records import SharePartitionKey
from ...metadata.image import TopicImage
from ...metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from ...metadata.setting_table import BrokerConfig
from ...protocol.errors import ErrorCode
from ...protocol.records import BatchHeader, Record
from ...security.acl import Operation, ResourceType
from ...security.principal import Principal
from ..control.lifecycle import Lifecycle
from ..control.metadata_store import MetadataStore
from ..control.request_context import RequestContext
from ..replicas.manager import ReplicaManager
from ..replicas.partition import Partition, PartitionError
from ..security.authorization import Authorization
from ..settings.effective import EffectiveSettings
from ..system.clock import Clock
from ..system.pace import Pace, paced
from ..system.randomness import RandomIds
from .internal_topics import offsets_topic
from .runtime import PendingReply, ShardKind, ShardRuntime
from .share_state import ShareStateService
from .streams_topics import StreamsTopics

if TYPE_CHECKING:
    from ...coordinator.group import GroupRequest, GroupResponse, GroupShard
    from ...coordinator.group.pending_offsets import EndedOffsets

logger = logging.getLogger(__name__)

_SUBSCRIBERS_MAX = 10_000
"""Regular expressions of which it is remembered who subscribed by them; with an authorizer."""
_INITIALIZE_SECONDS = 3.0
"""How long a heartbeat waits for share state; clients are more patient."""


class _Subscriber(NamedTuple):
    """Who subscribed by a regular expression, as an authorizer knows it."""

    principal: Principal
    client_host: str


class GroupService:
    """All group shards of this broker.

    Attributes:
        authorization: says which topics a subscription by a regular expression may find; None if
            all of them.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        settings: EffectiveSettings,
        metadata: MetadataStore,
        replicas: ReplicaManager,
        lifecycle: Lifecycle,
        clock: Clock,
        ids: RandomIds,
        make_durable: Callable[[Partition, int], Awaitable[None]],
        share_state: ShareStateService,
        streams_topics: StreamsTopics,
    ) -> None:
        self.authorization: Authorization | None = None
        self._subscribers: dict[tuple[str, str], _Subscriber] = {}
        self._lifecycle = lifecycle
        self._ids = ids
        self._share_state = share_state
        self.streams_topics = streams_topics
        self._asking: RequestContext | None = None
        self._initializing: dict[str, trio.Event] = {}
        self._config = GroupConfig(
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_max_size=config.group_max_size,
            offset_metadata_size_bytes_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            share_group_max_size=config.group_share_max_size,
            consumer_max_size=config.group_consumer_max_size,
            streams_max_size=config.group_streams_max_size,
            consumer_assignors=config.group_consumer_assignors or ("uniform",),
            allows_upgrade=config.group_consumer_migration_policy in ("bidirectional", "upgrade"),
            allows_downgrade=config.group_consumer_migration_policy
            in ("bidirectional", "downgrade"),
            matches_topics=not config.authorizer_class_name,
        )
        self._metadata = metadata
        self._clock = clock
        self._settings = settings
        self.runtime: ShardRuntime[GroupShard] = ShardRuntime(
            offsets_topic(config),
            ShardKind(
                new=self._new_shard,
                loaded=_loaded,
                replay=_replay,
                replay_marker=_replay_marker,
                carry_out=self._carry_out,
            ),
            metadata=metadata,
            replicas=replicas,
            lifecycle=lifecycle,
            clock=clock,
            make_durable=make_durable,
        )
        replicas.topic_removed.append(self._topic_deleted)

    def _new_shard(self) -> GroupShard:
        from ...coordinator.group import GroupShard

        return GroupShard(
            self._config,
            new_id=self._ids.uuid,
            topics=ImageTopics(self._metadata),
            settings_of=self.group_settings,
        )

    def group_settings(self, group_id: str) -> GroupSettings:
        """The settings of a group: its own (config resource GROUP), or those of this broker."""
        value = self._settings.group_integer
        return GroupSettings(
            consumer_session_timeout_ms=value(group_id, "consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=value(group_id, "consumer.heartbeat.interval.ms"),
            share_session_timeout_ms=value(group_id, "share.session.timeout.ms"),
            share_heartbeat_interval_ms=value(group_id, "share.heartbeat.interval.ms"),
            streams_session_timeout_ms=value(group_id, "streams.session.timeout.ms"),
            streams_heartbeat_interval_ms=value(group_id, "streams.heartbeat.interval.ms"),
            streams_num_standby_replicas=value(group_id, "streams.num.standby.replicas"),
            streams_initial_rebalance_delay_ms=value(
                group_id, "streams.initial.rebalance.delay.ms"
            ),
            streams_assignment_interval_ms=value(group_id, "streams.assignment.interval.ms"),
            streams_tags=self._settings.group_list(group_id, "streams.rack.aware.assignment.tags"),
        )

    def shard(self, group_id: str) -> GroupShard:
        """The loaded shard of a group.

        Raises:
            PartitionError: it is still loading, or this broker does not coordinate the group.
        """
        _, shard = self.runtime.shard_of(group_id)
        if shard.error is not ErrorCode.NONE:
            raise PartitionError(shard.error)
        return shard

    def surely_current_shard(self, group_id: str) -> GroupShard:
        """The shard of a group, if no other broker can have become its coordinator.

        A consumer that asks for stable offsets resumes from them, and must not repeat what an
        earlier transaction has already written. A broker that was cut off from the others may not
        know that it has been replaced as coordinator, and so does not know the latest commits.

        Raises:
            PartitionError: as for `shard`; also COORDINATOR_LOAD_IN_PROGRESS when this broker is
                not certain but may be soon, and NOT_COORDINATOR when it has not been for long. All
                clients retry after the first; after the second librdkafka never fetches the offsets
                of its assignment again.
        """
        shard = self.shard(group_id)
        if not self.runtime.is_surely_current(self.runtime.partition_of(group_id)):
            is_long = self._lifecycle.is_without_lease_for_long
            code = ErrorCode.NOT_COORDINATOR if is_long else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise PartitionError(code)
        return shard

    async def ask(
        self,
        group_id: str,
        request: GroupRequest,
        context: RequestContext,
        matched_topics: frozenset[str] | None = None,
    ) -> GroupResponse:
        """Pass a request to the shard of a group, and wait for the reply without a time limit.

        A shard that is still loading answers by itself (and accepts heartbeats, as in Kafka). If
        this broker does not coordinate the group, the response says so.
        """
        try:
            number, shard = self.runtime.shard_of(group_id)
        except PartitionError as error:
            from ...coordinator.group.responses import refused

            return refused(request, context.api_version, error.error_code)
        pending = PendingReply()
        ask = Ask(
            request,
            context.api_version,
            context.client_id or "",
            context.client_host,
            pending,
            matched_topics,
        )
        self._asking = context
        try:
            self.runtime.carry_out(number, [*shard.handle(ask, self.runtime.now())])
        finally:
            self._asking = None
        response: GroupResponse = await pending.wait()
        return response

    # --- topics --------------------------------------------------------------------------------

    def _topic_deleted(self, topic: str) -> None:
        for number, shard in list(self.runtime.shards.items()):
            if shard.error is ErrorCode.NONE:
                effects = shard.on_topics_deleted([topic], self.runtime.now())
                self.runtime.carry_out(number, [*effects])
        self._topics_changed({topic})

    def follow(self, records: Sequence[MetadataRecord]) -> None:
        """The image has replayed these: groups may read topics that are new or have grown."""
        image, names = self._metadata.image, set[str]()
        for record in records:
            match record:
                case TopicRecord(name=name):
                    names.add(name)
                case PartitionRecord(topic_id=topic_id, partition_epoch=0):
                    topic = image.topics_by_id.get(topic_id)
                    if topic is not None:
                        names.add(topic.name)
                case _:
                    pass
        if names:
            self._topics_changed(names)

    def image_replaced(self) -> None:
        """Any topic may be new or have grown."""
        self._topics_changed(set(self._metadata.image.topics))

    def _topics_changed(self, names: set[str]) -> None:
        for number, shard in list(self.runtime.shards.items()):
            if shard.error is ErrorCode.NONE:
                effects = shard.on_topics_changed(names, self.runtime.now())
                self.runtime.carry_out(number, [*effects])

    async def match_for(self, context: RequestContext, group_id: str, regex: str) -> frozenset[str]:
        """The topics of a client's subscription, and of later looks for its group.

        Raises:
            InvalidRegexError: it is not valid.
        """
        subscriber = _Subscriber(context.principal, context.client_host)
        topics = await self.match_topics(regex, subscriber)
        if self.authorization is not None:
            self._subscribers.pop((group_id, regex), None)
            if len(self._subscribers) >= _SUBSCRIBERS_MAX:
                del self._subscribers[next(iter(self._subscribers))]
            self._subscribers[group_id, regex] = subscriber
        return topics

    async def match_topics(
        self, regex: str, subscriber: _Subscriber | None = None
    ) -> frozenset[str]:
        """The names of all topics that a regular expression matches and the client may describe.

        Raises:
            InvalidRegexError: it is not valid.
        """
        from ...coordinator.group.consumer.regex import compile_regex

        matches = compile_regex(regex)
        names = Pace(self._clock.monotonic).each(list(self._metadata.image.topics))
        found = frozenset([name async for name in names if matches(name)])
        authorization = self.authorization
        if authorization is None or subscriber is None:
            return found
        sees = partial(authorization.allows, subscriber, Operation.DESCRIBE, ResourceType.TOPIC)
        return frozenset([one async for one in paced(found, self._clock.monotonic) if sees(one)])

    def _carry_out(self, number: int, effect: Any) -> None:
        match effect:
            case Match():
                self.runtime.nursery.start_soon(self._match, number, effect)
            case InitializeShareState(group_id):
                settled = self._initializing.setdefault(group_id, trio.Event())
                self.runtime.nursery.start_soon(self._initialize, effect, settled)
            case CreateInternalTopics():
                self._create_internal_topics(effect)
            case DeleteShareState():
                self.runtime.nursery.start_soon(self._delete, effect)
            case _:
                raise TypeError(f"unexpected effect of the group shard of {number}: {effect!r}")

    def _create_internal_topics(self, effect: CreateInternalTopics) -> None:
        """As in Kafka, none are created for a client that may not create all of them."""
        client, authorization = self._asking, self.authorization
        if (
            authorization is not None
            and client is not None
            and not authorization.allows_for_cluster(client, Operation.CREATE)
        ):
            refused = [
                topic.name
                for topic in effect.topics
                if not authorization.allows(
                    client, Operation.CREATE, ResourceType.TOPIC, topic.name
                )
            ]
            if refused:
                self.streams_topics.refuse(effect, refused)
                return
        self.streams_topics.begin(effect, self.runtime.nursery)

    async def _match(self, number: int, effect: Match) -> None:
        """Answer a shard that needs the topics of a regular expression.

        With an authorizer the topics are those of the client that subscribed last. If that was at
        another coordinator, the group keeps what it has until a client subscribes here.
        """
        shard = self.runtime.shards.get(number)
        subscriber = self._subscribers.get((effect.group_id, effect.regex))
        if self.authorization is not None and subscriber is None:
            return
        topics = await self.match_topics(effect.regex, subscriber)
        if shard is not None and self.runtime.shards.get(number) is shard:
            effects = shard.matched(effect.group_id, effect.regex, topics, self.runtime.now())
            self.runtime.carry_out(number, [*effects])

    # --- share groups --------------------------------------------------------------------------

    async def _initialize(self, effect: InitializeShareState, settled: trio.Event) -> None:
        """Have the state of partitions initialised, and report those for which it worked."""
        done: dict[bytes, set[int]] = {}

        async def initialize(topic_id: bytes, index: int) -> None:
            key = SharePartitionKey(effect.group_id, topic_id, index)
            reply = await self._share_state.ask(Initialize(key, 0, -1))
            if reply.error_code is ErrorCode.NONE:
                done.setdefault(topic_id, set()).add(index)
            else:
                logger.warning("cannot initialise the share state %s: %s", key, reply.error_code)

        try:
            async with trio.open_nursery() as nursery:
                for topic_id, indexes in effect.topics.items():
                    for index in sorted(indexes):
                        nursery.start_soon(initialize, topic_id, index)
            self.report_share_state(effect.group_id, done)
        finally:
            settled.set()
            if self._initializing.get(effect.group_id) is settled:
                del self._initializing[effect.group_id]

    async def _delete(self, effect: DeleteShareState) -> None:
        for topic_id, indexes in effect.topics.items():
            for index in sorted(indexes):
                key = SharePartitionKey(effect.group_id, topic_id, index)
                await self._share_state.ask(Delete(key))

    def report_share_state(self, group_id: str, topics: Mapping[bytes, AbstractSet[int]]) -> None:
        """The state of these partitions (indexes by topic id) exists now."""
        with suppress(PartitionError):
            number, shard = self.runtime.shard_of(group_id)
            known = {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}
            effects = shard.share_state_initialized(group_id, known, self.runtime.now())
            self.runtime.carry_out(number, [*effects])

    def report_share_state_deleted(self, group_id: str, topic_ids: Collection[bytes]) -> None:
        """The state of these topics has been deleted."""
        with suppress(PartitionError):
            number, shard = self.runtime.shard_of(group_id)
            effects = shard.share_state_deleted(group_id, topic_ids, self.runtime.now())
            self.runtime.carry_out(number, [*effects])

    async def wait_initialized(self, group_id: str) -> bool:
        """Wait some time for share state that is being initialised; False if none is."""
        settled = self._initializing.get(group_id)
        if settled is None:
            return False
        with trio.move_on_after(_INITIALIZE_SECONDS):
            await settled.wait()
        return True

    # --- transactions --------------------------------------------------------------------------

    def marker_appended(self, number: int, producer_id: int) -> EndedOffsets | None:
        """A transaction's marker was appended to a partition of ``__consumer_offsets``.

        Returns:
            What to pass to `marker_committed`; None if there is no shard, or it is still loading
            and will read the marker itself.
        """
        shard = self.runtime.shards.get(number)
        if shard is None or self.runtime.is_replaying(number):
            return None
        return shard.marker_appended(producer_id)

    def marker_committed(self, number: int, ended: EndedOffsets, *, commits: bool) -> None:
        shard = self.runtime.shards.get(number)
        if shard is not None:
            shard.marker_committed(ended, commits=commits)


def _loaded(shard: GroupShard, leader_epoch: int, now: Now) -> list[Any]:
    del leader_epoch
    return [*shard.loaded(now)]


def _replay(shard: GroupShard, header: BatchHeader, record: Record) -> None:
    assert record.key is not None
    producer_id = header.producer_id if header.is_transactional else -1
    shard.replay(record.key, record.value, producer_id)


def _replay_marker(shard: GroupShard, producer_id: int, commits: bool) -> None:
    shard.replay_marker(producer_id, commits=commits)


class ImageTopics:
    """The topics of the metadata image, as shards see them."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    def by_name(self, name: str) -> Topic | None:
        return _topic(self._metadata.image.topics.get(name))

    def by_id(self, topic_id: bytes) -> Topic | None:
        return _topic(self._metadata.image.topics_by_id.get(topic_id))


def _topic(image: TopicImage | None) -> Topic | None:
    return None if image is None else Topic(image.name, image.topic_id, len(image.partitions))
