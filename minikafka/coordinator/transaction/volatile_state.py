"""The state of a transaction shard that is not stored: timers, pending writes, parked commands."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from minikafka.coordinator.writes import PendingWrites, Write

from .effects import Ask, TransactionReply
from .states import TransactionEntry


class TimerKind(IntEnum):
    TRANSACTION = 0
    """A transaction takes too long: abort it."""
    WRITE = 1
    """A write takes too long: answer that the outcome is unknown."""
    RETRY = 2
    """One of the coordinator's own writes failed: try again."""
    PARKED = 3
    """Parked commands have waited long enough: answer them."""
    COMPLETION = 4
    """All markers are written and no next transaction has begun: store the completion alone."""
    EXPIRATION = 5
    """Check for unused ids."""


class Timer(NamedTuple):
    kind: TimerKind
    transactional_id: str = ""


class Answer(NamedTuple):
    """A command that is answered when a write is committed.

    Attributes:
        reply: None if the command must be decided again, because a transaction had to end first.
        deadline: when to answer that the outcome is unknown, in monotonic seconds.
    """

    ask: Ask
    reply: TransactionReply | None
    deadline: float


@dataclass(slots=True)
class EntryWrite(Write):
    """A write of one transactional id.

    Attributes:
        entry: what its last record stores; None deletes the id.
        position: index of the `Append` among the effects being collected; -1 once they are taken,
            after which no record can be added.
    """

    transactional_id: str
    entry: TransactionEntry | None
    position: int
    answers: list[Answer] = field(default_factory=list[Answer])


class WritesById:
    """The pending writes, for each transactional id in the order of the log."""

    def __init__(self) -> None:
        self._pending: PendingWrites[EntryWrite] = PendingWrites()
        self._of: dict[str, deque[EntryWrite]] = {}
        self._open: list[EntryWrite] = []

    def add(
        self, transactional_id: str, entry: TransactionEntry | None, position: int
    ) -> EntryWrite:
        write = EntryWrite(self._pending.new_id(), False, transactional_id, entry, position)
        self._pending.add(write)
        self._of.setdefault(transactional_id, deque()).append(write)
        self._open.append(write)
        return write

    def appended(self, write_id: int) -> EntryWrite | None:
        return self._pending.appended(write_id)

    def committed(self, write_id: int) -> EntryWrite | None:
        write = self._pending.committed(write_id)
        if write is not None:
            self._remove(write)
        return write

    def failed(self, write_id: int) -> EntryWrite | None:
        write = self._pending.failed(write_id)
        if write is not None and not write.is_appended:
            self._remove(write)
        return write

    def _remove(self, write: EntryWrite) -> None:
        of_id = self._of[write.transactional_id]
        of_id.remove(write)
        if not of_id:
            del self._of[write.transactional_id]

    def of(self, transactional_id: str) -> Collection[EntryWrite]:
        return self._of.get(transactional_id, ())

    def last_of(self, transactional_id: str) -> EntryWrite | None:
        """The last pending write of an id, on which the next decision builds."""
        of_id = self._of.get(transactional_id)
        return of_id[-1] if of_id else None

    def effects_taken(self) -> None:
        """The effects are on their way, so no more records can be added to these writes."""
        for write in self._open:
            write.position = -1
        self._open.clear()

    def resigned(self) -> list[Answer]:
        self._of.clear()
        return [answer for write in self._pending.resigned() for answer in write.answers]


@dataclass(slots=True)
class Parked:
    """A command that waits until its id is free."""

    ask: Ask
    deadline: float
