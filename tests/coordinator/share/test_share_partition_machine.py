"""A share-partition does what a model with one entry for each record does, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minikafka.coordinator.share.share_partition import (
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    Limits,
    LogBatch,
    Persist,
    RecordState,
    SharePartition,
    StateBatch,
)
from minikafka.protocol.errors import ErrorCode
from tests.kit.examples import examples

LIMITS = Limits(record_locks_max=12, delivery_count_max=3, lock_duration_ms=10_000)
MEMBERS = st.sampled_from(["a", "b"])
TERMINAL = {RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}


@dataclass(frozen=True)
class Entry:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    until: float = 0.0
    target: RecordState | None = None


class SharePartitionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.log: list[LogBatch] = []
        self.log_end = 0
        self.log_start = 0
        self.share = SharePartition(0, log_end_offset=0, limits=LIMITS)
        self.model: dict[int, Entry] = {}
        """Every offset that was ever in flight."""
        self.stored: dict[int, tuple[RecordState, int]] = {}
        self.stored_start = 0
        self.write: Persist | None = None
        self.deciding: dict[int, set[int]] = {}
        """The offsets that each unanswered acknowledgement decides."""
        self.answers: dict[int, ErrorCode] = {}
        self.token = 0

    def carry_out(self, effects: list[object]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                assert self.write is None
                self.write = effect
            elif isinstance(effect, Acknowledged):
                assert isinstance(effect.token, int)
                assert effect.token not in self.answers
                self.answers[effect.token] = effect.error_code

    # --- the log -------------------------------------------------------------------------------

    @rule(
        sizes=st.lists(
            st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()), min_size=1, max_size=3
        )
    )
    def append(self, sizes: list[tuple[int, int, bool]]) -> None:
        for hole, size, has_records in sizes:
            first = self.log_end + hole
            self.log.append(LogBatch(first, first + size - 1, has_records or size % 2 == 0))
            self.log_end = first + size

    @rule(count=st.integers(1, 5))
    def delete_records(self, count: int) -> None:
        self.log_start = min(self.log_start + count, self.log_end)
        self.log = [one for one in self.log if one.last_offset >= self.log_start]
        self.share.log_start_moved(self.log_start)
        for offset in range(self.log_start):
            if offset in self.model:
                self.model[offset] = Entry(RecordState.ARCHIVED)

    # --- members -------------------------------------------------------------------------------

    @rule(member=MEMBERS, wanted=st.integers(1, 6), is_exact=st.booleans(), size=st.integers(1, 5))
    def acquire(self, member: str, wanted: int, is_exact: bool, size: int) -> None:
        offset = self.share.fetch_offset()
        free = [o for o, e in self.model.items() if e.state is RecordState.AVAILABLE]
        if offset is None:
            assert not free
            return
        assert offset == min(free, default=self.share.next_offset)
        batches = [one for one in self.log if one.last_offset >= offset]
        given = self.share.acquire(
            member,
            offset,
            batches,
            records_max=wanted,
            batch_size=size,
            is_exact=is_exact,
            now=self.now,
        )
        until = self.now + LIMITS.lock_duration_ms / 1000
        got = 0
        for one in given:
            for number in range(one.first_offset, one.last_offset + 1):
                entry = self.model.get(number, Entry())
                assert entry.state is RecordState.AVAILABLE
                assert entry.count + 1 == one.delivery_count <= LIMITS.delivery_count_max
                self.model[number] = Entry(RecordState.ACQUIRED, entry.count + 1, member, until)
                got += 1
        assert not is_exact or got <= wanted
        readable = {
            o for b in batches if b.has_records for o in range(b.first_offset, b.last_offset + 1)
        }
        assert all(
            number in readable
            for one in given
            for number in range(one.first_offset, one.last_offset + 1)
        )
        for number in range(self.share.next_offset):  # what was read, and is no record
            if number not in readable and self.model.get(number, Entry()) == Entry():
                self.model[number] = Entry(RecordState.ARCHIVED)
            elif number not in readable and number >= offset:
                entry = self.model[number]
                if entry.state is RecordState.AVAILABLE and self._is_archived(number):
                    self.model[number] = replace(entry, state=RecordState.ARCHIVED)

    def _is_archived(self, offset: int) -> bool:
        if offset < self.share.start_offset:
            return True
        (state,) = (
            one.state
            for one in self.share.states()
            if one.first_offset <= offset <= one.last_offset
        )
        return state is RecordState.ARCHIVED

    @rule(
        member=MEMBERS,
        back=st.integers(0, 12),
        kinds=st.lists(st.sampled_from(list(AcknowledgeType)), min_size=1, max_size=6),
        count=st.integers(1, 6),
    )
    def acknowledge(self, member: str, back: int, kinds: list[AcknowledgeType], count: int) -> None:
        first = self.share.start_offset + back
        size = count if len(kinds) == 1 else len(kinds)
        last = first + size - 1
        self._time_out()
        start = self.share.start_offset
        offsets = [one for one in range(first, last + 1) if one >= start]
        entries = {one: self.model.get(one, Entry()) for one in offsets}
        if last >= self.share.next_offset:
            expected = ErrorCode.INVALID_REQUEST
        elif all(
            e.state is RecordState.ACQUIRED and e.member == member and e.target is None
            for e in entries.values()
        ):
            expected = ErrorCode.NONE
        else:
            expected = ErrorCode.INVALID_RECORD_STATE
        self.token += 1
        token = self.token
        effects = self.share.acknowledge(
            member, [AcknowledgementBatch(first, last, kinds)], token, self.now
        )
        if expected is ErrorCode.NONE:
            decided = set[int]()
            for offset, entry in entries.items():
                kind = kinds[0] if len(kinds) == 1 else kinds[offset - first]
                if kind is AcknowledgeType.RENEW:
                    until = self.now + LIMITS.lock_duration_ms / 1000
                    self.model[offset] = replace(entry, until=until)
                    continue
                decided.add(offset)
                self.model[offset] = replace(entry, target=_target(entry, kind))
            if decided:
                self.deciding[token] = decided
        self.carry_out([*effects])
        if expected is not ErrorCode.NONE or token not in self.deciding:
            assert self.answers.pop(token) is expected

    @rule(member=MEMBERS)
    def end_session(self, member: str) -> None:
        for offset, entry in self.model.items():
            if entry.member == member and entry.target is None:
                self.model[offset] = _released(entry)
        self.carry_out([*self.share.release_member(member)])

    # --- time and writes -----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._time_out()
        self.carry_out([*self.share.expire(self.now)])

    def _time_out(self) -> None:
        for offset, entry in self.model.items():
            is_locked = entry.state is RecordState.ACQUIRED and entry.target is None
            if is_locked and entry.until <= self.now:
                self.model[offset] = _released(entry)

    @precondition(lambda self: self.write is not None)
    @rule(is_stored=st.booleans())
    def end_write(self, is_stored: bool) -> None:
        write, self.write = self.write, None
        assert write is not None
        if is_stored:
            self._store(write)
        error = ErrorCode.NONE if is_stored else ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.carry_out([*self.share.persisted(write.write_id, error, self.now)])
        for token in [one for one in self.answers if one in self.deciding]:
            assert self.answers.pop(token) is error
            for offset in self.deciding.pop(token):
                entry = self.model[offset]
                if offset < self.log_start:
                    continue
                assert entry.target is not None
                self.model[offset] = (
                    Entry(entry.target, entry.count) if is_stored else replace(entry, target=None)
                )
        if not is_stored:
            self._time_out()

    def _store(self, write: Persist) -> None:
        self.stored_start = write.start_offset
        for batch in write.state_batches:
            assert batch.first_offset >= write.start_offset
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.stored[offset] = (batch.state, batch.delivery_count)
        done = [
            one
            for one, (state, _) in self.stored.items()
            if one >= self.stored_start and state in TERMINAL
        ]
        assert write.delivery_complete_count >= 0
        assert len(done) <= write.delivery_complete_count or self.write is None

    @rule()
    def fail_over(self) -> None:
        """Another leader knows what is stored, and nothing else."""
        self.write = None
        self.deciding.clear()
        start = max(self.stored_start, self.log_start)
        self.share = SharePartition(
            self.stored_start,
            [
                StateBatch(offset, offset, state, count)
                for offset, (state, count) in self.stored.items()
                if offset >= self.stored_start
            ],
            log_end_offset=self.log_end,
            limits=LIMITS,
        )
        self.share.log_start_moved(self.log_start)
        self.model = {offset: Entry(RecordState.ARCHIVED) for offset in range(start)}
        for offset in range(start, self.share.next_offset):
            state, count = self.stored.get(offset, (RecordState.AVAILABLE, 0))
            self.model[offset] = Entry(state, count)

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def knows_what_the_model_knows(self) -> None:
        start = self.share.start_offset
        offset = start
        for one in self.share.states():
            assert one.first_offset == offset
            for number in range(one.first_offset, one.last_offset + 1):
                entry = self.model[number]
                assert (one.state, one.delivery_count) == (entry.state, entry.count), number
            offset = one.last_offset + 1
        assert offset == self.share.next_offset
        assert all(
            self.model[one].state in TERMINAL for one in range(start) if one in self.model
        ), "the start passed a record that is not done with"
        assert start == self.share.next_offset or self.model[start].state not in TERMINAL

    @invariant()
    def a_deadline_covers_every_lock(self) -> None:
        locks = [
            e.until
            for o, e in self.model.items()
            if e.state is RecordState.ACQUIRED and e.target is None and o >= self.log_start
        ]
        deadline = self.share.deadline()
        assert not locks or (deadline is not None and deadline <= min(locks))


def _target(entry: Entry, kind: AcknowledgeType) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    return _released(entry).state if kind is AcknowledgeType.RELEASE else RecordState.ARCHIVED


def _released(entry: Entry) -> Entry:
    is_used_up = entry.count >= LIMITS.delivery_count_max
    return Entry(RecordState.ARCHIVED if is_used_up else RecordState.AVAILABLE, entry.count)


TestSharePartition = SharePartitionMachine.TestCase
TestSharePartition.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
