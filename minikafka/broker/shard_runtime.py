"""What all coordinators need around their shards: loading, appending, waiting, time.

A coordinator keeps its state in a compacted internal topic, one shard for each partition. The
broker that leads a partition runs its shard: when it becomes leader the shard is loaded by
replaying the whole partition, and serves when all of that is committed, so that nobody is told what
could still be lost. What a shard decides is appended to the partition, and those who wait hear of
it when the high watermark has passed it. When another broker leads, the shard resigns and is
forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import trio

from ..coordinator.group import Append, Now, Reply
from ..protocol.errors import ErrorCode
from ..protocol.records import (
    BatchHeader,
    ControlType,
    CorruptBatchError,
    Record,
    decode_records,
    encode_batch,
    iter_batches,
)
from ..storage.errors import LogError
from ..storage.markers import read_marker
from .internal_topics import InternalTopic, partition_for
from .partition import Partition, PartitionError

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)

_LOAD_SIZE_BYTES = 1024 * 1024
_RECORDS_PER_CHECKPOINT = 256
"""Records that are replayed in one go: a few milliseconds."""


class CoordinatorShard(Protocol):
    """What the runtime asks of a shard; see `minikafka.coordinator.group.shard`."""

    @property
    def error(self) -> ErrorCode:
        """What requests are answered before it is loaded, and after it has resigned."""
        ...

    def deadline(self) -> float | None:
        """When to call `expire`."""
        ...

    def expire(self, now: Now) -> list[Any]:
        """Let timers fire."""
        ...

    def appended(self, write_id: int) -> None:
        """An `Append` is in the log."""
        ...

    def committed(self, write_id: int, now: Now) -> list[Any]:
        """The high watermark has passed it."""
        ...

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Any]:
        """It was not written, or nobody knows."""
        ...

    def resigned(self) -> list[Any]:
        """Another broker leads."""
        ...


ShardT = TypeVar("ShardT", bound=CoordinatorShard)


class ShardKind(NamedTuple, Generic[ShardT]):
    """How the shards of one coordinator differ from those of another.

    Attributes:
        new: makes a shard.
        loaded: tells it that it was loaded: shard, leader epoch, now.
        replay: one record: shard, batch, record.
        replay_marker: one transaction marker: shard, producer id, whether it commits.
        carry_out: does what only this coordinator's shards ask for: partition, effect.
    """

    new: Callable[[], ShardT]
    loaded: Callable[[ShardT, int, Now], list[Any]]
    replay: Callable[[ShardT, BatchHeader, Record], None]
    replay_marker: Callable[[ShardT, int, bool], None]
    carry_out: Callable[[int, Any], None]


class PendingReply:
    """A place for one reply, and for the one task that waits for it."""

    __slots__ = ("_task", "reply")

    def __init__(self) -> None:
        self.reply: Any = None
        self._task: trio.lowlevel.Task | None = None

    def put(self, reply: Any) -> None:
        """The reply is there."""
        self.reply = reply
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def wait(self) -> Any:
        """Wait for it."""
        if self.reply is None:

            def abort(_: object) -> trio.lowlevel.Abort:
                self._task = None
                return trio.lowlevel.Abort.SUCCEEDED

            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(abort)
        assert self.reply is not None
        return self.reply


class CommitEvent:
    """Wakes a task when an offset is committed, or says why it may never be."""

    __slots__ = ("error_code", "event")

    def __init__(self) -> None:
        self.error_code = ErrorCode.NONE
        self.event = trio.Event()

    def settle(self, error_code: ErrorCode) -> None:
        """Called by the partition."""
        self.error_code = error_code
        self.event.set()


class _Write(Generic[ShardT]):
    """One append of a shard that is not committed yet."""

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
        """The write is committed, or those who wait should hear that it may never be."""
        shard, now = self._shard, self._runtime.now()
        if error_code is ErrorCode.NONE:
            effects = shard.committed(self._write_id, now)
        else:
            effects = shard.append_failed(self._write_id, error_code, now)
            if error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                self._partition.wait_for_commit(self, self._end_offset)
        self._runtime.carry_out(self._partition.index, effects)


class ShardRuntime(Generic[ShardT]):
    """The shards of one coordinator on this broker.

    Attributes:
        topic: where they keep their state.
        shards: by partition.
    """

    def __init__(self, broker: Broker, topic: InternalTopic, kind: ShardKind[ShardT]) -> None:
        self.topic = topic
        self.shards: dict[int, ShardT] = {}
        self._broker = broker
        self._kind = kind
        self._replaying: set[int] = set()
        self._nursery: trio.Nursery | None = None
        self._timer_scope: trio.CancelScope | None = None

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin to load the shards that this broker leads, and to watch the time."""
        self._nursery = nursery
        nursery.start_soon(self._watch_time)
        for number, shard in list(self.shards.items()):
            self._begin_to_load(self._broker.partitions[self.topic.name, number], shard)

    @property
    def nursery(self) -> trio.Nursery:
        """Where its tasks run."""
        assert self._nursery is not None
        return self._nursery

    def now(self) -> Now:
        """The time, for shards."""
        clock = self._broker.clock
        return Now(clock.monotonic(), clock.wall_ms())

    # --- which shard ---------------------------------------------------------------------------

    async def ensure_topic(self) -> None:
        """Create the internal topic if it is not there.

        Raises:
            PartitionError: it cannot be created.
            ChangeError: there is no controller, or it does not answer.
        """
        broker = self._broker
        if self.topic.name in broker.image.topics:
            return
        wanted = self.topic.creation(len(broker.placement().brokers))
        response = await broker.create_topics([wanted])
        refused = response.topics[0]
        if refused.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, refused.error_message)

    def partition_of(self, key: str) -> int:
        """The partition that keeps a key.

        Raises:
            PartitionError: NOT_COORDINATOR, there is no such topic yet.
        """
        topic = self._broker.image.topics.get(self.topic.name)
        if topic is None:
            raise PartitionError(ErrorCode.NOT_COORDINATOR)
        return partition_for(key, len(topic.partitions))

    def shard_of(self, key: str) -> tuple[int, ShardT]:
        """The shard that keeps a key, loaded or not, and its partition.

        Raises:
            PartitionError: NOT_COORDINATOR, it is not here.
        """
        number = self.partition_of(key)
        shard = self.shards.get(number)
        if shard is None:
            raise PartitionError(ErrorCode.NOT_COORDINATOR)
        return number, shard

    def loaded_shards(self) -> list[ShardT]:
        """Every shard that serves."""
        return [shard for shard in self.shards.values() if shard.error is ErrorCode.NONE]

    @property
    def is_loading(self) -> bool:
        """True while some shard is not loaded yet."""
        return any(shard.error is not ErrorCode.NONE for shard in self.shards.values())

    def is_replaying(self, number: int) -> bool:
        """Whether the shard of a partition has not seen all that is in it.

        Coordinators of transactions write markers to a partition as soon as it has a leader. What
        comes meanwhile is replayed behind what it is about, and must not be told before.
        """
        return number in self._replaying

    def is_surely_current(self, number: int) -> bool:
        """Whether no other broker can run the shard of a partition meanwhile.

        What is committed before it is told is the truth anyway. What is told from memory is not,
        when this broker was cut off from the others or paused, and another one leads: it knows
        nothing of what was decided since.
        """
        try:
            partition = self._broker.partition(self.topic.name, number)
        except PartitionError:
            return False
        return self._broker.lifecycle.has_lease and not partition.is_frozen

    # --- becoming and ceasing to be the coordinator ----------------------------------------------

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition of the topic now: load its shard."""
        number = partition.index
        if number in self.shards:
            # Its disk failed and is back. What was under way then is never committed to the old
            # shard, and may not be in the log.
            self.resign(number)
        shard = self._kind.new()
        self.shards[number] = shard
        self._replaying.add(number)
        if self._nursery is not None:
            self._begin_to_load(partition, shard)

    def resign(self, number: int) -> None:
        """Another broker leads, or nobody: NOT_COORDINATOR for all who wait."""
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
        """Replay a partition; one that cannot be read is offline, and loaded when it is back."""
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
        """Replay batches, letting others run every now and then; who leads may change then."""
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
        """Do what a shard wants, in order; followers hear of it in the same call."""
        with self._broker.replicas.server.telling_followers:
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
            partition = self._broker.partition(self.topic.name, number)
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
        if partition.log.high_watermark >= end_offset:
            self.carry_out(number, shard.committed(effect.write_id, now))
            return
        write = _Write(self, shard, effect.write_id, partition, end_offset)
        partition.wait_for_commit(write, end_offset)
        if partition.topic.is_fsync_acked:
            self.nursery.start_soon(self._sync, partition, end_offset)

    async def _sync(self, partition: Partition, offset: int) -> None:
        try:
            await self._broker.make_durable(partition, offset)
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
