"""What a shard has stored about its ids, and what is on its way to be stored.

The stored state changes in one place (`StoredEntries._apply`), which also runs when a shard is
loaded. Who waits for a write hears of it when it is committed, or after `write_timeout_ms` that
nobody knows.
"""

from __future__ import annotations

from minikafka.coordinator.group.timers import Timers
from minikafka.protocol.errors import ErrorCode

from .config import TransactionConfig
from .effects import Append, Ask, Effect, Now, Reply, TransactionReply
from .pending import Answer, PendingWrites, Timer, TimerKind, Write
from .records import encode_entry, encode_tombstone
from .states import PREPARED, TopicPartition, TransactionEntry, check_change

_WRITE_ERRORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
}


class StoredEntries:
    """A shard's entries and writes."""

    def __init__(self, config: TransactionConfig) -> None:
        self._config = config
        self._now = Now(0.0, 0)
        self._entries: dict[str, TransactionEntry] = {}
        self._unmarked: dict[str, set[TopicPartition]] = {}
        self._timers: Timers[Timer] = Timers()
        self._effects: list[Effect] = []
        self._writes = PendingWrites()

    def _write(
        self,
        transactional_id: str,
        entry: TransactionEntry | None,
        asker: Ask | None = None,
        reply: TransactionReply | None = None,
    ) -> None:
        record = encode_tombstone(transactional_id) if entry is None else encode_entry(entry)
        write = self._writes.last_of(transactional_id)
        if entry is not None:
            before = self._entries.get(transactional_id) if write is None else write.entry
            check_change(before, entry)
        if write is None or write.position < 0:
            write = self._writes.add(transactional_id, entry, len(self._effects))
            self._effects.append(Append((record,), write.write_id))
        else:
            write.entry = entry
            appended = self._effects[write.position]
            assert isinstance(appended, Append)
            self._effects[write.position] = Append((*appended.records, record), write.write_id)
        if asker is not None:
            self._answer_with(write, asker, reply)

    def _answer_with(self, write: Write, ask: Ask, reply: TransactionReply | None) -> None:
        deadline = self._now.monotonic_s + self._config.write_timeout_ms / 1000
        write.answers.append(Answer(ask, reply, deadline))
        timer = Timer(TimerKind.WRITE, write.transactional_id)
        if timer not in self._timers:
            self._timers.set(timer, deadline)

    def appended(self, write_id: int) -> None:
        """The records of an `Append` are in the log: they are what the next decision sees."""
        write = self._writes.get(write_id)
        if write is not None and not write.is_appended:
            write.is_appended = True
            self._apply(write.transactional_id, write.entry)

    def _refuse(self, write: Write, until: float, error: ErrorCode) -> None:
        """Tell those that nobody knows whose time is over by ``until``."""
        reply = TransactionReply(_WRITE_ERRORS.get(error, error))
        late = [answer for answer in write.answers if answer.deadline <= until]
        write.answers = [answer for answer in write.answers if answer.deadline > until]
        self._effects.extend(Reply(answer.ask.token, reply) for answer in late)

    def _end_write(self, write: Write) -> None:
        self._writes.remove(write)
        if self._writes.last_of(write.transactional_id) is None:
            self._timers.cancel(Timer(TimerKind.WRITE, write.transactional_id))

    def _apply(self, transactional_id: str, entry: TransactionEntry | None) -> None:
        """The only place where stored state changes."""
        if entry is None:
            self._entries.pop(transactional_id, None)
        else:
            self._entries[transactional_id] = entry
        if entry is None or entry.state not in PREPARED:
            self._unmarked.pop(transactional_id, None)

    def _on_write_timer(self, timer: Timer) -> None:
        now_s = self._now.monotonic_s
        pending = self._writes.of(timer.transactional_id)
        for write in pending:
            self._refuse(write, now_s, ErrorCode.REQUEST_TIMED_OUT)
        left = [answer.deadline for write in pending for answer in write.answers]
        if left:
            self._timers.set(timer, min(left))

    def _set_timer(self, kind: TimerKind, transactional_id: str, delay_ms: int) -> None:
        self._timers.set(Timer(kind, transactional_id), self._now.monotonic_s + delay_ms / 1000)

    # --- looking -----------------------------------------------------------------------------

    def entry(self, transactional_id: str) -> TransactionEntry | None:
        """What is stored about an id, for DescribeTransactions."""
        return self._entries.get(transactional_id)

    def entries(self) -> list[TransactionEntry]:
        """Every id, for ListTransactions."""
        return list(self._entries.values())

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        self._writes.taken()
        return effects
