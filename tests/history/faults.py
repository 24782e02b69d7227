"""One broken promise for a history that had none: the checker has to find it.

Each function changes a history of `tests.history.model` and returns it, or None where this history
has no place for it. The dice choose the place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from minikafka.testing.history.anomalies import Anomaly
from minikafka.testing.history.operations import (
    Crash,
    Event,
    Key,
    Operation,
    Outcome,
    Poll,
    Send,
    Value,
)

_NEW_VALUE = "never sent"
_LAST = "last"


class _Read(NamedTuple):
    """A poll with records, in an operation that succeeded."""

    event: int
    action: int
    key: Key
    records: list[tuple[int, Value]]


class _Write(NamedTuple):
    """A send of an operation that succeeded."""

    event: int
    action: int
    send: Send


def _reads(history: list[Event], process: str | None = None) -> Iterator[_Read]:
    for number, event in enumerate(history):
        if isinstance(event, Operation) and event.outcome is Outcome.OK:
            if process is not None and event.process != process:
                continue
            for place, action in enumerate(event.actions):
                if isinstance(action, Poll):
                    for key, records in action.records.items():
                        if records:
                            yield _Read(number, place, key, list(records))


def _writes(history: list[Event]) -> Iterator[_Write]:
    for number, event in enumerate(history):
        if isinstance(event, Operation) and event.outcome is Outcome.OK:
            for place, action in enumerate(event.actions):
                if isinstance(action, Send):
                    yield _Write(number, place, action)


def _last_offsets(history: list[Event]) -> dict[Key, int]:
    return {read.key: read.records[-1][0] for read in _reads(history, _LAST)}


def _operation(history: list[Event], number: int) -> Operation:
    event = history[number]
    assert isinstance(event, Operation)
    return event


def _with_action(
    history: list[Event], number: int, place: int, action: Send | Poll | None
) -> list[Event]:
    operation = _operation(history, number)
    actions = list(operation.actions)
    actions[place : place + 1] = [] if action is None else [action]
    changed: list[Event] = list(history)
    changed[number] = operation._replace(actions=tuple(actions))
    return changed


def _without_value(history: list[Event], key: Key, value: Value) -> list[Event]:
    """It is never polled."""
    changed: list[Event] = []
    for event in history:
        if isinstance(event, Operation):
            actions: list[Send | Poll] = []
            for action in event.actions:
                if isinstance(action, Poll) and key in action.records:
                    kept = [record for record in action.records[key] if record[1] != value]
                    actions.append(Poll({**action.records, key: kept}))
                else:
                    actions.append(action)
            changed.append(event._replace(actions=tuple(actions)))
        else:
            changed.append(event)
    return changed


def another_value_at_an_offset(history: list[Event], dice: random.Random) -> list[Event] | None:
    """A poll sees another value than the last reader does."""
    reads = [read for read in _reads(history) if _operation(history, read.event).process != _LAST]
    if not reads:
        return None
    read = dice.choice(reads)
    records = list(read.records)
    place = dice.randrange(len(records))
    records[place] = (records[place][0], _NEW_VALUE)
    return _with_action(history, read.event, read.action, Poll({read.key: records}))


def the_same_value_again(history: list[Event], dice: random.Random) -> list[Event] | None:
    """The last reader finds a value once more behind the end."""
    reads = list(_reads(history, _LAST))
    if not reads:
        return None
    key = dice.choice(reads).key
    value = dice.choice([value for read in reads if read.key == key for _, value in read.records])
    end = _last_offsets(history)[key] + 1
    return [*history, Operation(_LAST, Outcome.OK, (Poll({key: [(end, value)]}),), 1e9, 1e9)]


def a_lost_value(history: list[Event], dice: random.Random) -> list[Event] | None:
    """An acknowledged record is never read, though readers go past it."""
    last = _last_offsets(history)
    sends = [write.send for write in _writes(history)]
    lost = [send for send in sends if send.offset is not None and send.offset < last[send.key]]
    if not lost:
        return None
    send = dice.choice(lost)
    return _without_value(history, send.key, send.value)


def a_lost_end(history: list[Event], dice: random.Random) -> list[Event] | None:
    """The last record of a key is never read, though it was acknowledged."""
    last = _last_offsets(history)
    lost = [write.send for write in _writes(history) if write.send.offset == last[write.send.key]]
    if not lost:
        return None
    send = dice.choice(lost)
    return _without_value(history, send.key, send.value)


def a_failure_that_can_be_read(history: list[Event], dice: random.Random) -> list[Event] | None:
    """A refused record was read."""
    writes = list(_writes(history))
    if not writes:
        return None
    number = dice.choice(writes).event
    changed = list(history)
    changed[number] = _operation(history, number)._replace(outcome=Outcome.FAIL)
    return changed


def a_value_from_nowhere(history: list[Event], dice: random.Random) -> list[Event] | None:
    """What was read was never sent."""
    writes = list(_writes(history))
    if not writes:
        return None
    write = dice.choice(writes)
    return _with_action(history, write.event, write.action, None)


def reading_ones_own_transaction(history: list[Event], dice: random.Random) -> list[Event] | None:
    """An operation polls what it has just sent."""
    writes = list(_writes(history))
    if not writes:
        return None
    write = dice.choice(writes)
    assert write.send.offset is not None
    changed = list(history)
    operation = _operation(history, write.event)
    poll = Poll({write.send.key: [(write.send.offset, write.send.value)]})
    changed[write.event] = operation._replace(actions=(*operation.actions, poll))
    return changed


def a_poll_that_was_lost(history: list[Event], dice: random.Random) -> list[Event] | None:
    """The last reader misses what one of its polls returned; another reader sees it."""
    reads = list(_reads(history, _LAST))
    inner = [
        two.event
        for one, two, three in zip(reads, reads[1:], reads[2:], strict=False)
        if one.key == two.key == three.key
    ]
    if not inner:
        return None
    number = dice.choice(inner)
    seen = _operation(history, number)._replace(process="witness")
    return [*history[:number], *history[number + 1 :], seen]


def a_poll_that_comes_twice(history: list[Event], dice: random.Random) -> list[Event] | None:
    """The last reader gets a poll's records again."""
    reads = list(_reads(history, _LAST))
    if not reads:
        return None
    number = dice.choice(reads).event
    return [*history[: number + 1], history[number], *history[number + 1 :]]


def a_record_missing_in_a_poll(history: list[Event], dice: random.Random) -> list[Event] | None:
    """A poll lacks one of its middle records, which others see."""
    reads = [read for read in _reads(history) if len(read.records) > 2]
    if not reads:
        return None
    read = dice.choice(reads)
    place = dice.randrange(1, len(read.records) - 1)
    records = read.records[:place] + read.records[place + 1 :]
    changed = _with_action(history, read.event, read.action, Poll({read.key: records}))
    everything = Poll({read.key: read.records})
    return [*changed, Operation("witness", Outcome.OK, (everything,), 1e9, 1e9)]


def a_poll_backwards(history: list[Event], dice: random.Random) -> list[Event] | None:
    """A poll returns its records in the wrong order."""
    reads = [read for read in _reads(history) if len(read.records) > 1]
    if not reads:
        return None
    read = dice.choice(reads)
    poll = Poll({read.key: read.records[::-1]})
    return _with_action(history, read.event, read.action, poll)


def sends_in_the_wrong_order(history: list[Event], dice: random.Random) -> list[Event] | None:
    """A process's later send stands before its earlier one in the log."""
    pairs: list[tuple[int, int]] = []
    last: dict[tuple[str, Key], int] = {}
    for number, event in enumerate(history):
        if isinstance(event, Crash):
            last = {place: n for place, n in last.items() if place[0] != event.process}
        if not isinstance(event, Operation) or event.outcome is not Outcome.OK:
            continue
        for action in event.actions:
            if isinstance(action, Send):
                place = (event.process, action.key)
                before = last.get(place, number)
                if before != number:
                    pairs.append((before, number))
                last[place] = number
    if not pairs:
        return None
    one, two = dice.choice(pairs)
    changed = list(history)
    changed[one], changed[two] = history[two], history[one]
    return changed


def sends_of_one_operation_in_the_wrong_order(
    history: list[Event], dice: random.Random
) -> list[Event] | None:
    """The same inside one operation."""
    pairs = [
        (one, two)
        for one in _writes(history)
        for two in _writes(history)
        if one.event == two.event and one.action < two.action and one.send.key == two.send.key
    ]
    if not pairs:
        return None
    one, two = dice.choice(pairs)
    changed = _with_action(history, one.event, one.action, two.send)
    return _with_action(changed, two.event, two.action, one.send)


def news_from_the_future(history: list[Event], dice: random.Random) -> list[Event] | None:
    """Before a process writes, it reads what another one wrote after reading that very write."""
    wrote = {(write.send.key, write.send.value): write.event for write in _writes(history)}
    answers = {write.event: write.send for write in _writes(history)}
    pairs = [
        (wrote[read.key, value], answers[read.event])
        for read in _reads(history)
        for _, value in read.records
        if read.event in answers and wrote.get((read.key, value), read.event) != read.event
    ]
    if not pairs:
        return None
    number, answer = dice.choice(pairs)
    writer = _operation(history, number)
    assert answer.offset is not None
    poll = Poll({answer.key: [(answer.offset, answer.value)]})
    before = Operation(
        writer.process, Outcome.OK, (poll,), writer.invoked - 0.5, writer.invoked - 0.5
    )
    return [*history[:number], before, *history[number:]]


FAULTS: dict[Anomaly, Callable[[list[Event], random.Random], list[Event] | None]] = {
    Anomaly.INCONSISTENT_OFFSETS: another_value_at_an_offset,
    Anomaly.DUPLICATE: the_same_value_again,
    Anomaly.LOST_WRITE: a_lost_value,
    Anomaly.UNSEEN: a_lost_end,
    Anomaly.ABORTED_READ: a_failure_that_can_be_read,
    Anomaly.UNWRITTEN_READ: a_value_from_nowhere,
    Anomaly.PRECOMMITTED_READ: reading_ones_own_transaction,
    Anomaly.POLL_SKIP: a_poll_that_was_lost,
    Anomaly.NONMONOTONIC_POLL: a_poll_that_comes_twice,
    Anomaly.INTERNAL_POLL_SKIP: a_record_missing_in_a_poll,
    Anomaly.INTERNAL_NONMONOTONIC_POLL: a_poll_backwards,
    Anomaly.NONMONOTONIC_SEND: sends_in_the_wrong_order,
    Anomaly.INTERNAL_NONMONOTONIC_SEND: sends_of_one_operation_in_the_wrong_order,
    Anomaly.CIRCULAR_INFORMATION_FLOW: news_from_the_future,
}
