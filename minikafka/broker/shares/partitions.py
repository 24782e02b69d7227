"""Runs the share-partitions of the partitions that this broker leads.

A share-partition is loaded from the share coordinator when a member first asks for it, and carries
the leader epoch and the state epoch of that moment. When the broker no longer leads the partition
in that epoch, or the coordinator says that another leader or an administrator has taken over, it is
dropped: members are told, and the next request loads it again, where there is something to load.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import trio

from ...coordinator.share.commands import Read, ShareStateReply, Write
from ...coordinator.share.records import SharePartitionKey
from ...coordinator.share.share_partition import (
    Acknowledged,
    AcknowledgementBatch,
    Acquired,
    Available,
    DeadLetter,
    Effect,
    Limits,
    Persist,
    SharePartition,
)
from ...protocol.errors import ErrorCode
from ...storage.errors import LogError
from ...storage.log import Log
from ..control.metadata_store import MetadataStore
from ..coordinators.runtime import PendingReply
from ..coordinators.share_state import ShareStateService
from ..replicas.manager import ReplicaManager
from ..replicas.partition import Partition, PartitionError
from ..settings.effective import EffectiveSettings
from ..system.clock import Clock
from .reading import read_batches
from .sessions import ShareSession, ShareSessions

logger = logging.getLogger(__name__)

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
_READ_COMMITTED: Final = "read_committed"

_LOAD_ERRORS: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # Clients ask again after this one; they do not know coordinators of share-partitions.
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_WRITE_ERRORS: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_TAKEN_OVER: Final = frozenset(
    {
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class ShareWaiter(Protocol):
    """A fetch that waits for something to acquire."""

    def wake(self) -> None:
        """Called on the event loop, right after it happened; must not wait or raise."""
        ...


class DeadLetters(Protocol):
    """Writes dead letters; see `dead_letters.DeadLetterService`."""

    def topic_of(self, group_id: str) -> str:
        """The topic for the dead letters of a group; empty if it has none."""
        ...

    async def write(
        self, group_id: str, partition: Partition, letters: Sequence[DeadLetter]
    ) -> None:
        """Write letters about records of a partition, or log why that is impossible."""
        ...


class ShareSettings(NamedTuple):
    """The settings of a share group.

    Attributes:
        auto_offset_reset: ``share.auto.offset.reset``: latest, earliest, or by_duration and an
            ISO 8601 duration.
        is_committed: ``share.isolation.level`` is read_committed.
        may_renew: ``share.renew.acknowledge.enable``.
    """

    limits: Limits
    auto_offset_reset: str = LATEST
    is_committed: bool = False
    may_renew: bool = True


class RunningShare:
    """A share-partition that is loaded, or about to be.

    Attributes:
        leader_epoch: in which this broker leads the partition.
        state_epoch: of the state that was loaded.
        waiters: fetches to be woken when something can be acquired.
        error_code: why it could not be loaded, or was dropped.
        letters: dead letters that nobody writes yet. is_writing_letters: others are being written.
    """

    __slots__ = (
        "_machine",
        "error_code",
        "is_writing_letters",
        "key",
        "leader_epoch",
        "letters",
        "loaded",
        "partition",
        "settings",
        "state_epoch",
        "waiters",
    )

    def __init__(
        self, key: SharePartitionKey, partition: Partition, settings: ShareSettings
    ) -> None:
        self.key = key
        self.partition = partition
        self.settings = settings
        self.leader_epoch = partition.leader_epoch
        self.state_epoch = 0
        self.waiters: dict[ShareWaiter, None] = {}
        self.loaded = trio.Event()
        self.error_code = ErrorCode.NONE
        self.letters: list[DeadLetter] = []
        self.is_writing_letters = False
        self._machine: SharePartition | None = None

    @property
    def machine(self) -> SharePartition:
        assert self._machine is not None
        return self._machine

    def start(self, machine: SharePartition, state_epoch: int) -> None:
        self._machine, self.state_epoch = machine, state_epoch

    @property
    def is_loaded(self) -> bool:
        return self._machine is not None and self.error_code is ErrorCode.NONE

    @property
    def is_current(self) -> bool:
        """This broker still leads the partition as it did when this was loaded."""
        partition = self.partition
        return (
            self.error_code is ErrorCode.NONE
            and partition.is_leader
            and partition.leader_epoch == self.leader_epoch
        )

    def wake(self) -> None:
        for waiter in list(self.waiters):
            waiter.wake()


class Taken(NamedTuple):
    """What a member acquired from one share-partition."""

    records: Any
    size_bytes: int
    acquired: list[Acquired]

    @property
    def record_count(self) -> int:
        return sum(one.last_offset - one.first_offset + 1 for one in self.acquired)


class Wanted(NamedTuple):
    """How much a fetch wants; see `SharePartition.acquire`."""

    records_max: int
    batch_size: int
    is_exact: bool
    size_bytes_max: int


class SharePartitionService:
    """All share-partitions of this broker, and the sessions of their readers."""

    def __init__(
        self,
        settings: EffectiveSettings,
        *,
        metadata: MetadataStore,
        replicas: ReplicaManager,
        share_state: ShareStateService,
        dead_letters: DeadLetters,
        clock: Clock,
    ) -> None:
        self.sessions = ShareSessions(settings.config.group_share_max_share_sessions)
        self._settings = settings
        self._metadata = metadata
        self._replicas = replicas
        self._share_state = share_state
        self._dead_letters = dead_letters
        self._clock = clock
        self._running: dict[SharePartitionKey, RunningShare] = {}
        self._nursery: trio.Nursery | None = None
        self._timer_scope: trio.CancelScope | None = None
        replicas.topic_removed.append(self._topic_removed)

    def start(self, nursery: trio.Nursery) -> None:
        """Start to run the timers."""
        self._nursery = nursery
        nursery.start_soon(self._watch_time)

    def settings_of(self, group_id: str) -> ShareSettings:
        """The settings of a share group."""
        integer = self._settings.group_integer
        limits = Limits(
            integer(group_id, "share.partition.max.record.locks"),
            integer(group_id, "share.delivery.count.limit"),
            integer(group_id, "share.record.lock.duration.ms"),
            bool(self._dead_letters.topic_of(group_id)),
        )
        value = self._settings.group_value
        return ShareSettings(
            limits,
            str(value(group_id, "share.auto.offset.reset")),
            is_committed=value(group_id, "share.isolation.level") == _READ_COMMITTED,
            may_renew=bool(value(group_id, "share.renew.acknowledge.enable")),
        )

    # --- finding and loading -------------------------------------------------------------------

    async def get(self, group_id: str, topic_id: bytes, index: int) -> RunningShare:
        """A share-partition of a partition that this broker leads, loaded.

        Raises:
            PartitionError: this broker does not lead it, its group has no state for it, or the
                state cannot be had at the moment.
        """
        topic = self._metadata.image.topics_by_id.get(topic_id)
        if topic is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._replicas.index.find(topic.name, index)
        key = SharePartitionKey(group_id, topic_id, index)
        running = self._running.get(key)
        if running is not None and (running.partition is not partition or not running.is_current):
            self._drop(running, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            running = None
        if running is None:
            running = self._running[key] = RunningShare(key, partition, self.settings_of(group_id))
            assert self._nursery is not None
            self._nursery.start_soon(self._load, running)
        await running.loaded.wait()
        if running.error_code is not ErrorCode.NONE:
            raise PartitionError(running.error_code)
        self._configure(running)
        return running

    def _configure(self, running: RunningShare) -> None:
        """Let the settings of the group be in force that it has now."""
        running.settings = self.settings_of(running.key.group_id)
        effects = running.machine.set_limits(running.settings.limits)
        if effects:
            self._carry_out(running, effects)

    async def _load(self, running: RunningShare) -> None:
        try:
            reply = await self._share_state.ask(Read(running.key, running.leader_epoch))
            if reply.error_code is not ErrorCode.NONE:
                code = _LOAD_ERRORS.get(reply.error_code, reply.error_code)
                self._drop(running, code)
            elif not running.is_current:
                self._drop(running, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                self._begin(running, reply)
        except LogError as error:
            self._drop(running, ErrorCode(error.error_code))
        finally:
            running.loaded.set()

    def _begin(self, running: RunningShare, reply: ShareStateReply) -> None:
        log = running.partition.log
        start, is_new = reply.start_offset, reply.start_offset < 0
        if is_new:
            now_ms = self._clock.wall_ms()
            start = first_offset(log, running.settings.auto_offset_reset, now_ms)
        machine = SharePartition(
            start,
            reply.batches,
            log_end_offset=max(log.log_end_offset, log.high_watermark),
            limits=running.settings.limits,
        )
        machine.log_start_moved(log.log_start_offset)
        running.start(machine, reply.state_epoch)
        if is_new:  # what is produced from now on is not missed, whatever fails
            self._carry_out(running, machine.save_start())
        self._carry_out(running, machine.resume())

    def _drop(self, running: RunningShare, error_code: ErrorCode) -> None:
        """Forget a share-partition, and tell everybody who uses it."""
        if self._running.get(running.key) is running:
            del self._running[running.key]
        if running.error_code is not ErrorCode.NONE:
            return
        is_loaded = running.is_loaded
        running.error_code = error_code
        if is_loaded:
            self._carry_out(running, running.machine.closed(error_code))
        running.wake()

    def _topic_removed(self, name: str) -> None:
        for running in list(self._running.values()):
            if running.partition.topic.name == name:
                self._drop(running, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- what members do -----------------------------------------------------------------------

    def available_bytes(self, running: RunningShare, wanted: Wanted) -> int:
        """How much there is for a member, without acquiring it.

        Raises:
            LogError: the disk failed.
        """
        found = self._find(running, wanted)
        if found is None:
            return 0
        _, records = found
        return 0 if records.records is None else records.records.size_bytes

    def acquire(self, running: RunningShare, member_id: str, wanted: Wanted) -> Taken | None:
        """Give a member what there is.

        Raises:
            LogError: the disk failed.
        """
        while True:
            before = self._find(running, wanted)
            if before is None:
                return None
            offset, found = before
            machine = running.machine
            acquired = machine.acquire(
                member_id,
                offset,
                found.batches,
                records_max=wanted.records_max,
                batch_size=wanted.batch_size,
                is_exact=wanted.is_exact,
                now=self._clock.monotonic(),
            )
            if acquired:
                records = found.cut(acquired[0].first_offset, acquired[-1].last_offset)
                self._wake_timer(running)
                return Taken(records, records.size_bytes, acquired)
            if machine.fetch_offset() == offset:
                return None  # otherwise it has passed over markers, or what was aborted

    def _find(self, running: RunningShare, wanted: Wanted) -> Any:
        """Where the member would read, and what is there; None for nothing."""
        machine, log = running.machine, running.partition.log
        machine.log_start_moved(log.log_start_offset)
        offset = machine.fetch_offset()
        if offset is None:
            return None
        found = read_batches(
            log,
            offset,
            size_bytes_max=wanted.size_bytes_max,
            records_max=wanted.records_max,
            is_committed=running.settings.is_committed,
        )
        return None if found is None else (offset, found)

    def begin_acknowledge(
        self, running: RunningShare, member_id: str, batches: Sequence[AcknowledgementBatch]
    ) -> PendingReply:
        """Take a member's word about records; the reply is an `ErrorCode`."""
        pending = PendingReply()
        if not running.settings.may_renew and any(4 in batch.types for batch in batches):
            pending.put(ErrorCode.INVALID_RECORD_STATE)
            return pending
        now = self._clock.monotonic()
        self._carry_out(running, running.machine.acknowledge(member_id, batches, pending, now))
        return pending

    def release(self, session: ShareSession) -> None:
        """A session has ended: others may have what its member has acquired."""
        self.sessions.released(session)
        if self._nursery is None:
            return  # this broker stops
        for topic_id, index in session.partitions:
            key = SharePartitionKey(session.key.group_id, topic_id, index)
            running = self._running.get(key)
            if running is not None and running.is_loaded:
                self._configure(running)
                self._carry_out(running, running.machine.release_member(session.key.member_id))
                self._retire_if_unused(running)

    def connection_lost(self, session: ShareSession) -> None:
        """The connection has ended on which a session was opened, and so does the session."""
        if self.sessions.lost(session):
            self.release(session)

    def _retire_if_unused(self, running: RunningShare) -> None:
        """Forget a share-partition that nobody reads; it is loaded again with what is stored.

        An administrator may set another start while its group is empty. A write that is under way
        comes first: it must not overwrite what the next one to load it stores.
        """
        if (
            running.is_loaded
            and not running.machine.is_writing
            and not running.is_writing_letters
            and not self.sessions.has_group(running.key.group_id)
        ):
            self._drop(running, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- effects and time ------------------------------------------------------------------------

    def _carry_out(self, running: RunningShare, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist():
                    assert self._nursery is not None
                    self._nursery.start_soon(self._persist, running, effect)
                case Acknowledged(token, error_code):
                    assert isinstance(token, PendingReply)
                    token.put(error_code)
                case Available():
                    running.wake()
                case DeadLetter():
                    self._give_up(running, effect)
        self._wake_timer(running)

    def _give_up(self, running: RunningShare, letter: DeadLetter) -> None:
        running.letters.append(letter)
        if not running.is_writing_letters:
            running.is_writing_letters = True
            assert self._nursery is not None
            self._nursery.start_soon(self._write_letters, running)

    async def _write_letters(self, running: RunningShare) -> None:
        """Write the dead letters of a share-partition, also those that come meanwhile."""
        while running.letters and running.is_loaded:
            letters, running.letters = running.letters, []
            await self._dead_letters.write(running.key.group_id, running.partition, letters)
            for one in letters:
                if running.is_loaded:
                    machine = running.machine
                    effects = machine.dead_letters_written(one.first_offset, one.last_offset)
                    self._carry_out(running, effects)
        running.is_writing_letters = False
        self._retire_if_unused(running)

    async def _persist(self, running: RunningShare, change: Persist) -> None:
        reply = await self._share_state.ask(
            Write(
                running.key,
                running.state_epoch,
                running.leader_epoch,
                change.start_offset,
                change.delivery_complete_count,
                change.state_batches,
            )
        )
        if not running.is_loaded:
            return
        code = _WRITE_ERRORS.get(reply.error_code, reply.error_code)
        if reply.error_code in _TAKEN_OVER:
            logger.info("dropping share-partition %s: %s", running.key, reply.error_code.name)
            self._drop(running, code)
            return
        effects = running.machine.persisted(change.write_id, code, self._clock.monotonic())
        self._carry_out(running, effects)
        self._retire_if_unused(running)

    def _wake_timer(self, running: RunningShare) -> None:
        deadline = running.machine.deadline() if running.is_loaded else None
        if deadline is not None and self._timer_scope is not None:
            self._timer_scope.deadline = min(self._timer_scope.deadline, deadline)

    async def _watch_time(self) -> None:
        try:
            await self._expire_forever()
        finally:
            self._nursery = None  # connections may end later

    async def _expire_forever(self) -> None:
        while True:
            now = self._clock.monotonic()
            earliest = float("inf")
            for running in list(self._running.values()):
                if not running.is_loaded:
                    continue
                if not running.is_current:
                    self._drop(running, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    continue
                deadline = running.machine.deadline()
                if deadline is not None and now >= deadline:
                    self._configure(running)
                self._carry_out(running, running.machine.expire(now))
                deadline = running.machine.deadline()
                if deadline is not None:
                    earliest = min(earliest, deadline)
            with trio.CancelScope(deadline=earliest) as self._timer_scope:
                await trio.sleep_forever()


def first_offset(log: Log, auto_offset_reset: str, now_ms: int) -> int:
    """Where a share group begins that never read the partition.

    Raises:
        LogError: the disk failed.
    """
    if auto_offset_reset == EARLIEST:
        return log.log_start_offset
    if auto_offset_reset.startswith(BY_DURATION):
        from .durations import milliseconds_of

        duration_ms = milliseconds_of(auto_offset_reset.removeprefix(BY_DURATION))
        found = log.offset_for_timestamp(now_ms - duration_ms)
        if found is not None and found.offset < log.high_watermark:
            return found.offset
    return log.high_watermark
