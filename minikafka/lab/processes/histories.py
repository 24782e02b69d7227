"""A run as a history, for the checker that knows what Kafka promises about operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from minikafka.testing.history.anomalies import Anomaly
from minikafka.testing.history.checker import Report, check_history
from minikafka.testing.history.operations import Assign, Event, Key, Operation, Outcome, Poll, Send

from ..ledger import Fate, Ledger
from ..matrix import Acks, Cell, TopicMode

_TOPIC: Final = "topic"
_OUTCOMES: Final = {
    Fate.TRUSTED: Outcome.OK,
    Fate.REFUSED: Outcome.FAIL,
    Fate.UNKNOWN: Outcome.INFO,
}


Log = Sequence[tuple[int, str]]
"""Offsets and values of a partition, from its beginning to its end."""


def check_run(cell: Cell, ledger: Ledger, logs: Sequence[Log]) -> Report:
    """Judge what a run's producer was told against the logs of its partitions at the end."""
    return check_history(history_of(cell, ledger, logs), allowed=allowed_of(cell))


def allowed_of(cell: Cell) -> Collection[Anomaly]:
    """What a cell may show beyond what every workload may."""
    allowed: set[Anomaly] = set()
    if cell.producer.acks is not Acks.ALL or cell.topic.min_insync < TopicMode().min_insync:
        allowed |= {Anomaly.LOST_WRITE, Anomaly.UNSEEN}
    if not cell.producer.is_idempotent:
        allowed |= {Anomaly.DUPLICATE, Anomaly.NONMONOTONIC_SEND}
    return allowed


def history_of(cell: Cell, ledger: Ledger, logs: Sequence[Log]) -> list[Event]:
    """The producer's sends and transactions, and a reader of the whole log behind them."""
    events: list[Event] = []
    keys: dict[str, Key] = {}
    for producer, value in ledger.sent:
        keys[value] = (_TOPIC, int(producer.rpartition("-")[2]))
    number_of = {value: n for n, values in enumerate(ledger.transactions) for value in values}
    groups: dict[str | int, list[str]] = {}
    for value in keys:
        groups.setdefault(number_of.get(value, value), []).append(value)
    clock = 0.0
    for values in groups.values():
        outcome = _OUTCOMES[ledger.fates.get(values[0], Fate.UNKNOWN)]
        if cell.producer.acks is Acks.NONE:
            outcome = Outcome.INFO
        sends = [Send(keys[value], value) for value in values]
        events.append(Operation("producer", outcome, sends, clock, clock + 1))
        clock += 2
    places = [(_TOPIC, partition) for partition in range(len(logs))]
    events.append(Assign("reader", frozenset(places)))
    read = Poll({key: log for key, log in zip(places, logs, strict=True) if log})
    events.append(Operation("reader", Outcome.OK, [read], clock, clock + 1))
    return events
