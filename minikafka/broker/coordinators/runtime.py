"""Runs the shards of a coordinator: loading, appending, commits, timers.

A coordinator stores its state in a compacted internal topic, with one shard for each partition. The
leader of a partition runs its shard: a new leader loads it by replaying the whole partition, and
serves once all of that is committed, so that clients never see state that could still be lost. What
a shard decides is appended to the partition, and its replies are sent when the high watermark has
passed it. When another broker becomes leader, the shard resigns and is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import trio

from ...coordinator.group import Reply
from ...coordinator.writes import Append, Now
from ...protocol.errors import ErrorCode
from ...protocol.records import (
    BatchHeader,
    ControlType,
    CorruptBatchError,
    Record,
    decode_records,
    encode_batch,
    iter_batches,
)
from ...storage.errors import LogError
from ...storage.markers import read_marker
from ..control.lifecycle import Lifecycle
from ..control.metadata_store import MetadataStore
from ..replicas.manager import ReplicaManager
from ..replicas.partition import Partition, PartitionError
from ..system.clock import Clock
from .internal_topics import InternalTopic, partition_for

logger = logging.getLogger(__name__)

_LOAD_SIZE_BYTES = 1024 * 1024
_RECORDS_PER_CHECKPOINT = 256
"""Records that are replayed without letting other tasks run: a few milliseconds."""


class CoordinatorShard(Protocol):
    """The interface of a shard; see `minikafka.coordinator.group.shard`."""

    @property
    def error(self) -> ErrorCode: ...

    def deadline(self) -> float | None: ...

    def expire(self, now: Now) -> list[Any]: ...

    def appended(self, write_id: int) -> None: ...

    def committed(self, write_id: int, now: Now) -> list[Any]: ...

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Any]: ...

    def resigned(self) -> list[Any]: ...


ShardT = TypeVar("ShardT", bound=CoordinatorShard)


class ShardKind(NamedTuple, Generic[ShardT]):
    """How the shards of one coordinator differ from those of another.

    Attributes:
        loaded: called with shard, leader epoch and time when the whole partition is replayed.
        replay: called with shard, batch and record.
        replay_marker: called with shard, producer id, and whether the transaction commits.
        carry_out: called with partition and effect for effects that only this coordinator has.
        written_at: called with shard, offset, key and value of each record that is appended.
    """

    new: Callable[[], ShardT]
    loaded: Callable[[ShardT, int, Now], list[Any]]
    replay: Callable[[ShardT, BatchHeader, Record], None]
    replay_marker: Callable[[ShardT, int, bool], None]
    carry_out: Callable[[int, Any], None]
    written_at: Callable[[ShardT, int, bytes, bytes | None], None] | None = None


class PendingReply:
    __slots__ = ("_task", "reply")

    def __init__(self) -> None:
        self.reply: Any = None
        self._task: trio.lowlevel.Task | None = None

    def put(self, reply: Any) -> None:
        self.reply = reply
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def wait(self) -> Any:
        if self.reply is None:

            def abort(_: object) -> trio.lowlevel.Abort:
                self._task = None
                return trio.lowlevel.Abort.SUCCEEDED

            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(abort)
        assert self.reply is not None
        return self.reply


class CommitEvent:
    """Wakes a task when an offset is committed, or may never be."""

    __slots__ = ("error_code", "event")

    def __init__(self) -> None:
        self.error_code = ErrorCode.NONE
        self.event = trio.Event()

    def settle(self, error_code: ErrorCode) -> None:
        self.error_code = error_code
        self.event.set()


class _Write(Generic[ShardT]):
    __slots__ = ("_end_offset", "_partition", "_runtime", "_shard", "_write_id")

    def __init__(
        self,
        runtime: ShardRuntime[ShardT],
        shard: ShardT,
        write_id: int,
        partition: Partition,
        end_offset: int,
    ) -> None:
        self._runtime = runtime
        self._shard = shard
        self._write_id = write_id
        self._partition = partition
        self._end_offset = end_offset

    def settle(self, error_code: ErrorCode) -> None:
        """Called by the partition when the write is committed, or may never be."""
        shard, now = self._shard, self._runtime.now()
        if error_code is ErrorCode.NONE:
            effects = shard.committed(self._write_id, now)
        else:
            effects = shard.append_failed(self._write_id, error_code, now)
            if error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                self._partition.wait_for_commit(self, self._end_offset)
        self._runtime.carry_out(self._partition.index, effects)


class ShardRuntime(Generic[ShardT]):
    def __init__(
        self,
        topic: InternalTopic,
        kind: ShardKind[ShardT],
        *,
        metadata: MetadataStore,
        replicas: ReplicaManager,
        lifecycle: Lifecycle,
        clock: Clock,
        make_durable: Callable[[Partition, int], Awaitable[None]],
    ) -> None:
        self.topic = topic
        self.shards: dict[int, ShardT] = {}
        self._kind = kind
        self._metadata = metadata
        self._replicas = replicas
        self._lifecycle = lifecycle
        self._clock = clock
        self._make_durable = make_durable
        self._replaying: set[int] = set()
        self._nursery: trio.Nursery | None = None
        self._timer_scope: trio.CancelScope | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Start to load the shards that this broker leads, and to run their timers."""
        self._nursery = nursery
        nursery.start_soon(self._watch_time)
        for number, shard in list(self.shards.items()):
            self._begin_to_load(self._replicas.index.partitions[self.topic.name, number], shard)

    @property
    def nursery(self) -> trio.Nursery:
        assert self._nursery is not None
        return self._nursery

    def now(self) -> Now:
        return Now(self._clock.monotonic(), self._clock.wall_ms())

    # --- which shard ---------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition that stores a key.

        Raises:
            PartitionError: NOT_COORDINATOR, the topic does not exist yet.
        """
        topic = self._metadata.image.topics.get(self.topic.name)
        if topic is None:
            raise PartitionError(ErrorCode.NOT_COORDINATOR)
        return partition_for(key, len(topic.partitions))

    def shard_of(self, key: str) -> tuple[int, ShardT]:
        """The partition of a key and its shard, which may still be loading.

        Raises:
            PartitionError: NOT_COORDINATOR, this broker does not lead the partition.
        """
        number = self.partition_of(key)
        shard = self.shards.get(number)
        if shard is None:
            raise PartitionError(ErrorCode.NOT_COORDINATOR)
        return number, shard

    def loaded_shards(self) -> list[ShardT]:
        return [shard for shard in self.shards.values() if shard.error is ErrorCode.NONE]

    @property
    def is_loading(self) -> bool:
        return any(shard.error is not ErrorCode.NONE for shard in self.shards.values())

    def is_replaying(self, number: int) -> bool:
        """Whether the shard of a partition is still reading its log.

        Transaction coordinators write markers to a partition as soon as it has a leader. A marker
        that arrives in the meantime is replayed after the records it is about, so the shard must
        not be notified of it earlier.
        """
        return number in self._replaying

    def is_surely_current(self, number: int) -> bool:
        """Whether no other broker can have become the coordinator of a partition's keys.

        Answers that wait for a commit are safe anyway. Answers from memory are not: if this broker
        was cut off from the others or paused, and has been replaced, it does not know what its
        successor has decided.
        """
        try:
            partition = self._replicas.index.find(self.topic.name, number)
        except PartitionError:
            return False
        return self._lifecycle.has_lease and not partition.is_frozen

    # --- becoming and ceasing to be the coordinator ----------------------------------------------

    def lead(self, partition: Partition) -> None:
        """This broker now leads a partition of the topic: load its shard."""
        number = partition.index
        if number in self.shards:
            # The disk failed and has recovered. Writes that were pending then are never reported
            # to the old shard, and may not be in the log.
            self.resign(number)
        shard = self._kind.new()
        self.shards[number] = shard
        self._replaying.add(number)
        if self._nursery is not None:
            self._begin_to_load(partition, shard)

    def resign(self, number: int) -> None:
        """This broker no longer leads a partition: answer waiting requests with NOT_COORDINATOR."""
        shard = self.shards.pop(number, None)
        self._replaying.discard(number)
        if shard is not None:
            self.carry_out(number, shard.resigned())

    def _begin_to_load(self, partition: Partition, shard: ShardT) -> None:
        if partition.log.log_end_offset == partition.log.log_start_offset:
            self._loaded(partition, shard)
        else:
            self.nursery.start_soon(self._load, partition, shard)

    def _loaded(self, partition: Partition, shard: ShardT) -> None:
        self._replaying.discard(partition.index)
        effects = self._kind.loaded(shard, partition.leader_epoch, self.now())
        self.carry_out(partition.index, effects)

    async def _load(self, partition: Partition, shard: ShardT) -> None:
        """Replay a partition; one that cannot be read is offline, and loaded when it recovers."""
        log, number = partition.log, partition.index
        offset = log.log_start_offset
        try:
            while offset < log.log_end_offset and self.shards.get(number) is shard:
                found = log.read(
                    offset, size_bytes_max=_LOAD_SIZE_BYTES, upper_bound_offset=log.log_end_offset
                )
                if found.records is None:
                    break
                try:
                    batches = found.records.read()
                except OSError as error:
                    raise log.fail(error) from error
                await self._replay(number, shard, batches)
                offset = found.next_offset
        except LogError as error:
            logger.error("cannot load %r: %s", partition, error)
            return
        if self.shards.get(number) is not shard:
            return
        self._replaying.discard(number)
        end_offset = log.log_end_offset
        while log.high_watermark < end_offset and self.shards.get(number) is shard:
            committed = CommitEvent()
            partition.wait_for_commit(committed, end_offset)
            await committed.event.wait()
        if self.shards.get(number) is shard:
            self._loaded(partition, shard)

    async def _replay(self, number: int, shard: ShardT, batches: bytes) -> None:
        """Replay batches; the leader may change at each checkpoint."""
        kind = self._kind
        count = 0
        for position, header in iter_batches(batches):
            if header.is_control:
                marker = read_marker(batches, position)
                if marker is not None:
                    commits = marker.control_type is ControlType.COMMIT
                    kind.replay_marker(shard, header.producer_id, commits)
                continue
            try:
                records = decode_records(batches, position)
            except CorruptBatchError as error:
                logger.error("skipping a batch of %s: %s", self.topic.name, error)
                continue
            for record in records:
                if record.key is not None:
                    kind.replay(shard, header, record)
            count += max(1, len(records))
            if count >= _RECORDS_PER_CHECKPOINT:
                count = 0
                await trio.lowlevel.checkpoint()
                if self.shards.get(number) is not shard:
                    return

    # --- effects and time ----------------------------------------------------------------------

    def carry_out(self, number: int, effects: list[Any]) -> None:
        """Carry out effects in order; waiting followers are answered in the same call."""
        with self._replicas.follower_batch:
            for effect in effects:
                match effect:
                    case Append():
                        self._append(number, effect)
                    case Reply(token, response):
                        assert isinstance(token, PendingReply)
                        token.put(response)
                    case _:
                        self._kind.carry_out(number, effect)
            self._wake_timer(number)

    def _append(self, number: int, effect: Append) -> None:
        shard = self.shards[number]
        now = self.now()
        is_transactional = effect.producer_id >= 0
        try:
            partition = self._replicas.index.find(self.topic.name, number)
            partition.check_in_sync()
            batch = encode_batch(
                [(key, value, (), now.wall_ms) for key, value in effect.records],
                producer_id=effect.producer_id,
                producer_epoch=effect.producer_epoch,
                is_transactional=is_transactional,
            )
            result = partition.append(
                memoryview(batch), now_ms=now.wall_ms, version=13, from_client=False
            )
        except (PartitionError, LogError) as error:
            code = ErrorCode(error.error_code)
            self.carry_out(number, shard.append_failed(effect.write_id, code, now))
            return
        shard.appended(effect.write_id)
        end_offset = result.last_offset + 1
        if self._kind.written_at is not None:
            first = end_offset - len(effect.records)
            for offset, (key, value) in enumerate(effect.records, first):
                self._kind.written_at(shard, offset, key, value)
        if partition.log.high_watermark >= end_offset:
            self.carry_out(number, shard.committed(effect.write_id, now))
            return
        write = _Write(self, shard, effect.write_id, partition, end_offset)
        partition.wait_for_commit(write, end_offset)
        if partition.topic.is_fsync_acked:
            self.nursery.start_soon(self._sync, partition, end_offset)

    async def _sync(self, partition: Partition, offset: int) -> None:
        try:
            await self._make_durable(partition, offset)
        except LogError as error:
            logger.error("%r: %s", partition, error)

    def _wake_timer(self, number: int) -> None:
        shard = self.shards.get(number)
        deadline = shard.deadline() if shard is not None else None
        if deadline is not None and self._timer_scope is not None:
            self._timer_scope.deadline = min(self._timer_scope.deadline, deadline)

    async def _watch_time(self) -> None:
        while True:
            now = self.now()
            for number, shard in list(self.shards.items()):
                deadline = shard.deadline()
                if deadline is not None and deadline <= now.monotonic_s:
                    self.carry_out(number, shard.expire(now))
            deadlines = [shard.deadline() for shard in self.shards.values()]
            earliest = min((one for one in deadlines if one is not None), default=float("inf"))
            with trio.CancelScope(deadline=earliest) as self._timer_scope:
                await trio.sleep_forever()
