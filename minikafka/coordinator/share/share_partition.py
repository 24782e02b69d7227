"""A share-partition: which records of a partition a share group has, and who works on them.

The leader of a partition runs one of these for each share group that reads it (KIP-932). Offsets
from `start_offset` up to, but not including, `next_offset` are *in flight*; below it everything is
done with, and from `next_offset` on nothing was read yet. In flight, every offset has a state:

============  =====================  ==============================================================
state         means                  leaves it
============  =====================  ==============================================================
AVAILABLE     nobody works on it     `acquire` ──► ACQUIRED, with one more delivery
ACQUIRED      a member has it, until accept ──► ACKNOWLEDGED; reject, or a gap ──► ARCHIVED;
              its lock runs out      release, lock timeout, end of the member's session
                                     ──► AVAILABLE, or ARCHIVED after its last delivery;
                                     renew ──► ACQUIRED, with another lock
ARCHIVING     never delivered again, its dead letter is written ──► ARCHIVED
              but a dead letter
              is missing
ACKNOWLEDGED  processed              terminal; at the start, the start moves past it
ARCHIVED      never delivered again  terminal; likewise
============  =====================  ==============================================================

Where a group has dead letters (KIP-1191), what is rejected or was delivered too often is ARCHIVING
first. The dead letter is written after that is stored, so that no other leader delivers the record
again, and a leader that loads it as ARCHIVING writes the dead letter once more.

What a member says takes effect when it is stored: until then a record is ACQUIRED with a *target*,
nobody else gets it and its lock does not run out. If it cannot be stored, the record stays ACQUIRED
and the member is told. What happens without a member's word (a lock that runs out, a session that
ends) takes effect immediately and is stored with the next write, since a leader that fails forgets
all locks anyway.

One write is under way at a time. It stores everything that was decided until it began, so that many
acknowledgements share a write.

Neighbouring offsets in the same situation are one *run*. Runs follow one another without holes: an
offset without a record (compacted away, a transaction marker, an aborted record) is ARCHIVED when
the log shows that. Splitting and joining runs is this file's only trick.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode


class RecordState(IntEnum):
    """The state of an offset; the numbers are those in stored state batches."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
_KEPT = TERMINAL | {RecordState.ARCHIVING}
"""States in which nobody gets a record any longer, whoever leads."""
SAVE_AGAIN_SECONDS = 1.0
"""After a write that failed, where nobody waits for the next one."""


class AcknowledgeType(IntEnum):
    """What a member says about a record that it acquired."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Limits(NamedTuple):
    """The settings of a share group that matter here.

    Attributes:
        record_locks_max: how many offsets may be in flight
            (``group.share.partition.max.record.locks``).
        delivery_count_max: how often a record is delivered (``group.share.delivery.count.limit``).
        lock_duration_ms: how long a member may work on a record before another gets it
            (``group.share.record.lock.duration.ms``).
        has_dead_letters: a dead letter is written about what is given up
            (``errors.deadletterqueue.topic.name``).
    """

    record_locks_max: int = 2000
    delivery_count_max: int = 5
    lock_duration_ms: int = 30_000
    has_dead_letters: bool = False


class StateBatch(NamedTuple):
    """Neighbouring offsets with the same state, as they are stored; both ends included."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


class LogBatch(NamedTuple):
    """The offsets of a record batch that was read from the log; both ends included.

    Attributes:
        has_records: False when consumers must not get it: a transaction marker, or an aborted
            batch.
    """

    first_offset: int
    last_offset: int
    has_records: bool = True


class AcknowledgementBatch(NamedTuple):
    """What a member says about offsets, both ends included: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Acquired(NamedTuple):
    """Offsets that a member got; both ends included."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Store this change of the share-partition's state, then call `SharePartition.persisted`.

    Attributes:
        state_batches: the offsets whose state changed; those below ``start_offset`` are left out.
        delivery_complete_count: how many offsets at or above the start are done with (KIP-1226).
    """

    write_id: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]
    delivery_complete_count: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Answer the acknowledgement with this token."""

    token: Hashable
    error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class Available:
    """Fetches that found nothing to acquire may now find something."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Write dead letters about these offsets (both included), then call `dead_letters_written`.

    Attributes:
        is_rejected: a member has rejected them; otherwise they were delivered too often.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    is_rejected: bool


Effect = Persist | Acknowledged | Available | DeadLetter


@dataclass(slots=True)
class _Run:
    """Neighbouring offsets in the same situation.

    Attributes:
        target: the state that a member decided, while that is being stored.
        write_id: the write that stores it; 0 until it begins.
        is_unsaved: it changed without a member's word, which no write has stored.
        is_rejected: a member has rejected it; for its dead letter.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = ""
    locked_until: float = 0.0
    target: RecordState | None = None
    write_id: int = 0
    is_unsaved: bool = False
    is_rejected: bool = False

    def is_like(self, other: _Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.target is other.target
            and self.write_id == other.write_id
            and self.is_unsaved == other.is_unsaved
            and self.is_rejected == other.is_rejected
            and self.member_id == other.member_id
            and self.locked_until == other.locked_until
        )

    def stored(self) -> StateBatch:
        """What to store; a delivery that has not ended is forgotten with the leader."""
        if self.target is not None:
            return StateBatch(self.first, self.last, self.target, self.delivery_count)
        if self.state is RecordState.ACQUIRED:
            state, count = RecordState.AVAILABLE, self.delivery_count - 1
            return StateBatch(self.first, self.last, state, count)
        return StateBatch(self.first, self.last, self.state, self.delivery_count)

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class _Lock(NamedTuple):
    """Who acquires, until when, and whether the member got nothing else so far."""

    member_id: str
    until: float
    is_alone: bool


_first = attrgetter("first")
_MINIMUM_ISOLATION_COUNT = 2


class SharePartition:
    """The state of one share-partition.

    Args:
        start_offset: the first offset that is not done with.
        state_batches: what is stored about offsets from there on.
        log_end_offset: nothing is known beyond it: the log may have lost records.
        limits: the group's settings.
    """

    def __init__(
        self,
        start_offset: int,
        state_batches: Iterable[StateBatch] = (),
        *,
        log_end_offset: int,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._runs: list[_Run] = []
        self._next_offset = min(start_offset, log_end_offset)
        for batch in sorted(state_batches):
            first = max(batch.first_offset, self._next_offset)
            last = min(batch.last_offset, log_end_offset - 1)
            if first > last:
                continue
            if first > self._next_offset:  # read before, but never acknowledged
                self._append(_Run(self._next_offset, first - 1, RecordState.AVAILABLE, 0))
            state = RecordState.AVAILABLE if batch.state not in _KEPT else batch.state
            self._append(_Run(first, last, state, batch.delivery_count))
        self._writing = 0
        self._last_write_id = 0
        self._saved_start = start_offset
        self._waiting: list[Hashable] = []
        self._in_write: list[Hashable] = []
        self._free_from = start_offset
        self._next_lock_timeout: float | None = None
        self._save_again_at: float | None = None
        self._effects: list[Effect] = []
        self._advance()

    # --- what it knows -------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """Everything below is done with."""
        return self._runs[0].first if self._runs else self._next_offset

    @property
    def next_offset(self) -> int:
        """From here on nothing was read yet."""
        return self._next_offset

    @property
    def is_writing(self) -> bool:
        """A `Persist` has not been reported as `persisted`."""
        return self._writing != 0

    def states(self) -> list[StateBatch]:
        """The state of every offset in flight."""
        return [
            StateBatch(run.first, run.last, run.state, run.delivery_count) for run in self._runs
        ]

    def fetch_offset(self) -> int | None:
        """Where to read next from the log; None while too many records are in flight."""
        for position in range(self._index(self._free_from), len(self._runs)):
            run = self._runs[position]
            if run.is_free:
                self._free_from = run.first
                return run.first
        self._free_from = self._next_offset
        return self._next_offset if self._room() > 0 else None

    def _room(self) -> int:
        return self._limits.record_locks_max - (self._next_offset - self.start_offset)

    # --- runs ----------------------------------------------------------------------------------

    def _index(self, offset: int) -> int:
        """The index of the run that has an offset, or of the first one after it."""
        index = bisect_right(self._runs, offset, key=_first) - 1
        if index >= 0 and self._runs[index].last >= offset:
            return index
        return index + 1

    def _append(self, run: _Run) -> None:
        self._runs.append(run)
        self._next_offset = run.last + 1

    def _cut(self, offset: int) -> int:
        """Let a run begin at this offset if one has it; returns its index."""
        index = self._index(offset)
        if index < len(self._runs) and self._runs[index].first < offset:
            run = self._runs[index]
            rest = _Run(
                offset,
                run.last,
                run.state,
                run.delivery_count,
                run.member_id,
                run.locked_until,
                run.target,
                run.write_id,
                run.is_unsaved,
                run.is_rejected,
            )
            run.last = offset - 1
            index += 1
            self._runs.insert(index, rest)
        return index

    def _between(self, first: int, last: int) -> list[_Run]:
        """The runs from first to last, cut at both ends."""
        begin = self._cut(first)
        return self._runs[begin : self._cut(last + 1)]

    def _join(self, first: int, last: int) -> None:
        """Join neighbours that are alike, from before the first to after the last."""
        begin = max(self._index(first) - 1, 0)
        end = min(self._index(last) + 2, len(self._runs))
        joined: list[_Run] = []
        for run in self._runs[begin:end]:
            if joined and joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs[begin:end] = joined

    def _join_all(self) -> None:
        if self._runs:
            self._join(self._runs[0].first, self._runs[-1].last)

    def _advance(self) -> None:
        """Forget what is done with at the start."""
        done = 0
        for run in self._runs:
            if run.state not in TERMINAL:
                break
            done += 1
        del self._runs[:done]

    def log_start_moved(self, offset: int) -> None:
        """The log now starts here: nobody gets what was below, or has to acknowledge it."""
        if offset <= self.start_offset:
            return
        if offset >= self._next_offset:
            self._runs.clear()
            self._next_offset = offset
        else:
            del self._runs[: self._cut(offset)]
        self._advance()

    # --- acquiring -----------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        batches: Sequence[LogBatch],
        *,
        records_max: int,
        batch_size: int,
        is_exact: bool,
        now: float,
    ) -> list[Acquired]:
        """Give a member records that were read from the log.

        Args:
            member_id: who gets them.
            fetch_offset: what `fetch_offset` said; the log was read from there.
            batches: what was found, in order.
            records_max: how many the member wants.
            batch_size: how many should be acknowledged together: the answer is cut accordingly,
                between record batches.
            is_exact: never exceed ``records_max`` (KIP-1206); otherwise the last record batch is
                acquired as a whole.
            now: monotonic seconds.

        Returns:
            What the member got, in order.
        """
        until = now + self._limits.lock_duration_ms / 1000
        given: list[Acquired] = []
        left = records_max
        position = max(fetch_offset, self.start_offset)
        for batch in batches:
            if left <= 0:
                break
            if batch.last_offset < position:
                continue
            if batch.first_offset > position:
                self._archive_hole(position, batch.first_offset - 1)
                position = batch.first_offset
            if not batch.has_records:
                self._archive_hole(position, batch.last_offset)
                position = batch.last_offset + 1
                continue
            limit = left if is_exact else batch.last_offset - position + 1
            lock = _Lock(member_id, until, is_alone=not given)
            pieces, is_isolating = self._acquire_from_batch(
                position, batch.last_offset, limit, lock
            )
            left -= sum(one.last_offset - one.first_offset + 1 for one in pieces)
            _collect(given, pieces, batch_size)
            if is_isolating or self._next_offset <= batch.last_offset:
                break  # the rest of the batch is left for the next fetch
            position = batch.last_offset + 1
        if given and (self._next_lock_timeout is None or until < self._next_lock_timeout):
            self._next_lock_timeout = until
        self._join_all()
        self._advance()
        return given

    def _acquire_from_batch(
        self, first: int, last: int, limit: int, lock: _Lock
    ) -> tuple[list[Acquired], bool]:
        """Acquire what is free from first to last; True if it must not be mixed with more."""
        given: list[Acquired] = []
        known_last = min(last, self._next_offset - 1)
        is_isolating = False
        for run in self._between(first, known_last) if first <= known_last else []:
            if not run.is_free:
                continue
            alone_max = self._isolated(run)
            if alone_max is not None and (given or not lock.is_alone):
                return given, True  # a suspicious record does not travel with others
            count = min(run.size, limit, run.size if alone_max is None else alone_max)
            if count <= 0:
                break
            if count < run.size:
                self._cut(run.first + count)
            run.state = RecordState.ACQUIRED
            run.delivery_count += 1
            run.member_id, run.locked_until = lock.member_id, lock.until
            given.append(Acquired(run.first, run.last, run.delivery_count))
            limit -= count
            if alone_max is not None:
                is_isolating = True
                break
        if not is_isolating and last >= self._next_offset and limit > 0 and self._room() > 0:
            begin = self._next_offset
            end = min(last, begin + limit - 1)
            self._append(_Run(begin, end, RecordState.ACQUIRED, 1, lock.member_id, lock.until))
            given.append(Acquired(begin, end, 1))
        return given, is_isolating

    def _isolated(self, run: _Run) -> int | None:
        """How many records of a run to deliver when it failed often; None for any number.

        A record that nobody can process takes its neighbours with it. So records that have used up
        half of their deliveries are delivered in smaller and smaller groups, in the end alone.
        """
        allowed = self._limits.delivery_count_max
        suspicious = max(_MINIMUM_ISOLATION_COUNT, (allowed + 1) // 2)
        if run.delivery_count < suspicious:
            return None
        if run.delivery_count >= allowed - 1:
            return 1
        return max(1, run.size >> (run.delivery_count - suspicious + 1))

    def _archive_hole(self, first: int, last: int) -> None:
        """The log has no records for consumers from first to last."""
        known_last = min(last, self._next_offset - 1)
        if first <= known_last:
            for run in self._between(first, known_last):
                if run.is_free:
                    run.state = RecordState.ARCHIVED
                    run.is_unsaved = True
        if last >= self._next_offset:
            self._append(_Run(self._next_offset, last, RecordState.ARCHIVED, 0, is_unsaved=True))
        self._advance()

    # --- acknowledging -------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], token: Hashable, now: float
    ) -> list[Effect]:
        """A member says what became of records: all of it takes effect, or nothing.

        The `Acknowledged` with the token is in this list or in a later one. The error is
        INVALID_RECORD_STATE when the member does not have all the records (any more), and
        INVALID_REQUEST for what no client should send.
        """
        self._time_out_locks(now)
        decisions: list[tuple[int, int, AcknowledgeType]] = []
        error = self._check(member_id, batches, decisions)
        if error is not ErrorCode.NONE:
            self._effects.append(Acknowledged(token, error))
            return self._settle()
        has_to_be_stored = False
        for first, last, kind in decisions:
            for run in self._between(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.locked_until = now + self._limits.lock_duration_ms / 1000
                    continue
                run.target, run.write_id = self._target(run, kind), 0
                has_to_be_stored = True
        if has_to_be_stored:
            self._waiting.append(token)
        else:
            self._effects.append(Acknowledged(token, ErrorCode.NONE))
        return self._settle()

    def _target(self, run: _Run, kind: AcknowledgeType) -> RecordState:
        match kind:
            case AcknowledgeType.ACCEPT:
                return RecordState.ACKNOWLEDGED
            case AcknowledgeType.RELEASE:
                return self._released_state(run)
            case AcknowledgeType.REJECT:
                run.is_rejected = self._limits.has_dead_letters
                return self._given_up_state
            case _:
                return RecordState.ARCHIVED

    @property
    def _given_up_state(self) -> RecordState:
        is_missed = self._limits.has_dead_letters
        return RecordState.ARCHIVING if is_missed else RecordState.ARCHIVED

    def _released_state(self, run: _Run) -> RecordState:
        if run.delivery_count >= self._limits.delivery_count_max:
            return self._given_up_state
        return RecordState.AVAILABLE

    def _check(
        self,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        decisions: list[tuple[int, int, AcknowledgeType]],
    ) -> ErrorCode:
        """Whether a member may say this; collects what there is to do."""
        start, previous_last = self.start_offset, -1
        for batch in batches:
            if not _is_well_formed(batch, previous_last):
                return ErrorCode.INVALID_REQUEST
            previous_last = batch.last_offset
            if batch.last_offset >= self._next_offset:
                return ErrorCode.INVALID_REQUEST  # never acquired by anybody
            if batch.last_offset < start:
                continue  # the log has lost them, or they were done with
            first = max(batch.first_offset, start)
            for index in range(self._index(first), self._index(batch.last_offset) + 1):
                run = self._runs[index]
                if (
                    run.state is not RecordState.ACQUIRED
                    or run.member_id != member_id
                    or run.target is not None
                ):
                    return ErrorCode.INVALID_RECORD_STATE
            decisions += _decisions(batch, first)
        return ErrorCode.NONE

    def release_member(self, member_id: str) -> list[Effect]:
        """The session of a member has ended: others may have what it did not acknowledge."""
        for run in self._runs:
            if run.member_id == member_id and run.target is None:
                self._release(run)
        return self._settle()

    def _release(self, run: _Run) -> None:
        run.state = self._released_state(run)
        run.member_id, run.locked_until = "", 0.0
        run.is_unsaved = True
        if run.is_free:
            self._freed(run)

    def _freed(self, run: _Run) -> None:
        self._free_from = min(self._free_from, run.first)
        if not any(isinstance(effect, Available) for effect in self._effects):
            self._effects.append(Available())

    def _settle(self) -> list[Effect]:
        had_room = self._room() > 0
        self._advance()
        self._join_all()
        if not had_room and self._room() > 0:
            self._effects.append(Available())
        self._flush()
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # --- time ----------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to call `expire`, in monotonic seconds; None while there is nothing to do."""
        times = (self._next_lock_timeout, self._save_again_at)
        return min((one for one in times if one is not None), default=None)

    def expire(self, now: float) -> list[Effect]:
        """Release what has been locked for too long; calling it early does nothing."""
        is_time_to_save = self._save_again_at is not None and now >= self._save_again_at
        if self._time_out_locks(now) or is_time_to_save:
            return self._settle()
        return []

    def _time_out_locks(self, now: float) -> bool:
        if self._next_lock_timeout is None or now < self._next_lock_timeout:
            return False
        earliest: float | None = None
        for run in self._runs:
            if run.state is not RecordState.ACQUIRED or run.target is not None:
                continue
            if run.locked_until <= now:
                self._release(run)
            elif earliest is None or run.locked_until < earliest:
                earliest = run.locked_until
        self._next_lock_timeout = earliest
        return True

    # --- storing -------------------------------------------------------------------------------

    def save_start(self) -> list[Effect]:
        """Store where the share-partition starts, although nothing was acknowledged yet."""
        self._saved_start = -1
        self._flush()
        return self._take_effects()

    def _flush(self) -> None:
        """Begin a write of everything that is decided, unless one is under way."""
        if self._writing:
            return
        self._save_again_at = None
        changed = [run for run in self._runs if run.target is not None or run.is_unsaved]
        start = self._start_after_write()
        if not changed and not self._waiting and start == self._saved_start:
            return
        self._last_write_id += 1
        self._writing = self._last_write_id
        self._in_write, self._waiting = self._waiting, []
        batches: list[StateBatch] = []
        done = 0
        for run in self._runs:
            state = run.state if run.target is None else run.target
            if run.first >= start and state in TERMINAL:
                done += run.size
        for run in changed:
            run.write_id, run.is_unsaved = self._writing, False
            if run.first >= start:
                _extend(batches, run.stored())
        self._saved_start = start
        self._effects.append(Persist(self._writing, start, tuple(batches), done))

    def _start_after_write(self) -> int:
        for run in self._runs:
            state = run.state if run.target is None else run.target
            if state not in TERMINAL:
                return run.first
        return self._next_offset

    def persisted(self, write_id: int, error_code: ErrorCode, now: float) -> list[Effect]:
        """A `Persist` is stored, or (with an error) may not be."""
        if write_id != self._writing:
            return []
        self._writing = 0
        is_stored = error_code is ErrorCode.NONE
        for run in self._runs:
            if run.write_id == write_id:
                self._end_write(run, is_stored=is_stored)
        if not is_stored:
            self._saved_start = -1
            self._next_lock_timeout = now  # locks may have run out in the meantime
            self._time_out_locks(now)
        self._effects += [Acknowledged(token, error_code) for token in self._in_write]
        self._in_write = []
        had_room = self._room() > 0
        self._advance()
        self._join_all()
        if not had_room and self._room() > 0:
            self._effects.append(Available())
        if is_stored or self._waiting:
            self._flush()
        elif any(run.is_unsaved and run.state is RecordState.ARCHIVING for run in self._runs):
            self._save_again_at = now + SAVE_AGAIN_SECONDS
        return self._take_effects()

    def _end_write(self, run: _Run, *, is_stored: bool) -> None:
        target, run.target, run.write_id = run.target, None, 0
        if target is None:
            run.is_unsaved = run.is_unsaved or not is_stored
        elif is_stored:
            run.state = target
            run.member_id, run.locked_until = "", 0.0
            if run.is_free:
                self._freed(run)
        if not is_stored:
            run.is_rejected = run.is_rejected and run.state is RecordState.ARCHIVING
        elif run.state is RecordState.ARCHIVING:
            self._effects.append(_dead_letter(run))

    # --- dead letters --------------------------------------------------------------------------

    def resume(self) -> list[Effect]:
        """Do what an earlier leader may not have done: dead letters, and giving up by settings.

        Why a record was given up is not stored; Kafka concludes it likewise.
        """
        self._give_up_exhausted()
        for run in self._runs:
            if run.state is RecordState.ARCHIVING and not run.is_unsaved:
                run.is_rejected = run.delivery_count < self._limits.delivery_count_max
                self._effects.append(_dead_letter(run))
        return self._settle()

    def dead_letters_written(self, first_offset: int, last_offset: int) -> list[Effect]:
        """The dead letters about these offsets are written, or cannot be."""
        for run in self._between(first_offset, last_offset):
            if run.state is RecordState.ARCHIVING:
                run.state, run.is_rejected = RecordState.ARCHIVED, False
                run.is_unsaved = True
        return self._settle()

    def set_limits(self, limits: Limits) -> list[Effect]:
        """Other settings are in force: what was delivered too often by now is given up."""
        if limits == self._limits:
            return []
        self._limits = limits
        self._give_up_exhausted()
        return self._settle()

    def _give_up_exhausted(self) -> None:
        for run in self._runs:
            if run.is_free and self._released_state(run) is not RecordState.AVAILABLE:
                run.state, run.is_unsaved = self._given_up_state, True

    def closed(self, error_code: ErrorCode) -> list[Effect]:
        """This broker no longer runs the share-partition: answer everybody."""
        tokens = [*self._in_write, *self._waiting]
        self._in_write, self._waiting = [], []
        self._runs.clear()
        self._next_lock_timeout = self._save_again_at = None
        return [*(Acknowledged(token, error_code) for token in tokens), Available()]


def _dead_letter(run: _Run) -> DeadLetter:
    return DeadLetter(run.first, run.last, run.delivery_count, run.is_rejected)


def _is_well_formed(batch: AcknowledgementBatch, previous_last: int) -> bool:
    count = batch.last_offset - batch.first_offset + 1
    return (
        batch.first_offset > previous_last
        and count > 0
        and len(batch.types) in (1, count)
        and all(AcknowledgeType.GAP <= one <= AcknowledgeType.RENEW for one in batch.types)
    )


def _decisions(batch: AcknowledgementBatch, first: int) -> list[tuple[int, int, AcknowledgeType]]:
    """The offsets of a batch from ``first`` on, neighbours of the same type together."""
    if len(batch.types) == 1:
        return [(first, batch.last_offset, AcknowledgeType(batch.types[0]))]
    found: list[tuple[int, int, AcknowledgeType]] = []
    for offset in range(first, batch.last_offset + 1):
        kind = batch.types[offset - batch.first_offset]
        if found and found[-1][2] == kind:
            found[-1] = (found[-1][0], offset, found[-1][2])
        else:
            found.append((offset, offset, AcknowledgeType(kind)))
    return found


def _collect(given: list[Acquired], pieces: list[Acquired], batch_size: int) -> None:
    """Add what was acquired from a record batch; small neighbours go together."""
    for piece in pieces:
        last = given[-1] if given else None
        if (
            last is not None
            and last.last_offset + 1 == piece.first_offset
            and last.delivery_count == piece.delivery_count
            and last.last_offset - last.first_offset + 1 < batch_size
        ):
            given[-1] = Acquired(last.first_offset, piece.last_offset, last.delivery_count)
        else:
            given.append(piece)


def _extend(batches: list[StateBatch], batch: StateBatch) -> None:
    last = batches[-1] if batches else None
    if last is not None and (last.last_offset + 1, *last[2:]) == (batch.first_offset, *batch[2:]):
        batches[-1] = last._replace(last_offset=batch.last_offset)
    else:
        batches.append(batch)
