"""What happened to each record, and how often something happened that a guarantee is about.

Every engine keeps such a ledger, and one function counts: so all columns mean the same. A value is
sent once by the program and names its record; a producer that sends it again sends the same value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import NamedTuple


class Fate(Enum):
    """What the program was told of a record that it sent."""

    TRUSTED = "trusted"
    """It was acknowledged; with acks=0, it was handed to the network."""
    REFUSED = "refused"
    """An error says that it was not stored, or its transaction was aborted."""
    UNKNOWN = "unknown"
    """Neither: no answer came, and the producer gave up or died."""


class Counts(NamedTuple):
    """What a run came to, in records.

    Attributes:
        sent: handed to the producer.
        trusted: the program may rely on them; see `Fate`.
        refused: the program was told that they are not stored.
        too_few: refused, for good or until the producer tried again, because too few replicas were
            in sync (NOT_ENOUGH_REPLICAS).
        stored: different records in the log at the end, committed transactions only.
        lost: trusted and not in the log; with a consumer: in the log and without a result.
        repeated: further copies in the log; with a consumer: further results.
        reordered: records whose first copy comes after one that was sent later by this producer.
        aborted_read: results of records whose transaction was aborted, or was never committed.
        torn: transactions of which a reader got a part.
        vanished: records that a consumer had read and that are no longer in the log.
        results: what the consumer came to, with its repetitions.
    """

    sent: int = 0
    trusted: int = 0
    refused: int = 0
    too_few: int = 0
    stored: int = 0
    lost: int = 0
    repeated: int = 0
    reordered: int = 0
    aborted_read: int = 0
    torn: int = 0
    vanished: int = 0
    results: int = 0

    def __add__(self, other: object) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass
class Ledger:
    """What happened, written down by an engine while it runs.

    Attributes:
        sent: values in the order of sending, with the producer that sent them.
        fates: by value; a value without a fate is unknown.
        too_few: values that were refused with NOT_ENOUGH_REPLICAS (either of them), also those
            that were stored later.
        log: values in the order of the log when all is calm again, open and aborted transactions
            left out; each partition after the other.
        read: values that consumers were given, in this order, with repetitions.
        results: values whose processing has had an effect, with repetitions; None where nothing
            is processed.
        transactions: the values of each transaction of the producer.
    """

    sent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    fates: dict[str, Fate] = field(default_factory=dict[str, Fate])
    too_few: set[str] = field(default_factory=set[str])
    log: list[str] = field(default_factory=list[str])
    read: list[str] = field(default_factory=list[str])
    results: list[str] | None = None
    transactions: list[list[str]] = field(default_factory=list[list[str]])

    def count(self) -> Counts:
        """Count what a guarantee is about."""
        copies = Counter(self.log)
        trusted = [value for _, value in self.sent if self.fates.get(value) is Fate.TRUSTED]
        results = Counter(self.results or ())
        if self.results is None:
            lost = sum(value not in copies for value in trusted)
            repeated = sum(copies.values()) - len(copies)
        else:
            lost = sum(value not in results for value in copies)
            repeated = sum(results.values()) - len(results)
        seen = set(self.read)
        refused = {value for value, fate in self.fates.items() if fate is Fate.REFUSED}
        # A broken broker may show them to whoever reads the log at the end, too.
        aborted = refused.intersection(chain.from_iterable(self.transactions))
        return Counts(
            sent=len(self.sent),
            trusted=len(trusted),
            refused=len(refused),
            too_few=len(self.too_few),
            stored=len(copies),
            lost=lost,
            repeated=repeated,
            reordered=_reordered(self.sent, self.log),
            aborted_read=len((seen & refused - copies.keys()) | (seen & aborted)),
            torn=sum(0 < len(seen.intersection(one)) < len(one) for one in self.transactions),
            vanished=sum(value not in copies and value not in refused for value in seen),
            results=sum(results.values()),
        )


def _reordered(sent: Iterable[tuple[str, str]], log: Iterable[str]) -> int:
    """Records whose first copy stands behind one that their producer sent later."""
    numbers: dict[str, tuple[str, int]] = {}
    for number, (producer, value) in enumerate(sent):
        numbers.setdefault(value, (producer, number))
    latest: dict[str, int] = {}
    found = 0
    for value in dict.fromkeys(log):
        if value not in numbers:
            continue
        producer, number = numbers[value]
        if number < latest.get(producer, -1):
            found += 1
        else:
            latest[producer] = number
    return found
