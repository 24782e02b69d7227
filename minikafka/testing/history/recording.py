"""Records a history while clients work, from any thread or task.

    recorder = Recorder()
    send = recorder.send("producer 1", ("orders", 0), b"value")
    send.ok(offset)     # or send.fail(); what is never ended counts as unknown
    report = check_history(recorder.history())

A history that is read while it is still recorded shows what has happened so far.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from .operations import (
    Assign,
    Crash,
    Event,
    Key,
    Operation,
    Outcome,
    Poll,
    Rebalance,
    Send,
    Subscribe,
    Value,
)


class Recorded:
    """An operation that has begun.

    Attributes:
        process: whose it is.
        actions: what it does; may be added to until it ends.
    """

    __slots__ = ("_completed", "_invoked", "_outcome", "_tick", "actions", "process")

    def __init__(self, process: str, actions: list[Send | Poll], tick: Callable[[], int]) -> None:
        self.process = process
        self.actions = actions
        self._tick = tick
        self._invoked = tick()
        self._completed = -1
        self._outcome = Outcome.INFO

    def ok(self, offset: int | None = None) -> None:
        """It happened; `offset` is where its only send went."""
        if offset is not None:
            (send,) = self.actions
            assert isinstance(send, Send)
            self.actions[0] = send._replace(offset=offset)
        self._end(Outcome.OK)

    def fail(self) -> None:
        """It did not happen and never will."""
        self._end(Outcome.FAIL)

    def info(self) -> None:
        """The outcome is unknown."""
        self._end(Outcome.INFO)

    def _end(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._completed = self._tick()

    def operation(self) -> Operation:
        """It, as it stands now."""
        completed = float("inf") if self._completed < 0 else self._completed
        return Operation(self.process, self._outcome, tuple(self.actions), self._invoked, completed)


class Recorder:
    """Gathers events in the order in which they began; its clock counts events."""

    def __init__(self) -> None:
        self._events: list[Recorded | Assign | Subscribe | Rebalance | Crash] = []
        # A step of a count is one call into C, which no other thread can split.
        self._tick = itertools.count().__next__

    def begin(self, process: str, actions: Iterable[Send | Poll] = ()) -> Recorded:
        """An operation begins."""
        recorded = Recorded(process, list(actions), self._tick)
        self._events.append(recorded)
        return recorded

    def send(self, process: str, key: Key, value: Value) -> Recorded:
        """A single record is about to be sent."""
        return self.begin(process, [Send(key, value)])

    def poll(self, process: str, records: Mapping[Key, Sequence[tuple[int, Value]]]) -> None:
        """A poll has returned these records."""
        self.begin(process, [Poll(records)]).ok()

    def note(self, event: Assign | Subscribe | Rebalance | Crash) -> None:
        """Something else happened to a process."""
        self._events.append(event)

    def history(self) -> list[Event]:
        """Everything so far."""
        return [
            event.operation() if isinstance(event, Recorded) else event
            for event in list(self._events)
        ]


def save_history(path: Path, history: Iterable[Event]) -> None:
    """Write a history as text, an event a line, to be read by people."""
    with path.open("w", encoding="utf-8") as file:
        for number, event in enumerate(history):
            kind = type(event).__name__.lower()
            json.dump([number, kind, _plain(event)], file, default=repr)
            file.write("\n")


def _plain(event: Event) -> object:
    if not isinstance(event, Operation):
        return event._asdict()
    actions: list[object] = []
    for action in event.actions:
        if isinstance(action, Send):
            actions.append(["send", *action.key, action.value, action.offset])
        else:
            actions += [["poll", *key, list(some)] for key, some in action.records.items()]
    return {
        "process": event.process,
        "outcome": event.outcome.value,
        "invoked": event.invoked,
        "completed": event.completed,
        "actions": actions,
    }
