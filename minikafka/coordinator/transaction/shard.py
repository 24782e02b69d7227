"""One shard of the transaction coordinator: the ids of one ``__transaction_state`` partition.

The shell uses it like a group shard (see `minikafka.coordinator.group.shard`), with two additions:
`SendMarkers` effects, whose progress is reported with `markers_written`, and a source of producer
ids.

Commands that cannot be decided yet are *parked* until the id is free again, so that a producer
begins its next transaction as soon as possible. (Kafka answers CONCURRENT_TRANSACTIONS and lets the
client retry; here that is the answer only after `parked_wait_ms`.) They wait for the markers of the
previous transaction, and for uncommitted writes. Only AddPartitions does not wait for a write that
is in the log: its own record comes later in the log, so it is never committed without the other.

The decisions of one call go into one `Append`. A busy producer begins its next transaction soon, so
once all markers are written, the completion is stored together with the beginning of the next
transaction, or alone after `completion_linger_ms`: the log has the same records, in fewer batches.
If the coordinator fails in between, the transaction is still decided, and its markers are written
again.

Timeouts use the monotonic clock. A restarted coordinator only knows the wall-clock time at which a
transaction began; if that clock jumped, the transaction gets at most its full timeout once more
(KAFKA-8803).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never

from minikafka.coordinator.timers import Timers
from minikafka.coordinator.writes import Phase, Record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError

from .config import TransactionConfig
from .decisions import Scene, complete, decide, ends_the_next, prepare
from .effects import (
    AddPartitions,
    Append,
    Ask,
    Effect,
    EndTransaction,
    Now,
    Reply,
    SendMarkers,
    TransactionReply,
)
from .records import decode_entry, encode_entry, encode_tombstone
from .states import (
    ENDED,
    PREPARED,
    TopicPartition,
    TransactionEntry,
    TransactionState,
    check_change,
)
from .volatile_state import Answer, EntryWrite, Parked, Timer, TimerKind, WritesById

logger = logging.getLogger(__name__)

_RETRIABLE = TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS)

_WRITE_ERRORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
}


class TransactionShard:
    """The transactional ids of one partition.

    ``take_producer_id`` returns an unused producer id, or None if none is available.
    """

    def __init__(
        self, config: TransactionConfig, *, take_producer_id: Callable[[], int | None]
    ) -> None:
        self._config = config
        self._take_producer_id = take_producer_id
        self._phase = Phase.LOADING
        self._coordinator_epoch = -1
        self._now = Now(0.0, 0)
        self._entries: dict[str, TransactionEntry] = {}
        self._unmarked: dict[str, set[TopicPartition]] = {}
        self._completions: dict[str, tuple[TransactionEntry, Record]] = {}
        self._timers: Timers[Timer] = Timers()
        self._effects: list[Effect] = []
        self._writes = WritesById()
        self._parked: dict[str, deque[Parked]] = {}

    @property
    def error(self) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS before `loaded`, NOT_COORDINATOR after `resigned`."""
        return self._phase.value

    # --- commands ----------------------------------------------------------------------------

    def handle(self, ask: Ask, now: Now) -> list[Effect]:
        """Handle one command; its `Reply` is in this list or in a later one."""
        self._now = now
        if self.error is not ErrorCode.NONE:
            self._effects.append(Reply(ask.token, TransactionReply(self.error)))
        elif self._must_wait(ask) or self._comes_after_parked(ask):
            self._park(ask)
            entry = self._entries.get(ask.command.transactional_id)
            if entry is not None and entry.transactional_id in self._unmarked:
                self._complete_if_marked(entry)
        else:
            self._decide(ask)
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        self._writes.effects_taken()
        return effects

    def _must_wait(self, ask: Ask) -> bool:
        transactional_id = ask.command.transactional_id
        pending = self._writes.of(transactional_id)
        if not pending:
            entry = self._entries.get(transactional_id)
            if entry is None or entry.state not in PREPARED:
                return False
            command = ask.command
            return not isinstance(command, EndTransaction) or ends_the_next(entry, command)
        last = self._writes.last_of(transactional_id)
        return (
            last is None
            or not isinstance(ask.command, AddPartitions)
            or not (last.is_appended or last.position >= 0)
            or last.entry is None
            or last.entry.state in PREPARED
            or max(len(pending), len(last.answers)) >= self._config.uncommitted_per_id_max
        )

    def _comes_after_parked(self, ask: Ask) -> bool:
        return isinstance(ask.command, AddPartitions) and (
            ask.command.transactional_id in self._parked
        )

    def _park(self, ask: Ask) -> None:
        transactional_id = ask.command.transactional_id
        waiting = self._parked.setdefault(transactional_id, deque())
        if len(waiting) >= self._config.parked_per_id_max:
            self._effects.append(Reply(ask.token, _RETRIABLE))
            return
        deadline = self._now.monotonic_s + self._config.parked_wait_ms / 1000
        waiting.append(Parked(ask, deadline))
        timer = Timer(TimerKind.PARKED, transactional_id)
        if timer not in self._timers:
            self._timers.set(timer, deadline)

    def _decide(self, ask: Ask) -> None:
        transactional_id = ask.command.transactional_id
        last = self._writes.last_of(transactional_id)
        entry = self._entries.get(transactional_id) if last is None else last.entry
        outcome = decide(entry, ask.command, self._scene())
        if outcome.entry is not None:
            self._write(transactional_id, outcome.entry, ask, outcome.reply)
        elif last is not None:
            self._answer_with(last, ask, outcome.reply)  # once that is committed
        elif _needs_commit(entry, ask, outcome.reply):
            # Store it again: a deposed leader cannot get it committed.
            self._write(transactional_id, entry, ask, outcome.reply)
        else:
            assert outcome.reply is not None
            self._effects.append(Reply(ask.token, outcome.reply, is_from_memory=True))

    def _scene(self) -> Scene:
        return Scene(self._config, self._now.wall_ms, self._take_producer_id)

    def _release_parked(self, transactional_id: str) -> None:
        """Decide the parked commands that no longer have to wait."""
        waiting = self._parked.get(transactional_id)
        if waiting is None:
            return
        while waiting and not self._must_wait(waiting[0].ask):
            self._decide(waiting.popleft().ask)
        if not waiting:
            del self._parked[transactional_id]
            self._timers.cancel(Timer(TimerKind.PARKED, transactional_id))

    # --- writes ------------------------------------------------------------------------------

    def _write(
        self,
        transactional_id: str,
        entry: TransactionEntry | None,
        asker: Ask | None = None,
        reply: TransactionReply | None = None,
    ) -> None:
        if entry is not None:
            write = self._writes.last_of(transactional_id)
            before = self._entries.get(transactional_id) if write is None else write.entry
            check_change(before, entry)
            entry = entry.stored_after(before)
        record = encode_tombstone(transactional_id) if entry is None else encode_entry(entry)
        write = self._append(transactional_id, entry, record)
        if asker is not None:
            self._answer_with(write, asker, reply)

    def _append(
        self, transactional_id: str, entry: TransactionEntry | None, record: Record
    ) -> EntryWrite:
        """Append a record, to those of the same call if there are any."""
        write = self._writes.last_of(transactional_id)
        if write is None or write.position < 0:
            write = self._writes.add(transactional_id, entry, len(self._effects))
            self._effects.append(Append((record,), write.write_id))
        else:
            write.entry = entry
            appended = self._effects[write.position]
            assert isinstance(appended, Append)
            self._effects[write.position] = Append((*appended.records, record), write.write_id)
        return write

    def _answer_with(self, write: EntryWrite, ask: Ask, reply: TransactionReply | None) -> None:
        deadline = self._now.monotonic_s + self._config.write_timeout_ms / 1000
        write.answers.append(Answer(ask, reply, deadline))
        timer = Timer(TimerKind.WRITE, write.transactional_id)
        if timer not in self._timers:
            self._timers.set(timer, deadline)

    def appended(self, write_id: int) -> None:
        """The records of an `Append` are in the log: apply them to the stored state."""
        write = self._writes.appended(write_id)
        if write is not None:
            self._apply(write.transactional_id, write.entry)

    def committed(self, write_id: int, now: Now) -> list[Effect]:
        """The high watermark has passed the records of an `Append`: act on them."""
        self._now = now
        self.appended(write_id)
        write = self._writes.committed(write_id)
        if write is not None:
            self._cancel_write_timer(write.transactional_id)
            for ask, reply, _ in write.answers:
                if reply is not None:
                    self._effects.append(Reply(ask.token, reply))
                else:
                    self._park_first(ask)
            if self._writes.last_of(write.transactional_id) is None:
                self._act_on(write.transactional_id)
            self._release_parked(write.transactional_id)
        return self._take_effects()

    def _park_first(self, ask: Ask) -> None:
        """A transaction had to be ended first; this command precedes those parked later."""
        transactional_id = ask.command.transactional_id
        deadline = self._now.monotonic_s + self._config.parked_wait_ms / 1000
        self._parked.setdefault(transactional_id, deque()).appendleft(Parked(ask, deadline))
        self._timers.set(Timer(TimerKind.PARKED, transactional_id), deadline)

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Effect]:
        """An `Append` failed or, after `appended`, its outcome is unknown."""
        self._now = now
        write = self._writes.failed(write_id)
        if write is not None:
            self._refuse(write, now.monotonic_s + self._config.write_timeout_ms / 1000, error)
            if not write.is_appended:
                self._cancel_write_timer(write.transactional_id)
                self._set_timer(
                    TimerKind.RETRY, write.transactional_id, self._config.retry_backoff_ms
                )
                self._release_parked(write.transactional_id)
        return self._take_effects()

    def _refuse(self, write: EntryWrite, until: float, error: ErrorCode) -> None:
        """Answer commands whose deadline is at or before ``until``: the outcome is unknown."""
        reply = TransactionReply(_WRITE_ERRORS.get(error, error))
        late = [answer for answer in write.answers if answer.deadline <= until]
        write.answers = [answer for answer in write.answers if answer.deadline > until]
        self._effects.extend(Reply(answer.ask.token, reply) for answer in late)

    def _cancel_write_timer(self, transactional_id: str) -> None:
        if self._writes.last_of(transactional_id) is None:
            self._timers.cancel(Timer(TimerKind.WRITE, transactional_id))

    def _apply(self, transactional_id: str, entry: TransactionEntry | None) -> None:
        """The only place where stored state changes."""
        if entry is None:
            self._entries.pop(transactional_id, None)
        else:
            self._entries[transactional_id] = entry
        if entry is None or entry.state not in PREPARED:
            self._unmarked.pop(transactional_id, None)
            self._completions.pop(transactional_id, None)

    # --- acting on what is committed -----------------------------------------------------------

    def _act_on(self, transactional_id: str) -> None:
        """Start what the state of an id requires: a timeout, or markers."""
        entry = self._entries.get(transactional_id)
        timer = Timer(TimerKind.TRANSACTION, transactional_id)
        if entry is not None and entry.state is TransactionState.ONGOING:
            if entry.is_two_phase:
                self._timers.cancel(timer)
            elif timer not in self._timers:
                elapsed_ms = min(max(self._now.wall_ms - entry.start_ms, 0), entry.timeout_ms)
                self._set_timer(
                    TimerKind.TRANSACTION, transactional_id, entry.timeout_ms - elapsed_ms
                )
            return
        self._timers.cancel(timer)
        if entry is not None and entry.state in PREPARED:
            if transactional_id not in self._unmarked:
                self._unmarked[transactional_id] = set(entry.partitions)
                if entry.partitions:
                    self._effects.append(self._markers_of(entry))
            self._complete_if_marked(entry)

    def _markers_of(self, entry: TransactionEntry) -> SendMarkers:
        return SendMarkers(
            entry.transactional_id,
            entry.producer_id,
            entry.producer_epoch,
            self._coordinator_epoch,
            entry.transaction_version,
            entry.state is TransactionState.PREPARE_COMMIT,
            entry.partitions,
        )

    def markers_written(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        now: Now,
    ) -> list[Effect]:
        """Markers of a `SendMarkers` are in their partitions (id and epoch as in the effect)."""
        self._now = now
        entry = self._entries.get(transactional_id)
        unmarked = self._unmarked.get(transactional_id)
        if (
            entry is not None
            and unmarked is not None
            and (entry.producer_id, entry.producer_epoch) == (producer_id, producer_epoch)
        ):
            unmarked.difference_update(partitions)
            self._complete_if_marked(entry)
        return self._take_effects()

    def _complete_if_marked(self, entry: TransactionEntry) -> None:
        transactional_id = entry.transactional_id
        if self._unmarked[transactional_id] or self._writes.of(transactional_id):
            return
        timer = Timer(TimerKind.COMPLETION, transactional_id)
        linger_ms = self._config.completion_linger_ms
        if linger_ms and transactional_id not in self._parked:
            self._timers.set(timer, self._now.monotonic_s + linger_ms / 1000)
            if transactional_id not in self._completions:
                # The producer waits for what it asks next, and for nothing now.
                completed = complete(entry, self._now.wall_ms).stored_after(entry)
                self._completions[transactional_id] = (completed, encode_entry(completed))
        else:
            self._timers.cancel(timer)
            self._complete(entry)

    def _complete(self, entry: TransactionEntry) -> None:
        transactional_id = entry.transactional_id
        completion = self._completions.get(transactional_id)
        if completion is None:
            self._write(transactional_id, complete(entry, self._now.wall_ms))
        else:
            self._append(transactional_id, *completion)
        self._release_parked(transactional_id)

    # --- time --------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to call `expire`, in monotonic seconds; None if no timer runs."""
        return self._timers.deadline()

    def expire(self, now: Now) -> list[Effect]:
        """Fire all timers that are due; calling it early does nothing."""
        self._now = now
        while (timer := self._timers.pop_due(now.monotonic_s)) is not None:
            match timer.kind:
                case TimerKind.TRANSACTION:
                    self._on_transaction_timer(timer.transactional_id)
                case TimerKind.WRITE:
                    self._on_write_timer(timer)
                case TimerKind.RETRY:
                    if self._writes.last_of(timer.transactional_id) is None:
                        self._act_on(timer.transactional_id)
                case TimerKind.PARKED:
                    self._on_parked_timer(timer.transactional_id)
                case TimerKind.COMPLETION:
                    self._complete(self._entries[timer.transactional_id])
                case TimerKind.EXPIRATION:
                    self._forget_unused()
                case _:
                    assert_never(timer.kind)
        return self._take_effects()

    def _on_transaction_timer(self, transactional_id: str) -> None:
        if self._writes.last_of(transactional_id) is not None:
            # Check again when the pending write is done.
            self._set_timer(TimerKind.TRANSACTION, transactional_id, self._config.retry_backoff_ms)
            return
        entry = self._entries[transactional_id]
        logger.info(
            "aborting the transaction of %s (producer %d, epoch %d): it took more than %d ms",
            transactional_id,
            entry.producer_id,
            entry.producer_epoch,
            entry.timeout_ms,
        )
        aborting = prepare(entry, self._scene(), commits=False, fences=True, may_retry=True)
        if aborting is None:
            self._set_timer(TimerKind.TRANSACTION, transactional_id, self._config.retry_backoff_ms)
        else:
            self._write(transactional_id, aborting)

    def time_out(self, transactional_id: str, now: Now) -> list[Effect]:
        """Abort an open transaction as its timeout would, however young it is.

        Raises:
            ValueError: no transaction of this id is open, or its application ends it (KIP-939).
        """
        last = self._writes.last_of(transactional_id)
        entry = self._entries.get(transactional_id) if last is None else last.entry
        if entry is None or entry.state is not TransactionState.ONGOING:
            state = "is unknown" if entry is None else f"is {entry.state.name}"
            raise ValueError(f"{transactional_id!r} has no open transaction: it {state}")
        if entry.is_two_phase:
            raise ValueError(f"{transactional_id!r} uses two-phase commit and has no timeout")
        self._timers.set(Timer(TimerKind.TRANSACTION, transactional_id), now.monotonic_s)
        return self.expire(now)

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

    def _on_parked_timer(self, transactional_id: str) -> None:
        waiting = self._parked[transactional_id]
        while waiting and waiting[0].deadline <= self._now.monotonic_s:
            self._effects.append(Reply(waiting.popleft().ask.token, _RETRIABLE))
        if waiting:
            timer = Timer(TimerKind.PARKED, transactional_id)
            self._timers.set(timer, waiting[0].deadline)
        else:
            del self._parked[transactional_id]

    def _forget_unused(self) -> None:
        before_ms = self._now.wall_ms - self._config.transactional_id_expiration_ms
        unused = [
            transactional_id
            for transactional_id, entry in self._entries.items()
            if entry.state in ENDED
            and entry.update_ms <= before_ms
            and self._writes.last_of(transactional_id) is None
        ]
        for transactional_id in unused[: self._config.tombstones_per_append_max]:
            self._write(transactional_id, None)
        self._timers.set(
            Timer(TimerKind.EXPIRATION),
            self._now.monotonic_s + self._config.expiration_check_interval_ms / 1000,
        )

    # --- queries -----------------------------------------------------------------------------

    def entry(self, transactional_id: str) -> TransactionEntry | None:
        return self._entries.get(transactional_id)

    def entries(self) -> list[TransactionEntry]:
        return list(self._entries.values())

    # --- becoming and ceasing to be the coordinator ----------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Load one record of the partition; unknown and damaged ones are logged and skipped.

        Raises:
            RuntimeError: the shard has been loaded already.
        """
        if self._phase is not Phase.LOADING:
            raise RuntimeError("replay is only for loading")
        try:
            decoded = decode_entry(key, value)
        except MalformedMessageError as error:
            logger.error("skipping a damaged record of __transaction_state: %s", error)
            return
        if decoded is None:
            logger.info("skipping a record of __transaction_state with an unknown key: %r", key)
            return
        self._apply(*decoded)

    def loaded(self, coordinator_epoch: int, now: Now) -> list[Effect]:
        """The whole log has been replayed: resume open transactions, and serve.

        ``coordinator_epoch`` is the partition's leader epoch, which markers carry.
        """
        self._phase = Phase.ACTIVE
        self._now = now
        self._coordinator_epoch = coordinator_epoch
        for transactional_id in self._entries:
            self._act_on(transactional_id)
        self._timers.set(
            Timer(TimerKind.EXPIRATION),
            now.monotonic_s + self._config.expiration_check_interval_ms / 1000,
        )
        return self._take_effects()

    def resigned(self) -> list[Effect]:
        """This broker no longer leads the partition: answer all commands with NOT_COORDINATOR."""
        self._phase = Phase.RESIGNED
        refusal = TransactionReply(ErrorCode.NOT_COORDINATOR)
        for answer in self._writes.resigned():
            self._effects.append(Reply(answer.ask.token, refusal))
        for waiting in self._parked.values():
            self._effects.extend(Reply(parked.ask.token, refusal) for parked in waiting)
        for state in (self._parked, self._unmarked, self._completions, self._entries):
            state.clear()
        self._timers.clear()
        return self._take_effects()


def _needs_commit(entry: TransactionEntry | None, ask: Ask, reply: TransactionReply | None) -> bool:
    """Whether the answer lets a producer proceed, so that it must not be out of date."""
    command = ask.command
    if entry is None or reply is None or reply.error_code is not ErrorCode.NONE:
        return False
    return not isinstance(command, AddPartitions)
