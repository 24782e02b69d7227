"""The consumer of share groups (queues) for trio programs."""

from __future__ import annotations

import base64
import logging
import math
import random
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack

import trio

from minikafka_client.core import membership
from minikafka_client.core import share_session as machine
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import FINAL_TOPIC_ERRORS, Cluster, parse_bootstrap
from minikafka_client.core.consumer_group_member import (
    ConsumerGroupMember,
    HeartbeatConfig,
    share_heartbeat,
)
from minikafka_client.core.meters import RateMeter, RequestMeter, error_name
from minikafka_client.core.serialization import Deserializers, deserialized
from minikafka_client.core.share_session import AcknowledgeType, Acquired
from minikafka_client.core.wire import Answer
from minikafka_client.errors import (
    ConnectionLostError,
    DeserializationError,
    KafkaError,
    broker_error,
)
from minikafka_client.options import ConnectionConfig, split_options
from minikafka_client.properties import share_consumer_options
from minikafka_client.share_options import (
    AcknowledgedCallback,
    ShareConsumerArguments,
    ShareConsumerConfig,
    ShareConsumerOptions,
)
from minikafka_client.signatures import ExcDetails, with_options
from minikafka_client.statistics import GroupStatistics, ShareConsumerStatistics
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.group_loop import GroupLoop
from minikafka_client.trio_api.metadata_keeper import MetadataKeeper
from minikafka_client.trio_api.network import Network
from minikafka_client.types import (
    Acknowledgement,
    AcknowledgementName,
    Key,
    ShareAcquireMode,
    ShareRecord,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

logger = logging.getLogger(__name__)

SHARE_LANE: Final = "fetch"
_CLOSE_PATIENCE_S: Final = 2.0
"""Limit for the last acknowledgements, and for leaving the group."""


class ShareConsumer(Generic[Key, Value]):
    """Works on a queue: ``async with ShareConsumer("localhost:9092", "workers") as consumer``.

    The consumers of a share group (KIP-932, Kafka 4.2) share the *records* of its topics, not their
    partitions: there may be more consumers than partitions. Each record is locked for the consumer
    that has it, until that one acknowledges it or the lock ends; then it is delivered again, up to
    a limit.

        async for job in consumer:
            try:
                await work(job.value)
            except Busy:
                consumer.acknowledge(job, "release")  # another worker, or later

    A record that is not acknowledged by the time the next one is asked for is accepted, unless
    ``share_acknowledgement_mode="explicit"``. Leaving the block in good order accepts the last one
    too; leaving it with an exception releases it. What was acquired and not seen is released.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        group_id: the share group.
        on_acknowledged: called with partition, offsets and None when acknowledgements took effect,
            or with the error for which they did not: the lock had ended, say.
        key_deserializer, value_deserializer: convert the bytes of keys and values; see
            `minikafka_client.serializers`. None: they stay bytes.
        options: see `minikafka_client.share_options.ShareConsumerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        TypeError: there is no such option.
        ValueError: an option is refused.
    """

    @with_options(ShareConsumerConfig, ConnectionConfig)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        *,
        on_acknowledged: AcknowledgedCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        connection, config = split_options(options, ShareConsumerConfig, type(self).__name__)
        if not group_id:
            raise ValueError("group_id is empty; a share consumer needs the name of its group")
        self._group_id = group_id
        self._is_implicit = config.share_acknowledgement_mode == "implicit"
        self._on_acknowledged = on_acknowledged
        self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._background = Background("ShareConsumer")
        cluster = self._cluster = Cluster(parse_bootstrap(bootstrap_servers))
        self._network = Network(cluster, connection, self._background, random.random)
        self._keeper = MetadataKeeper(
            self._network,
            random.random,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            on_change=self._on_metadata,
        )
        retry = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms, random.random)
        # Kafka's own way of writing an id.
        member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        heartbeats = HeartbeatConfig(
            group_id, config.max_poll_interval_ms, rack_id=config.client_rack or None
        )
        self._group = GroupLoop(
            ConsumerGroupMember(heartbeats, member_id, cluster, retry, share_heartbeat),
            group_id,
            self._network,
            self._keeper,
            self._background,
            has_progressed=self._has_progressed,
            on_action=self._on_action,
        )
        share_config = machine.ShareConfig(
            group_id,
            member_id,
            config.max_poll_records,
            config.fetch_min_bytes,
            config.fetch_max_wait_ms,
            config.fetch_max_bytes,
            config.check_crcs,
            ShareAcquireMode[config.share_acquire_mode.upper()],
        )
        self._fetcher = machine.ShareFetcher(share_config, cluster, retry)
        self._max_poll_records = config.max_poll_records
        self._delivered: dict[tuple[TopicPartition, int], Acquired] = {}
        self._taken = self._seen = 0
        self._events: deque[machine.Event] = deque()
        self._is_busy = False
        self._timer = trio.CancelScope()
        self._news = trio.Event()
        self._topic_error: KafkaError | None = None
        self._settled: dict[TopicPartition, KafkaError | None] = {}
        self._consumed = RateMeter()
        self._meter = RequestMeter()
        self._acknowledged = self._failed = 0
        self._errors: Counter[str] = Counter()
        self._polled_at = -math.inf

    @classmethod
    @with_options(arguments=ShareConsumerArguments)
    def from_config(
        cls, config: Mapping[str, object], **arguments: Unpack[ShareConsumerArguments[Key, Value]]
    ) -> Self:
        """Make a share consumer of a Java client's properties, or of librdkafka's.

        ``{"bootstrap.servers": "localhost:9092", "group.id": "workers"}``: the names are Kafka's;
        `minikafka_client.properties` has them all. The other arguments are those of the class.

        Raises:
            TypeError: Kafka has no such property.
            ValueError: a property cannot be set here, or its value is malformed.
        """
        bootstrap_servers, group_id, options = share_consumer_options(config, cls.__name__)
        return cls(bootstrap_servers, group_id, **arguments, **options)

    async def __aenter__(self) -> Self:
        await self._background.open()
        self._background.start_soon(self._keeper.run)
        self._background.start_soon(self._group.run)
        self._background.start_soon(self._run)
        return self

    async def __aexit__(self, *details: *ExcDetails) -> bool | None:
        has_failed = details[1] is not None
        try:
            with trio.move_on_after(_CLOSE_PATIENCE_S, shield=has_failed):
                await self._close_sessions(is_orderly=not has_failed)
            with trio.move_on_after(_CLOSE_PATIENCE_S, shield=has_failed):
                await self._group.leave("the consumer was closed")
        finally:
            self._network.close()
            is_handled = await self._background.close(*details)
        return is_handled

    async def _close_sessions(self, *, is_orderly: bool) -> None:
        if is_orderly:
            self._accept_delivered()
        self._fetcher.close()
        self._changed()
        while not self._fetcher.is_closed:
            await self._next_news()

    # --- what to read ---

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for these topics; returns immediately.

        Raises:
            TypeError: it is one string.
        """
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        if isinstance(topics, str):
            raise TypeError(f"subscribe takes topics, not one string: [{topics!r}]")
        names = tuple(sorted(set(topics)))
        self._keeper.topics = set(names)
        self._group.error = None
        self._keeper.want()
        self._group.feed(membership.Subscribed(names))

    async def unsubscribe(self) -> None:
        """Accept what was delivered (in implicit mode), release the rest, and leave the group."""
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        self._accept_delivered()
        self._apply(self._fetcher.give_back(trio.current_time()))
        await self.commit()
        await self._group.leave("the consumer unsubscribed")
        self._fetcher.assigned = frozenset()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer may fetch from now, perhaps together with others."""
        return self._fetcher.assigned

    # --- reading ---

    def __aiter__(self) -> AsyncIterator[ShareRecord[Key, Value]]:
        """Iterate over records without end; it may be left with ``break`` and resumed.

        Raises (while iterating):
            KafkaError: the group cannot be joined, or records cannot be read; iterating again
                continues.
            DeserializationError: a record's key or value cannot be deserialized; it was released.
        """
        return _Records(self)

    async def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ShareRecord[Key, Value]]:
        """Return up to ``max_records``; waits up to ``timeout_ms`` for the first (None: forever).

        Raises:
            KafkaError: as when iterating over records.
        """
        deadline = math.inf if timeout_ms is None else trio.current_time() + timeout_ms / 1000
        await trio.lowlevel.checkpoint()
        self._asked_for_more()
        records: list[ShareRecord[Key, Value]] = []
        while len(records) < max_records:
            if not records and not await self._has_arrived(deadline):
                break
            acquired = self._fetcher.take(trio.current_time())
            if acquired is None:
                if records:
                    break
                continue
            try:
                records.append(self._deliver(acquired))
            except DeserializationError:
                if records:  # the next poll raises it
                    self._fetcher.untake(acquired)
                    break
                self._decide(acquired.key, AcknowledgeType.RELEASE)
                raise
        return records

    def statistics(self) -> ShareConsumerStatistics:
        """Rates, what is held, and acknowledgements; see `minikafka_client.statistics`.

        Raises:
            ClosedError: it is not open.
        """
        self._background.check_open()
        now, member, meter = trio.current_time(), self._group.member, self._meter
        return ShareConsumerStatistics(
            consumed=self._consumed.rates(now),
            consumed_records=self._consumed.records,
            consumed_bytes=self._consumed.size_bytes,
            buffered_records=len(self._fetcher.buffer),
            held_records=len(self._fetcher.held),
            acknowledged_records=self._acknowledged,
            failed_acknowledgements=self._failed,
            requests=meter.requests,
            errors=dict(self._errors),
            latency=meter.latencies(now),
            acquisition_lock_timeout_ms=self.acquisition_lock_timeout_ms,
            brokers=meter.brokers(now),
            group=GroupStatistics(
                state=member.state_name,
                member_id=member.member_id,
                generation_id=member.generation_id,
                coordinator=-1 if member.coordinator is None else member.coordinator,
                rebalances=member.rebalance_count,
                last_poll_age_s=None if self._polled_at == -math.inf else now - self._polled_at,
            ),
            connections=self._network.statistics(),
        )

    async def _has_arrived(self, deadline: float) -> bool:
        """Wait until there is a record; False after the deadline."""
        fetcher = self._fetcher
        try:
            while not fetcher.buffer:
                self._raise_failures()
                fetcher.wants_records = True
                self._changed()
                if fetcher.buffer or fetcher.error is not None:
                    continue
                with trio.move_on_at(deadline) as scope:
                    await self._next_news()
                if scope.cancelled_caught:
                    return bool(fetcher.buffer)
        finally:
            fetcher.wants_records = False
        return True

    def _raise_failures(self) -> None:
        error, self._fetcher.error = self._fetcher.error, None
        for each in (self._group.error, self._topic_error, error):
            if each is not None:
                raise each

    def _asked_for_more(self) -> None:
        self._background.check_open()
        self._taken += 1
        self._polled_at = trio.current_time()
        self._accept_delivered()
        self._group.feed(membership.Polled())

    def _accept_delivered(self) -> None:
        delivered, self._delivered = self._delivered, {}
        if self._is_implicit:
            for key, acquired in delivered.items():
                if self._fetcher.held.get(key) is acquired:
                    self._decide(key, AcknowledgeType.ACCEPT)

    def _deliver(self, acquired: Acquired) -> ShareRecord[Key, Value]:
        topic, partition, offset, timestamp_ms, key, value, headers = acquired.record
        where = (topic, partition, [offset])
        decoded: list[Any] = [key, value]
        for index, part in enumerate(("key", "value")):
            deserializer = self._deserializers[index]
            if deserializer is not None:
                [decoded[index]] = deserialized(deserializer, [decoded[index]], part, *where)
        self._delivered[acquired.key] = acquired
        size_bytes = len(key or b"") + len(value or b"")
        self._consumed.add(1, size_bytes, self._polled_at)
        row = (topic, partition, offset, timestamp_ms, decoded[0], decoded[1], headers)
        return ShareRecord(*row, acquired.delivery_count)

    # --- acknowledging ---

    def acknowledge(
        self,
        record: ShareRecord[Key, Value],
        acknowledgement: Acknowledgement | AcknowledgementName = "accept",
    ) -> None:
        """Say what became of a record; sent with the next fetch, by `commit`, or after 0.5 s.

        A record that was renewed is acknowledged again when the work on it is done.

        Raises:
            ValueError: this consumer does not have the record, or has acknowledged it already.
        """
        self._background.check_open()
        decision = _DECISIONS[Acknowledgement(acknowledgement)]
        key = (TopicPartition(record.topic, record.partition), record.offset)
        if key not in self._fetcher.held:
            raise ValueError(
                f"offset {record.offset} of partition {record.partition} of topic "
                f"{record.topic!r} is not held by this consumer; it was acknowledged already"
            )
        self._decide(key, decision)

    def _decide(self, key: tuple[TopicPartition, int], decision: AcknowledgeType) -> None:
        self._apply(self._fetcher.decide(key, decision, trio.current_time()))
        self._changed()

    async def commit(self) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements and wait for the answers.

        Returns the result by partition, of everything that was acknowledged since the last
        ``commit``: None, or why acknowledgements did not take effect. In implicit mode the records
        that were returned last are accepted first.
        """
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        if self._is_implicit:
            self._accept_delivered()
        waiting = self._fetcher.undecided()
        self._fetcher.flush(trio.current_time())
        self._changed()
        while waiting & self._fetcher.undecided():
            await self._next_news()
        # What the broker answered before this call counts as well: a renewal is sent at once, and
        # an acknowledgement may have travelled with a fetch.
        results, self._settled = self._settled, {}
        return results

    def commit_nowait(self) -> None:
        """Send all acknowledgements soon; ``on_acknowledged`` is called with the results."""
        self._background.check_open()
        if self._is_implicit:
            self._accept_delivered()
        self._fetcher.flush(trio.current_time())
        self._changed()

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the broker locks records for this consumer; None before the first fetch."""
        return self._fetcher.lock_timeout_ms or None

    # --- events ---

    def _has_progressed(self) -> bool:
        seen, self._seen = self._seen, self._taken
        return self._fetcher.wants_records or seen != self._taken

    def _on_action(self) -> None:
        """The group's actions need no callback of the application: locks protect the records."""
        while self._group.actions:
            action = self._group.actions.popleft()
            if isinstance(action, membership.Revoke):
                self._fetcher.assigned -= set(action.partitions)
                self._group.feed(membership.Revoked())
            else:
                self._fetcher.assigned |= set(action.partitions)
        self._changed()
        self._tell()

    def _on_metadata(self) -> None:
        self._group.feed(membership.MetadataChanged())
        self._topic_error = None
        for name in sorted(self._keeper.topics):
            known = self._cluster.topics.get(name)
            if known is not None and known.error_code in FINAL_TOPIC_ERRORS:
                self._topic_error = broker_error(known.error_code, f"topic {name!r}")
        self._changed()
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, trio.Event()
        news.set()

    async def _next_news(self) -> None:
        await self._news.wait()

    def _changed(self) -> None:
        self._feed(machine.Changed())

    def _feed(self, event: machine.Event) -> None:
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                now = trio.current_time()
                self._apply(self._fetcher.handle(self._events.popleft(), now))
        finally:
            self._is_busy = False
        self._timer.deadline = self._fetcher.deadline() or math.inf

    async def _run(self) -> None:
        while True:
            self._timer = trio.CancelScope(deadline=self._fetcher.deadline() or math.inf)
            with self._timer:
                await trio.sleep_forever()
            self._changed()

    def _apply(self, effects: list[machine.Effect]) -> None:
        for effect in effects:
            match effect:
                case machine.SendShare():
                    self._send(effect)
                case machine.Connect(node):
                    self._background.start_soon(self._connect, node)
                case machine.RefreshMetadata(topics):
                    self._keeper.want(topics)
                case machine.Settled():
                    self._note(effect)

    def _note(self, settled: machine.Settled) -> None:
        self._settled[settled.partition] = settled.error or self._settled.get(settled.partition)
        if settled.error is None:
            self._acknowledged += len(settled.offsets)
        else:
            self._failed += len(settled.offsets)
            self._errors[error_name(settled.error)] += 1
            logger.warning("%d acknowledgements failed: %s", len(settled.offsets), settled.error)
        if self._on_acknowledged is not None:
            self._on_acknowledged(settled.partition, settled.offsets, settled.error)

    def _send(self, effect: machine.SendShare) -> None:
        node, request_id = effect.node, effect.request_id
        sent_at = trio.current_time()
        self._meter.sent(node)

        def on_answer(answer: Answer) -> None:
            now = trio.current_time()
            if isinstance(answer, KafkaError):
                self._meter.lost(node)
            else:
                self._meter.answered(node, now - sent_at, now)
            self._feed(machine.Answered(node, request_id, answer))
            self._tell()

        connection = self._network.connected(node, SHARE_LANE)
        try:
            if connection is None:
                raise ConnectionLostError(f"the connection to broker {node} is closed")
            version = connection.version_for(effect.request, effect.version_min)
            connection.submit(effect.request, version, on_answer)
        except KafkaError as error:
            on_answer(error)

    async def _connect(self, node: int) -> None:
        try:
            await self._network.connect(node, SHARE_LANE)
        except KafkaError:
            self._feed(machine.NodeFailed(node))
        else:
            self._feed(machine.NodeConnected(node))
        self._tell()


_DECISIONS: Final = {each: AcknowledgeType[each.name] for each in Acknowledgement}


class _Records(Generic[Key, Value]):
    """Records one by one; not an async generator, which must not be left with ``break``."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: ShareConsumer[Key, Value]) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord[Key, Value]:
        while True:
            records = await self._consumer.poll(1)
            if records:
                return records[0]
