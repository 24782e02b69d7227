"""What clients did, as a history: their sends and reads, and the outcomes.

A value is written at most once to a key, so that it names its write. A key is a partition. An
operation is one transaction, or one send or poll without any. Plain values only: a recorder of a
history needs neither a test nor a broker for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

Key = tuple[str, int]
"""Topic and partition."""

Value = int | str | bytes


class Outcome(Enum):
    """How an operation ended, as its client knows it."""

    OK = "ok"
    """It happened."""
    FAIL = "fail"
    """It did not happen, and never will."""
    INFO = "info"
    """Unknown: no answer came. It may happen later."""


class Send(NamedTuple):
    """One record written; its offset is None where the client does not know it."""

    key: Key
    value: Value
    offset: int | None = None


class Poll(NamedTuple):
    """What one poll returned: for each key offsets and values, in the order they came in."""

    records: Mapping[Key, Sequence[tuple[int, Value]]]


class Operation(NamedTuple):
    """One transaction, or one send or poll without any.

    Attributes:
        process: the client's name. It does one thing after the other, except that its sends may
            overlap; they stand in the history in the order in which they were made.
        outcome: how it ended.
        actions: what it did, in this order.
        invoked: when it began, on any clock that all processes share.
        completed: when its end was known.
    """

    process: str
    outcome: Outcome
    actions: Sequence[Send | Poll]
    invoked: float
    completed: float


class Assign(NamedTuple):
    """A consumer reads these keys from now on; it stays where it was in those it had before.

    Attributes:
        process: the client's name.
        keys: all that it reads from now on.
        is_seeking: it goes elsewhere in all of them.
    """

    process: str
    keys: frozenset[Key]
    is_seeking: bool = False


class Subscribe(NamedTuple):
    """From now on the group decides which keys a consumer reads."""

    process: str


class Rebalance(NamedTuple):
    """The group gave a consumer other keys, or the same once more."""

    process: str


class Crash(NamedTuple):
    """A client has ended; the next of the same name begins from nothing."""

    process: str


Event = Operation | Assign | Subscribe | Rebalance | Crash

History = Sequence[Event]
"""Events in the order in which they began; that of one process is all that counts."""
