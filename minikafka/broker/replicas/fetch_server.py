"""The leader's side of replica fetch: what it remembers of followers, and when it answers them.

A follower sends one request at a time to each leader, and the leader answers when it has something
to report or the wait is over. Both sides remember the partitions in between (a *session*), so a
request lists only the positions that changed and an answer only the partitions with updates.

- A *slot* is the follower's number for a partition, for as long as it fetches it from this leader.
- The first request of a session has number 0. A number out of sequence ends the session; the
  follower begins another.
- A position holds until the follower sends another. After an update with an error or a diverging
  epoch, the leader sends nothing for that slot until the follower sends its position again.
- The leader never repeats what it sent: the next position says what became of it.
- High watermarks travel with records, and on their own when the wait is over (immediately when
  consumers may read from followers, KIP-392).
- ``fetch-wake`` (one way) ends the wait: the follower has new positions to send.
- A position with a leader epoch that this broker does not know yet waits for the metadata.

No task waits for a follower. A request is a plain call that answers immediately or leaves its
session open. An append marks the sessions that have updates, and one task answers them in the same
turn of the event loop, so that everything appended in that turn goes out together. An append that
waits for the high watermark, as Produce with acks=all does, does not wait for that task: with
`follower_batch`, answers go out when the block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import trio

from ...protocol.errors import ErrorCode
from ...replication import ReplicaFetchRefused, find_divergence
from ...replication.progress import UNKNOWN_OFFSET
from ...storage.errors import LogError
from ...storage.log import Log
from ..rpc.codec import Respond
from ..rpc.identity import Hello
from ..rpc.operations import (
    REPLICA_FETCH_OK,
    REPLICA_SESSION_LOST,
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaFetchWake,
    ReplicaPosition,
    ReplicaUpdate,
)
from ..settings.effective import MetadataView
from ..settings.node import Node
from ..transport.transport import SENDFILE_SIZE_BYTES_MIN, FilePayload
from .index import PartitionIndex
from .partition import Partition
from .throttle import Throttle

PARTITIONS_PER_SESSION_MAX = 200_000
UPDATES_PER_ANSWER_MAX = 10_000

_Records = FilePayload | bytes
_LOST = ReplicaFetchAnswer(REPLICA_SESSION_LOST)


class _Answer:
    """An answer that is being put together.

    Attributes:
        updates: of partitions.
        sent: the partitions in it that have records.
        attachments: their records.
        size_bytes: of all records.
        is_full: nothing more fits.
        is_urgent: it has updates other than records, which are not held back for min_bytes.
    """

    __slots__ = (
        "_max_bytes",
        "_partition_max_bytes",
        "attachments",
        "is_full",
        "is_urgent",
        "sent",
        "size_bytes",
        "updates",
    )

    def __init__(self, max_bytes: int, partition_max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self.updates: list[ReplicaUpdate] = []
        self.sent: list[_SessionPartition] = []
        self.attachments: list[_Records] = []
        self.size_bytes = 0
        self.is_full = False
        self.is_urgent = False

    @property
    def room_bytes(self) -> int:
        """How many bytes of one more partition fit."""
        return max(0, min(self._partition_max_bytes, self._max_bytes - self.size_bytes))

    def is_enough(self, min_bytes: int) -> bool:
        return self.is_full or self.is_urgent or self.size_bytes >= min_bytes

    def add(self, update: ReplicaUpdate) -> None:
        """Report something other than records."""
        self.updates.append(update)
        self.is_urgent = True
        if len(self.updates) >= UPDATES_PER_ANSWER_MAX:
            self.is_full = True

    def add_records(self, one: _SessionPartition, update: ReplicaUpdate, records: _Records) -> None:
        self.updates.append(update)
        self.sent.append(one)
        self.attachments.append(records)
        self.size_bytes += len(records)
        if len(self.updates) >= UPDATES_PER_ANSWER_MAX or self.size_bytes >= self._max_bytes:
            self.is_full = True

    def emptied(self) -> _Answer:
        """Take back the records, too few to be sent; returns an empty answer."""
        for one in self.sent:
            one.take_back()
        return _Answer(self._max_bytes, self._partition_max_bytes)

    def refuse(self, slot: int, error_code: int, start: int = -1, end: int = -1) -> None:
        """Report an error, with the offsets at which the log starts and ends if that matters."""
        self.add(ReplicaUpdate(slot, int(error_code), -1, start, end, -1, -1, False))


class _SessionPartition:
    """One partition in a session.

    Attributes:
        position: where the follower waits.
        partition: set when the position was accepted.
        is_open: the follower waits for records; False from when some were sent until its next
            position.
        sent_high_watermark: the last one that the follower got.
        sent_log_start: the last log start offset that it got.
    """

    __slots__ = (
        "_session",
        "is_open",
        "partition",
        "position",
        "sent_high_watermark",
        "sent_log_start",
    )

    def __init__(self, session: _Session, position: ReplicaPosition) -> None:
        self._session = session
        self.position = position
        self.partition: Partition | None = None
        self.is_open = False
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    def notify(self, partition: Partition) -> None:
        """The partition has records, or another role."""
        del partition
        if self.is_open:
            session = self._session
            session.fresh[self] = None
            if session.respond is not None:
                session.on_ready(session)

    def take_back(self) -> None:
        """An answer with this partition's records was not sent after all."""
        self.is_open = True
        self.sent_high_watermark = self.sent_log_start = -1
        self._session.fresh[self] = None

    def has_moved(self, log: Log) -> bool:
        """Whether the follower does not know the high watermark, or where the log starts."""
        return (
            log.high_watermark != self.sent_high_watermark
            or log.log_start_offset != self.sent_log_start
        )

    def attach(self, partition: Partition) -> None:
        """Wait for records of a partition."""
        if self.partition is not partition:
            self.detach()
            self.partition = partition
            partition.fetchers[self] = None

    def detach(self) -> None:
        if self.partition is not None:
            self.partition.fetchers.pop(self, None)
            self.partition = None

    def close(self) -> None:
        """Send nothing until the follower's next position."""
        self.detach()
        self.is_open = False


class _Session:
    """What this leader remembers of one follower.

    Attributes:
        partitions: by slot.
        fresh: those that may have updates, the oldest first.
        unknown: those whose positions are ahead of this broker's metadata.
        behind: those whose high watermark the follower may not know.
        delayed: those that are throttled, and until when.
        respond: answers the open request, None when there is none.
        deadline: when its wait is over.
        min_bytes: what it waits for.
        answer: the answer to it so far.
    """

    __slots__ = (
        "answer",
        "behind",
        "broker_epoch",
        "deadline",
        "delayed",
        "fresh",
        "min_bytes",
        "next_number",
        "node_id",
        "on_ready",
        "partitions",
        "respond",
        "session_id",
        "unknown",
    )

    def __init__(self, node_id: int, session_id: int, on_ready: Callable[[_Session], None]) -> None:
        self.node_id = node_id
        self.session_id = session_id
        self.on_ready = on_ready
        self.next_number = 0
        self.broker_epoch = -1
        self.partitions: dict[int, _SessionPartition] = {}
        self.fresh: dict[_SessionPartition, None] = {}
        self.unknown: dict[_SessionPartition, None] = {}
        self.behind: dict[_SessionPartition, None] = {}
        self.delayed: dict[_SessionPartition, float] = {}
        self.respond: Respond[ReplicaFetchAnswer] | None = None
        self.deadline = 0.0
        self.min_bytes = 1
        self.answer = _Answer(0, 0)

    def send(self) -> None:
        """Answer the open request with what there is."""
        respond, self.respond = self.respond, None
        if respond is not None:
            answer = self.answer
            respond(ReplicaFetchAnswer(REPLICA_FETCH_OK, tuple(answer.updates)), answer.attachments)

    def forget(self, slot: int) -> None:
        """The follower does not fetch a partition from here any more."""
        one = self.partitions.pop(slot, None)
        if one is not None:
            one.detach()
            self.fresh.pop(one, None)
            self.unknown.pop(one, None)
            self.behind.pop(one, None)
            self.delayed.pop(one, None)

    def end(self) -> None:
        """Forget everything; an open request is answered with "session lost"."""
        for slot in list(self.partitions):
            self.forget(slot)
        self.next_number = -1
        respond, self.respond = self.respond, None
        if respond is not None:
            respond(_LOST, ())

    def next_deadline(self) -> float:
        times = [*self.delayed.values()]
        if self.respond is not None:
            times.append(self.deadline)
        return min(times, default=float("inf"))


class _FollowerBatch:
    """A block of appends; when the outermost one ends, followers are answered in the same call."""

    __slots__ = ("_depth", "_flush")

    def __init__(self, flush: Callable[[], None]) -> None:
        self._depth = 0
        self._flush = flush

    def __bool__(self) -> bool:
        """Whether such a block is being executed."""
        return self._depth > 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._flush()


class _LastRead(NamedTuple):
    """Everything from an offset to the end of a log.

    ``cut_count`` tells whether the log was truncated since.
    """

    log: Log | None
    cut_count: int
    offset: int
    end_offset: int
    records: bytes


class FetchServer:
    """Answers the fetches of all followers.

    Attributes:
        follower_batch: `with` it, followers get what is appended inside as soon as the block ends;
            nothing may be awaited in it.
    """

    def __init__(
        self, node: Node, metadata: MetadataView, index: PartitionIndex, rate_bytes: float
    ) -> None:
        """Begin; ``rate_bytes`` is leader.replication.throttled.rate, see `set_rate`."""
        self._node_id = node.node_id
        self._metadata = metadata
        self._index = index
        self._throttle = Throttle(rate_bytes)
        self._sessions: dict[int, _Session] = {}
        self._ready: dict[_Session, None] = {}
        self._sleeper: trio.lowlevel.Task | None = None
        self._timer_at = float("inf")
        self._timer_scope: trio.CancelScope | None = None
        self._last_read = _LastRead(None, 0, 0, 0, b"")
        self.follower_batch = _FollowerBatch(self.flush)

    # --- requests ------------------------------------------------------------------------------

    def believes(self, hello: Hello) -> bool:
        """Whether a process is the one that is registered as the broker that it says it is.

        What a follower says about its position moves the high watermark, so another process with
        its number, or an earlier one whose messages come late, must not speak for it.
        """
        broker = self._metadata.image.brokers.get(hello.node_id)
        return broker is not None and broker.incarnation_id == hello.incarnation

    def fetch(
        self,
        node_id: int,
        request: ReplicaFetch,
        attachments: Sequence[memoryview],
        respond: Respond[ReplicaFetchAnswer],
    ) -> None:
        """Answer a follower, now or when there is something to report."""
        del attachments
        deadline = trio.current_time() + request.max_wait_ms / 1000
        session = self._session(node_id, request.session_id, request.number)
        if session is None:
            respond(_LOST, ())
            return
        session.broker_epoch = request.broker_epoch
        session.deadline = deadline
        session.min_bytes = request.min_bytes
        session.answer = answer = _Answer(request.max_bytes, request.partition_max_bytes)
        for slot in request.failed:
            self._log_failed(session, slot)
        for slot in request.forgotten:
            session.forget(slot)
        for position in request.positions:
            self._take_position(session, position, answer)
        if session.next_number != request.number + 1:  # ended by what the positions caused
            respond(_LOST, ())
            return
        session.respond = respond
        if not self._answer(session):
            self._set_timer(deadline)

    def fetch_wake(
        self, node_id: int, message: ReplicaFetchWake, attachments: Sequence[memoryview]
    ) -> None:
        """End a follower's wait."""
        del attachments
        session = self._sessions.get(node_id)
        if session is not None and message.session_id == session.session_id:
            session.send()

    def forget(self, node_id: int) -> None:
        """End a follower's session."""
        session = self._sessions.pop(node_id, None)
        if session is not None:
            self._ready.pop(session, None)
            session.end()

    def _session(self, node_id: int, session_id: int, number: int) -> _Session | None:
        session = self._sessions.get(node_id)
        if number == 0:
            self.forget(node_id)
            session = self._sessions[node_id] = _Session(node_id, session_id, self._on_ready)
        elif session is None or session.session_id != session_id or session.next_number != number:
            return None
        session.next_number = number + 1
        return session

    # --- changes from outside ------------------------------------------------------------------

    @property
    def waiting_for_metadata(self) -> int:
        """How many positions are ahead of this broker's metadata."""
        return sum(len(session.unknown) for session in self._sessions.values())

    def metadata_changed(self) -> None:
        """Look again at positions that were ahead of the metadata."""
        for session in self._sessions.values():
            if session.unknown:
                session.fresh |= session.unknown
                if session.respond is not None:
                    self._on_ready(session)

    def set_rate(self, rate_bytes: float) -> None:
        """Bytes per second for throttled replicas (leader.replication.throttled.rate)."""
        if self._throttle.set_rate(rate_bytes):
            for session in self._sessions.values():
                session.fresh |= dict.fromkeys(session.delayed)
                session.delayed.clear()
                if session.respond is not None:
                    self._on_ready(session)

    # --- positions -----------------------------------------------------------------------------

    def _take_position(self, session: _Session, position: ReplicaPosition, answer: _Answer) -> None:
        slot = position.slot
        one = session.partitions.get(slot)
        if one is None:
            if len(session.partitions) >= PARTITIONS_PER_SESSION_MAX:
                answer.refuse(slot, ErrorCode.UNKNOWN_TOPIC_ID)
                return
            one = session.partitions[slot] = _SessionPartition(session, position)
        one.position = position
        self._accept(session, one, answer)

    @staticmethod
    def _log_failed(session: _Session, slot: int) -> None:
        """A follower's log failed: as if it had lost everything, so it leaves the ISR now."""
        one = session.partitions.get(slot)
        partition = None if one is None else one.partition
        if one is not None and partition is not None and partition.is_leader:
            start = one.position.log_start_offset
            with suppress(ReplicaFetchRefused):  # then it is not a replica any more
                partition.follower_fetched(
                    session.node_id, session.broker_epoch, UNKNOWN_OFFSET, start
                )

    def _accept(self, session: _Session, one: _SessionPartition, answer: _Answer) -> None:
        """Compare a position with the log: count it as progress, or report what is wrong."""
        position = one.position
        session.unknown.pop(one, None)
        session.fresh.pop(one, None)
        session.behind.pop(one, None)
        one.is_open = True
        partition = one.partition
        if (
            partition is None
            or not partition.is_leader
            or partition.leader_epoch != position.leader_epoch
            or partition.log.is_offline is not None
        ):
            one.detach()
            partition = self._find(session, one, answer)
            if partition is None:
                return
        log = partition.log
        try:
            diverging = None
            if (
                position.last_fetched_epoch != log.leader_epochs.latest_epoch
                or not log.log_start_offset <= position.fetch_offset <= log.log_end_offset
            ):
                diverging = find_divergence(
                    log,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                )
            if diverging is not None:
                one.close()
                offsets = (log.high_watermark, log.log_start_offset, log.log_end_offset)
                answer.add(ReplicaUpdate(position.slot, 0, *offsets, *diverging, False))
                return
            one.attach(partition)
            partition.follower_fetched(
                session.node_id,
                session.broker_epoch,
                position.fetch_offset,
                position.log_start_offset,
            )
        except (ReplicaFetchRefused, LogError) as error:
            one.close()
            answer.refuse(position.slot, error.error_code, log.log_start_offset, log.log_end_offset)
            return
        if position.fetch_offset < log.log_end_offset:
            session.fresh[one] = None
        elif one.has_moved(log) or log.high_watermark < log.log_end_offset:
            session.behind[one] = None

    def _find(self, session: _Session, one: _SessionPartition, answer: _Answer) -> Partition | None:
        """The partition that a position means, if this broker leads it in that epoch."""
        position = one.position
        image = self._metadata.image.partition(position.topic_id, position.partition)
        if image is None or position.leader_epoch > image.leader_epoch:
            session.unknown[one] = None
            return None
        partition = self._index.by_id(position.topic_id, position.partition)
        refusal: ErrorCode | None = None
        if position.leader_epoch < image.leader_epoch:
            refusal = ErrorCode.FENCED_LEADER_EPOCH
        elif image.leader != self._node_id:
            refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif partition is not None and partition.log.is_offline is not None:
            refusal = ErrorCode.KAFKA_STORAGE_ERROR
        if refusal is not None:
            one.close()
            answer.refuse(position.slot, refusal)
            return None
        if (
            partition is None
            or not partition.is_leader
            or partition.leader_epoch != position.leader_epoch
        ):
            session.unknown[one] = None  # the metadata is just being applied
            return None
        return partition

    # --- answers -------------------------------------------------------------------------------

    def _collect(self, session: _Session, answer: _Answer) -> None:
        """Put the updates of a session into an answer, as far as there is room."""
        for one in list(session.fresh):
            if answer.is_full:
                return
            if not one.is_open:
                del session.fresh[one]
                continue
            partition = one.partition
            if (
                partition is None
                or not partition.is_leader
                or partition.leader_epoch != one.position.leader_epoch
            ):
                self._accept(session, one, answer)
                partition = one.partition
                if partition is None or one not in session.fresh:
                    continue
            del session.fresh[one]
            self._read(session, one, partition, answer)

    def _read(
        self, session: _Session, one: _SessionPartition, partition: Partition, answer: _Answer
    ) -> None:
        log, position = partition.log, one.position
        is_throttled = bool(partition.topic.throttled_at_leader) and _is_throttled(
            session, partition
        )
        if is_throttled:
            now = trio.current_time()
            wait_s = self._throttle.wait_s(now)
            if wait_s:
                session.delayed[one] = now + wait_s
                self._set_timer(now + wait_s)
                return
        try:
            records = self._records(log, position.fetch_offset, answer)
        except LogError as error:
            one.close()
            answer.refuse(position.slot, error.error_code, log.log_start_offset, log.log_end_offset)
            return
        if records is not None:
            offsets = (log.high_watermark, log.log_start_offset, log.log_end_offset)
            update = ReplicaUpdate(position.slot, 0, *offsets, -1, -1, True)
            answer.add_records(one, update, records)
            one.is_open = False
            one.sent_high_watermark, one.sent_log_start = offsets[:2]
            session.behind[one] = None
            if is_throttled:
                self._throttle.passed(len(records), trio.current_time())
        elif position.fetch_offset < log.log_end_offset:
            session.fresh[one] = None  # there was no room for it; it is first the next time
            answer.is_full = True
        elif one.has_moved(log):
            _add_offsets(session, one, log, answer)

    def _records(self, log: Log, offset: int, answer: _Answer) -> _Records | None:
        """The records from an offset on, as far as there is room for them.

        Followers in sync ask for the same records one after the other, so a small read is kept for
        the next one.

        Raises:
            LogError: the log does not have the offset, or the disk failed.
        """
        last, end_offset = self._last_read, log.log_end_offset
        if (
            last.log is log
            and last.cut_count == log.cut_count
            and last.offset == offset
            and last.end_offset == end_offset
            and len(last.records) <= answer.room_bytes
            and log.is_offline is None
        ):
            return last.records
        read = log.read(
            offset,
            size_bytes_max=answer.room_bytes,
            upper_bound_offset=end_offset,
            minimum_one_batch=not answer.size_bytes,
        )
        found = read.records
        if found is None:
            return None
        if found.size_bytes >= SENDFILE_SIZE_BYTES_MIN:
            return FilePayload(found)
        try:
            records = found.read()
        except OSError as error:
            raise log.fail(error) from error
        if read.next_offset == end_offset:
            self._last_read = _LastRead(log, log.cut_count, offset, end_offset, records)
        return records

    @staticmethod
    def _collect_high_watermarks(session: _Session, answer: _Answer) -> None:
        """The wait is over: report high watermarks that have not travelled with records."""
        for one in list(session.behind):
            if len(answer.updates) >= UPDATES_PER_ANSWER_MAX:
                return
            partition = one.partition
            del session.behind[one]
            if partition is None or not partition.is_leader or one in session.fresh:
                continue
            log = partition.log
            if one.has_moved(log):
                _add_offsets(session, one, log, answer)
            elif log.high_watermark < log.log_end_offset:
                session.behind[one] = None

    # --- when to answer ------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer waiting followers, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_deadlines)
            while True:
                if not self._ready:
                    self._sleeper = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._abort_sleep)
                self.flush()

    def _abort_sleep(self, _: object) -> trio.lowlevel.Abort:
        self._sleeper = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _on_ready(self, session: _Session) -> None:
        """A session has updates and an open request."""
        self._ready[session] = None
        if self._sleeper is not None and not self.follower_batch:
            trio.lowlevel.reschedule(self._sleeper)
            self._sleeper = None

    def flush(self) -> None:
        """Answer all sessions that have updates."""
        ready, self._ready = self._ready, {}
        for session in ready:
            if session.respond is not None:
                self._answer(session)

    def _answer(self, session: _Session) -> bool:
        """Answer if there is enough to report; returns whether."""
        answer = session.answer
        self._collect(session, answer)
        if not answer.is_enough(session.min_bytes):
            if answer.sent:
                session.answer = answer.emptied()
            return False
        session.send()
        return True

    async def _watch_deadlines(self) -> None:
        """Answer requests whose wait is over, and let throttled replicas go on."""
        while True:
            deadlines = (session.next_deadline() for session in self._sessions.values())
            self._timer_at = min(deadlines, default=float("inf"))
            with trio.CancelScope(deadline=self._timer_at) as self._timer_scope:
                await trio.sleep_forever()
            now = trio.current_time()
            for session in list(self._sessions.values()):
                if session.delayed:
                    due = [one for one, until in session.delayed.items() if until <= now]
                    for one in due:
                        del session.delayed[one]
                        session.fresh[one] = None
                    if due and session.respond is not None:
                        self._answer(session)
                if session.respond is not None and session.deadline <= now:
                    self._collect(session, session.answer)
                    self._collect_high_watermarks(session, session.answer)
                    session.send()

    def _set_timer(self, at: float) -> None:
        if at < self._timer_at:
            self._timer_at = at
            if self._timer_scope is not None:
                self._timer_scope.deadline = at


def _is_throttled(session: _Session, partition: Partition) -> bool:
    """Whether a follower is slowed down; those in sync never are."""
    topic, leader = partition.topic, partition.leader
    return (
        leader is not None
        and session.node_id not in leader.isr.isr
        and topic.is_throttled(topic.throttled_at_leader, partition.index, session.node_id)
    )


def _add_offsets(session: _Session, one: _SessionPartition, log: Log, answer: _Answer) -> None:
    """Report a high watermark and where the log starts, without records."""
    offsets = (log.high_watermark, log.log_start_offset, log.log_end_offset)
    answer.add(ReplicaUpdate(one.position.slot, 0, *offsets, -1, -1, False))
    one.sent_high_watermark, one.sent_log_start = offsets[:2]
    if log.high_watermark < log.log_end_offset:
        session.behind[one] = None
