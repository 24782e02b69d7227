"""Fetch 4-18: whole batches from the log, straight from its files.

Long poll: a fetch that finds fewer than min_bytes waits for appends (no polling) until max_wait_ms.
Incremental sessions (KIP-227), topic ids from version 13 (KIP-516), leader-epoch fencing (KIP-320),
truncation detection by last_fetched_epoch (KIP-595), read_committed bounded by the last stable
offset. max_bytes and partition_max_bytes are respected except for the first batch of the first
non-empty partition, which is always sent whole (KIP-74).

From version 11 on followers serve fetches up to their high watermark, and a leader redirects
consumers that name their rack to an in-sync replica there if ``replica.selector.class`` is
RackAwareReplicaSelector (KIP-392). A client that fetched from the wrong broker is told the current
leader (KIP-951). Brokers fetch from each other in another way
(`minikafka.broker.replicas.fetch_server`), so ``replica_id`` >= 0 is served as a consumer.

A consumer that is above its quota gets an empty answer at once, and has to wait before its next
request (KIP-219); its session is as it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...protocol.errors import ErrorCode
from ...protocol.fields import ZERO_UUID
from ...protocol.messages import fetch
from ...security.acl import Operation, ResourceType
from ...storage.errors import LogError
from ..replicas.fetch_sessions import (
    CachedPartition,
    FetchPlan,
    PartitionKey,
    SessionError,
    asked_partitions,
)
from ..replicas.partition import Partition, PartitionError
from ..replicas.racks import preferred_read_replica
from ..system.pace import PIECE_ENTRIES, Pace
from ..transport.transport import FilePayload
from .current_leader import LEADER_ELSEWHERE, current_leader, endpoints_of

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_TOPIC_IDS_FIRST = 13
_SESSIONS_FIRST = 7
_FOLLOWERS_FIRST = 11
_REPLICA_STATE_FIRST = 15
_NODE_ENDPOINTS_FIRST = 16
_READ_COMMITTED = 1
_NOTHING = b""
_PARTITIONS_PER_CHECKPOINT = 32
_FILES_PER_ANSWER_MAX = 64
"""Files that one answer may keep open until it is sent; a client may never read it."""
_COPIED_SIZE_BYTES_MAX = 256 * 1024
"""Bytes of further partitions that are copied into memory; the rest waits for the next fetch."""


class _Found(NamedTuple):
    """One partition's answer, and the size of its records."""

    cached: CachedPartition
    answer: fetch.PartitionData
    size_bytes: int


class _Waiter:
    __slots__ = ("changed", "event")

    def __init__(self) -> None:
        self.event = trio.Event()
        self.changed: dict[Partition, None] = {}

    def notify(self, partition: Partition) -> None:
        self.changed[partition] = None
        self.event.set()


async def handle(broker: Broker, context: RequestContext, request: fetch.Request) -> fetch.Response:
    by_id = context.api_version >= _TOPIC_IDS_FIRST
    now = broker.clock.monotonic()
    if context.api_version < _SESSIONS_FIRST:
        request.session_epoch = -1
    try:
        wanted = await _wanted(broker, request)
        plan = broker.fetch_sessions.plan(request, by_id, now, wanted)
    except SessionError as error:
        return fetch.Response(error_code=error.error_code, responses=[])
    charge = context.charge
    bytes_max = None if charge is None else charge.fetch_bytes_max()
    if bytes_max is not None:
        request.max_bytes = min(request.max_bytes, bytes_max)
        request.min_bytes = min(request.min_bytes, bytes_max)
    reader = _Reader(broker, request, context.api_version, _right_to_read(broker, context, request))
    found, satisfied = await reader.read(plan.partitions)
    if not satisfied and plan.partitions:
        await _wait(broker, reader, found, now + request.max_wait_ms / 1000)
        found, _ = await reader.read(plan.partitions)
    if charge is not None and charge.fetched(sum(one.size_bytes for one in found)):
        return fetch.Response(session_id=broker.fetch_sessions.withhold(plan), responses=[])
    response = await _answer(plan, found)
    if reader.leaders_elsewhere and context.api_version >= _NODE_ENDPOINTS_FIRST:
        response.node_endpoints = [
            fetch.NodeEndpoint(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in endpoints_of(broker, context, reader.leaders_elsewhere)
        ]
    return response


def _right_to_read(
    broker: Broker, context: RequestContext, request: fetch.Request
) -> Callable[[str], bool] | None:
    """Says which topics the client may read; None without an authorizer.

    READ of the topic is needed, and of those that pass for replicas, CLUSTER_ACTION.
    """
    authorization = broker.authorization
    if authorization is None:
        return None
    is_in_state = context.api_version >= _REPLICA_STATE_FIRST
    if (request.replica_state.replica_id if is_in_state else request.replica_id) >= 0:
        is_replica = authorization.allows_for_cluster(context, Operation.CLUSTER_ACTION)
        return lambda _: is_replica
    return partial(authorization.allows, context, Operation.READ, ResourceType.TOPIC)


async def _wanted(broker: Broker, request: fetch.Request) -> list[CachedPartition]:
    wanted = asked_partitions(request.topics)
    if sum(len(topic.partitions) for topic in request.topics) <= PIECE_ENTRIES:
        return list(wanted)
    return await Pace(broker.clock.monotonic).every(wanted)


async def _wait(broker: Broker, reader: _Reader, found: list[_Found], deadline: float) -> None:
    """Wait for min_bytes, an error, the deadline, or the shutdown.

    Only partitions that have changed are read again, because a client may fetch thousands of them.
    """
    waiter = _Waiter()
    waiting = reader.partitions
    sizes: dict[Partition, int] = {}
    cached_by_partition: dict[Partition, CachedPartition] = {}
    try:
        for number, (one, (cached, partition)) in enumerate(
            zip(found, waiting.items(), strict=True), 1
        ):
            partition.waiters[waiter] = None
            sizes[partition] = one.size_bytes
            cached_by_partition[partition] = cached
            if partition.log.high_watermark != one.answer.high_watermark:
                waiter.notify(partition)  # it changed while the others were read
            if number % PIECE_ENTRIES == 0:
                await trio.lowlevel.checkpoint()
        total = sum(sizes.values())
        with trio.move_on_at(deadline):
            while not broker.node.is_stopping:
                await waiter.event.wait()
                waiter.event = trio.Event()
                changed, waiter.changed = waiter.changed, {}
                for partition in changed:
                    cached = cached_by_partition[partition]
                    size_bytes = reader.size_of(cached)
                    if size_bytes is None:
                        return
                    total += size_bytes - sizes[partition]
                    now = reader.partitions[cached]
                    if now is not partition:  # it was offline, and is now another object
                        del sizes[partition]
                        now.waiters[waiter] = None
                        cached_by_partition[now] = cached
                    sizes[now] = size_bytes
                if total >= reader.min_bytes:
                    return
    finally:
        for partition in sizes:
            partition.waiters.pop(waiter, None)


class _Reader:
    def __init__(
        self,
        broker: Broker,
        request: fetch.Request,
        version: int,
        may_read: Callable[[str], bool] | None,
    ) -> None:
        self._broker = broker
        self._request = request
        self._may_read = may_read
        self._by_id = version >= _TOPIC_IDS_FIRST
        followers = version >= _FOLLOWERS_FIRST
        self._find = broker.index.find_readable if followers else broker.partition
        self._rack = request.rack_id if broker.replicas.is_rack_aware else ""
        self._committed = request.isolation_level == _READ_COMMITTED
        self.min_bytes = request.min_bytes
        self.partitions: dict[CachedPartition, Partition] = {}
        self.leaders_elsewhere: dict[int, None] = {}
        self._files_left = 0
        self._copy_left_bytes = 0

    async def read(self, wanted: Sequence[CachedPartition]) -> tuple[list[_Found], bool]:
        """Read all partitions; True if the answer need not wait (bytes, error, divergence)."""
        request = self._request
        remaining = min(request.max_bytes, self._broker.config.fetch_max_bytes)
        total = 0
        found: list[_Found] = []
        urgent = request.max_wait_ms <= 0
        self.partitions = {}
        self._files_left = _FILES_PER_ANSWER_MAX
        self._copy_left_bytes = _COPIED_SIZE_BYTES_MAX
        for cached in wanted:
            try:
                one = self._read_one(cached, remaining, is_first=total == 0)
            except (PartitionError, LogError) as error:
                one = _Found(cached, self._refused(cached, ErrorCode(error.error_code)), 0)
                urgent = True
            urgent = (
                urgent
                or one.answer.diverging_epoch.end_offset >= 0
                or one.answer.preferred_read_replica >= 0
            )
            total += one.size_bytes
            remaining -= one.size_bytes
            found.append(one)
            if len(found) % _PARTITIONS_PER_CHECKPOINT == 0:
                await trio.lowlevel.checkpoint()
        return found, urgent or total >= request.min_bytes

    def _read_one(self, cached: CachedPartition, remaining: int, *, is_first: bool) -> _Found:
        number = cached.key[2]
        asked = cached.asked
        broker = self._broker
        topic = self._topic_name(cached)
        if self._may_read is not None and not self._may_read(topic):
            raise PartitionError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self._find(topic, number, asked.current_leader_epoch)
        self.partitions[cached] = partition
        log = partition.log
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        answer = fetch.PartitionData(
            partition_index=number,
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._committed else None,
            records=_NOTHING,
        )
        if asked.last_fetched_epoch >= 0 and self._diverges(partition, cached, answer):
            return _Found(cached, answer, 0)
        if self._rack and partition.is_leader:
            preferred = preferred_read_replica(
                partition,
                broker.image,
                broker.config.broker_rack,
                self._rack,
                asked.fetch_offset,
            )
            if preferred is not None:
                answer.preferred_read_replica = preferred
                return _Found(cached, answer, 0)
        limit = min(asked.partition_max_bytes, remaining)
        if not self._files_left:
            limit = min(limit, self._copy_left_bytes)
        if limit <= 0 and not is_first:
            return _Found(cached, answer, 0)
        read = log.read(
            asked.fetch_offset,
            size_bytes_max=max(limit, 0),
            upper_bound_offset=stable if self._committed else high_watermark,
            minimum_one_batch=is_first,
        )
        if read.records is None:
            return _Found(cached, answer, 0)
        if self._committed:
            answer.aborted_transactions = [
                fetch.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in log.aborted_transactions(asked.fetch_offset, read.next_offset)
            ]
        if self._files_left:
            self._files_left -= 1
            answer.records = FilePayload(read.records)
        else:
            self._copy_left_bytes -= read.records.size_bytes
            try:
                answer.records = read.records.read()
            except OSError as error:
                raise log.fail(error) from error
        return _Found(cached, answer, read.records.size_bytes)

    def _topic_name(self, cached: CachedPartition) -> str:
        """The topic to read, by name or by id.

        Raises:
            PartitionError: the id was never known here (UNKNOWN_TOPIC_ID), or its topic was deleted
                (UNKNOWN_TOPIC_OR_PARTITION) or deleted and created again (INCONSISTENT_TOPIC_ID).
        """
        if not self._by_id:
            return cached.topic_name
        image = self._broker.image
        topic = image.topics_by_id.get(cached.key[1])
        if topic is not None:
            cached.topic_name = topic.name
        elif not cached.topic_name:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID)
        elif cached.topic_name in image.topics:
            raise PartitionError(ErrorCode.INCONSISTENT_TOPIC_ID)
        else:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return cached.topic_name

    def size_of(self, cached: CachedPartition) -> int | None:
        """The bytes that a partition now has for this fetch; None if it has an error."""
        self._files_left = 1
        try:
            return self._read_one(cached, self._request.max_bytes, is_first=True).size_bytes
        except (PartitionError, LogError):
            return None

    @staticmethod
    def _diverges(
        partition: Partition, cached: CachedPartition, answer: fetch.PartitionData
    ) -> bool:
        asked = cached.asked
        end = partition.log.end_offset_for_epoch(asked.last_fetched_epoch)
        if end.leader_epoch < 0 or end.end_offset < 0:
            raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.leader_epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
            answer.diverging_epoch = fetch.EpochEndOffset(
                epoch=end.leader_epoch, end_offset=end.end_offset
            )
            return True
        return False

    def _refused(self, cached: CachedPartition, code: ErrorCode) -> fetch.PartitionData:
        leader = fetch.LeaderIdAndEpoch()
        if code in LEADER_ELSEWHERE:
            leader_id, leader_epoch = current_leader(self._broker, *cached.key)
            leader = fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            self.leaders_elsewhere[leader_id] = None
        return fetch.PartitionData(
            partition_index=cached.key[2],
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            current_leader=leader,
            aborted_transactions=None,
            records=_NOTHING,
        )


async def _answer(plan: FetchPlan, found: list[_Found]) -> fetch.Response:
    session = plan.session
    topics: dict[tuple[str, bytes], fetch.TopicResponse] = {}
    served: list[PartitionKey] = []
    for number, (cached, answer, size_bytes) in enumerate(found, 1):
        if number % PIECE_ENTRIES == 0:
            await trio.lowlevel.checkpoint()
        if session is not None:
            is_changed = _remember(cached, answer, size_bytes)
            if plan.is_incremental and not is_changed:
                continue
            if size_bytes:
                served.append(cached.key)
        name, topic_id, _ = cached.key
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = fetch.TopicResponse(
                topic_id=topic_id or ZERO_UUID, topic=name, partitions=[]
            )
        topic.partitions.append(answer)
    if session is not None:
        session.move_to_end(served)
    return fetch.Response(session_id=plan.session_id, responses=list(topics.values()))


def _remember(cached: CachedPartition, answer: fetch.PartitionData, size_bytes: int) -> bool:
    """Note the answer in the session; True if it differs from what the client has."""
    is_changed = (
        size_bytes > 0
        or answer.error_code != 0
        or answer.diverging_epoch.end_offset >= 0
        or answer.high_watermark != cached.high_watermark
        or answer.log_start_offset != cached.log_start_offset
        or answer.last_stable_offset != cached.last_stable_offset
    )
    if answer.error_code != 0:
        # Sent again until it is resolved: an error is never "unchanged".
        cached.high_watermark = -1
    else:
        cached.high_watermark = answer.high_watermark
        cached.log_start_offset = answer.log_start_offset
        cached.last_stable_offset = answer.last_stable_offset
    return is_changed
