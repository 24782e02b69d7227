"""What a transaction shard keeps in memory only: timers, writes on their way, parked commands."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

from .effects import Ask, TransactionReply
from .states import TransactionEntry


class Phase(Enum):
    """The life of a shard; the value is what a command is answered in this phase."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ACTIVE = ErrorCode.NONE
    RESIGNED = ErrorCode.NOT_COORDINATOR


class TimerKind(IntEnum):
    """What a timer is for."""

    TRANSACTION = 0
    """A transaction takes too long."""
    WRITE = 1
    """A write takes too long; its asker hears that nobody knows."""
    RETRY = 2
    """A write of the coordinator's own failed and is tried again."""
    PARKED = 3
    """Parked commands waited for long enough."""
    COMPLETION = 4
    """All markers are written, and no next transaction has begun: that is stored alone."""
    EXPIRATION = 5
    """Ids that nobody uses are looked for."""


class Timer(NamedTuple):
    """The key of one timer."""

    kind: TimerKind
    transactional_id: str = ""


class Answer(NamedTuple):
    """What an asker hears when a write is committed.

    Attributes:
        ask: the command.
        reply: None when it has to be decided again: a transaction had to be ended first.
        deadline: when its asker hears that nobody knows; monotonic seconds.
    """

    ask: Ask
    reply: TransactionReply | None
    deadline: float


@dataclass(slots=True)
class Write:
    """An `Append` that is not committed.

    Attributes:
        write_id: the effect's.
        transactional_id: whose.
        entry: what the last of its records stores; None forgets the id.
        position: of the `Append` among the effects that are being gathered, -1 when they are taken:
            then no more records can be added.
        answers: who waits for it.
        is_appended: it is in the log.
    """

    write_id: int
    transactional_id: str
    entry: TransactionEntry | None
    position: int
    answers: list[Answer] = field(default_factory=list[Answer])
    is_appended: bool = False


class PendingWrites:
    """All writes that are not committed, of one id in the order of the log."""

    def __init__(self) -> None:
        self._by_id: dict[int, Write] = {}
        self._of: dict[str, deque[Write]] = {}
        self._open: list[Write] = []
        self._last_id = 0

    def add(self, transactional_id: str, entry: TransactionEntry | None, position: int) -> Write:
        """A write that is about to be appended."""
        self._last_id += 1
        write = Write(self._last_id, transactional_id, entry, position)
        self._by_id[write.write_id] = write
        self._of.setdefault(transactional_id, deque()).append(write)
        self._open.append(write)
        return write

    def get(self, write_id: int) -> Write | None:
        """One of them."""
        return self._by_id.get(write_id)

    def remove(self, write: Write) -> None:
        """It is committed, or was not appended."""
        del self._by_id[write.write_id]
        of_id = self._of[write.transactional_id]
        of_id.remove(write)
        if not of_id:
            del self._of[write.transactional_id]

    def of(self, transactional_id: str) -> Collection[Write]:
        """Those of an id."""
        return self._of.get(transactional_id, ())

    def last_of(self, transactional_id: str) -> Write | None:
        """The last of an id: what the next decision has to build on."""
        of_id = self._of.get(transactional_id)
        return of_id[-1] if of_id else None

    def taken(self) -> None:
        """The effects are taken: nothing can be added to their records."""
        for write in self._open:
            write.position = -1
        self._open.clear()

    def take_answers(self) -> list[Answer]:
        """Forget all of them; returns who waits."""
        answers = [answer for write in self._by_id.values() for answer in write.answers]
        self._by_id.clear()
        self._of.clear()
        return answers


@dataclass(slots=True)
class Parked:
    """A command that waits until its id is free."""

    ask: Ask
    deadline: float
