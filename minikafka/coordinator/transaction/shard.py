"""One shard of the transaction coordinator: the ids of one ``__transaction_state`` partition.

How the shell uses it is how it uses a group shard (see `minikafka.coordinator.group.shard`), with
two things more: `SendMarkers` effects, whose progress comes back with `markers_written`, and a
source of producer ids.

Commands that cannot be decided yet are *parked* until the id is free again, so that a producer
begins its next transaction as soon as that is possible. (Kafka answers CONCURRENT_TRANSACTIONS and
lets the client ask again; here that is the answer only after `parked_wait_ms`.) They wait for the
markers of the transaction before, and for writes that are not committed. Only AddPartitions does
not wait for a write that is in the log: what it leads to lies behind that in the log, so it is
never committed without it.

What is decided in one call goes into one `Append`. A producer that is busy begins its next
transaction soon. So when all markers are written, that is stored together with the beginning of the
next transaction, or after `completion_linger_ms` alone: who looks into the log finds the same
records, in fewer batches. A coordinator that fails meanwhile leaves a decided transaction, whose
markers are written once more.

Timeouts run on the clock that never jumps. What a restart knows is when a transaction began by the
wall clock; if that jumped, the transaction gets at most its timeout once more (KAFKA-8803).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.schema import MalformedMessageError

from .config import TransactionConfig
from .decide import Scene, complete, decide, ends_the_next, prepare
from .effects import (
    AddPartitions,
    Ask,
    Effect,
    EndTransaction,
    Now,
    Reply,
    SendMarkers,
    TransactionReply,
)
from .pending import Parked, Phase, Timer, TimerKind
from .records import decode_entry
from .states import (
    ENDED,
    PREPARED,
    TopicPartition,
    TransactionEntry,
    TransactionState,
)
from .stored import StoredEntries

__all__ = ["TransactionShard"]

logger = logging.getLogger(__name__)

_RETRIABLE = TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS)


class TransactionShard(StoredEntries):
    """Transactions of the ids of one partition.

    Args:
        config: the settings.
        take_producer_id: gives a producer id that nobody has, or None when none is at hand.
    """

    def __init__(
        self, config: TransactionConfig, *, take_producer_id: Callable[[], int | None]
    ) -> None:
        super().__init__(config)
        self._take_producer_id = take_producer_id
        self._phase = Phase.LOADING
        self._coordinator_epoch = -1
        self._parked: dict[str, deque[Parked]] = {}

    @property
    def error(self) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS before `loaded`, NOT_COORDINATOR after `resigned`."""
        return self._phase.value

    # --- commands ----------------------------------------------------------------------------

    def handle(self, ask: Ask, now: Now) -> list[Effect]:
        """Decide about one command; its `Reply` is in this list or in a later one."""
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
            self._answer_with(last, ask, outcome.reply)  # not before that is committed
        elif _needs_commit(entry, ask, outcome.reply):
            # It is stored once more: who leads no more cannot have that committed.
            self._write(transactional_id, entry, ask, outcome.reply)
        else:
            assert outcome.reply is not None
            self._effects.append(Reply(ask.token, outcome.reply, is_from_memory=True))

    def _scene(self) -> Scene:
        return Scene(self._config, self._now.wall_ms, self._take_producer_id)

    def _release_parked(self, transactional_id: str) -> None:
        """Decide about parked commands, as far as that is possible now."""
        waiting = self._parked.get(transactional_id)
        while waiting and not self._must_wait(waiting[0].ask):
            self._decide(waiting.popleft().ask)
        if not waiting:
            self._parked.pop(transactional_id, None)
            self._timers.cancel(Timer(TimerKind.PARKED, transactional_id))

    # --- writes ------------------------------------------------------------------------------

    def committed(self, write_id: int, now: Now) -> list[Effect]:
        """The high watermark has passed the records of an `Append`: act on them."""
        self._now = now
        self.appended(write_id)
        write = self._writes.get(write_id)
        if write is not None:
            self._end_write(write)
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
        """A transaction had to be ended first; the command comes before those parked later."""
        transactional_id = ask.command.transactional_id
        deadline = self._now.monotonic_s + self._config.parked_wait_ms / 1000
        self._parked.setdefault(transactional_id, deque()).appendleft(Parked(ask, deadline))
        self._timers.set(Timer(TimerKind.PARKED, transactional_id), deadline)

    def append_failed(self, write_id: int, error: ErrorCode, now: Now) -> list[Effect]:
        """Nothing of an `Append` was written, or (after `appended`) nobody knows if it survives."""
        self._now = now
        write = self._writes.get(write_id)
        if write is not None:
            self._refuse(write, now.monotonic_s + self._config.write_timeout_ms / 1000, error)
            if not write.is_appended:
                self._end_write(write)
                self._set_timer(
                    TimerKind.RETRY, write.transactional_id, self._config.retry_backoff_ms
                )
                self._release_parked(write.transactional_id)
        return self._take_effects()

    # --- acting on what is committed -----------------------------------------------------------

    def _act_on(self, transactional_id: str) -> None:
        """Do what the state of an id asks for: time a transaction, or have markers written."""
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
        else:
            self._timers.cancel(timer)
            self._complete(entry)

    def _complete(self, entry: TransactionEntry) -> None:
        self._write(entry.transactional_id, complete(entry, self._now.wall_ms))
        self._release_parked(entry.transactional_id)

    # --- time --------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to call `expire` (monotonic seconds); None while no timer runs."""
        return self._timers.deadline()

    def expire(self, now: Now) -> list[Effect]:
        """Let every timer fire that is due; calling it early does nothing."""
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
            # Whatever is being written, the transaction is looked at again after it.
            self._set_timer(TimerKind.TRANSACTION, transactional_id, self._config.retry_backoff_ms)
            return
        entry = self._entries[transactional_id]
        logger.info(
            "transaction of %s (producer %d epoch %d) is aborted: it took more than %d ms",
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
        """Store tombstones for ids without a transaction that nobody has used for long."""
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

    # --- becoming and ceasing to be the coordinator ----------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Load one record of the partition; unknown and damaged ones are logged and skipped.

        Raises:
            RuntimeError: the shard has been loaded already.
        """
        if self._phase is not Phase.LOADING:
            raise RuntimeError("replay is for loading")
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
        """The end of the log is reached: go on with what is open, and serve.

        Args:
            coordinator_epoch: leader epoch of the partition; markers carry it.
            now: the clocks.
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
        """This broker no longer leads the partition: NOT_COORDINATOR for all who wait."""
        self._phase = Phase.RESIGNED
        gone = TransactionReply(ErrorCode.NOT_COORDINATOR)
        for answer in self._writes.take_answers():
            self._effects.append(Reply(answer.ask.token, gone))
        for waiting in self._parked.values():
            self._effects.extend(Reply(parked.ask.token, gone) for parked in waiting)
        for state in (self._parked, self._unmarked, self._entries):
            state.clear()
        self._timers.clear()
        return self._take_effects()


def _needs_commit(entry: TransactionEntry | None, ask: Ask, reply: TransactionReply | None) -> bool:
    """Whether somebody goes on because of an answer, who must not where it is out of date."""
    command = ask.command
    if entry is None or reply is None or reply.error_code is not ErrorCode.NONE:
        return False
    return not isinstance(command, AddPartitions)
