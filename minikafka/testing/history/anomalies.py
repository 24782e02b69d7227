"""What can be wrong with a history, and what is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final, NamedTuple

from .operations import Key

KEPT_OF_A_KIND_MAX: Final = 50
"""A history that is wrong everywhere is not worth a report of a million lines."""


class Anomaly(Enum):
    """A broken promise; names follow Jepsen's Kafka workload."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """Two values at one offset."""
    DUPLICATE = "duplicate"
    """One value at two offsets."""
    LOST_WRITE = "lost-write"
    """Committed, readers went past it, none saw it."""
    UNSEEN = "unseen"
    """Committed, and missing when every reader had caught up."""
    ABORTED_READ = "G1a"
    """A poll returned a value whose write had failed."""
    UNWRITTEN_READ = "unwritten-read"
    """A poll returned a value that was never sent."""
    PRECOMMITTED_READ = "precommitted-read"
    """An operation read what it had written itself and not committed yet."""
    POLL_SKIP = "poll-skip"
    """A process's next poll began behind records it had not seen."""
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """A process's next poll began at or before the record it had seen last."""
    INTERNAL_POLL_SKIP = "int-poll-skip"
    """Records are missing between two that one operation polled."""
    INTERNAL_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    """One operation polled records backwards, or one twice."""
    NONMONOTONIC_SEND = "nonmonotonic-send"
    """A process's next send went before the one before."""
    INTERNAL_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    """The same inside one operation."""
    INTERNAL_SEND_SKIP = "int-send-skip"
    """Records of others stand between two of one operation."""
    WRITE_CYCLE = "G0"
    """Transactions whose writes precede each other's in a circle."""
    CIRCULAR_INFORMATION_FLOW = "G1c"
    """Transactions that each follow from the next, by writes, reads or a process's order."""


ALWAYS_ALLOWED: Final = frozenset({Anomaly.INTERNAL_SEND_SKIP, Anomaly.WRITE_CYCLE})
"""Kafka promises no isolation of writes: transactions interleave in the log."""


class Finding(NamedTuple):
    """One anomaly, and where it is.

    Attributes:
        anomaly: what it is.
        key: the partition, None where there are several.
        events: places in the history of the operations concerned.
        text: the rest, for people.
        is_allowed: Kafka does not promise otherwise.
    """

    anomaly: Anomaly
    key: Key | None
    events: Sequence[int]
    text: str
    is_allowed: bool = False

    def __str__(self) -> str:
        where = "" if self.key is None else f" {self.key[0]}-{self.key[1]}"
        allowed = " (allowed)" if self.is_allowed else ""
        events = ", ".join(map(str, self.events))
        return f"{self.anomaly.value}{allowed}{where}: {self.text} [events {events}]"


class Findings:
    """Gathers findings: all are counted, the first ones of each kind are kept.

    Args:
        allowed: kinds that this workload may show.
    """

    def __init__(self, allowed: Collection[Anomaly] = ()) -> None:
        self._allowed = ALWAYS_ALLOWED | frozenset(allowed)
        self.kept: list[Finding] = []
        self.counts: Counter[tuple[Anomaly, bool]] = Counter()

    def add(
        self,
        anomaly: Anomaly,
        key: Key | None,
        events: Sequence[int],
        text: str,
        *,
        is_allowed: bool = False,
    ) -> None:
        is_allowed = is_allowed or anomaly in self._allowed
        self.counts[anomaly, is_allowed] += 1
        if self.counts[anomaly, is_allowed] <= KEPT_OF_A_KIND_MAX:
            self.kept.append(Finding(anomaly, key, tuple(events), text, is_allowed))
