"""A correct Kafka of a few lines, and clients that use it at random: histories without anomalies.

Transactions happen one after the other. A failed one may leave its records in the log, where no
reader sees them but every later offset is higher for it; a commit leaves a control record. Of some
operations the outcome is unknown, whatever it was. At the end a last process reads everything.
"""

from __future__ import annotations

import random

from minikafka.testing.history.operations import (
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

_ACTIONS_MAX = 4
_POLLED_MAX = 5


class Model:
    """The log, and the history of all processes.

    Args:
        dice: decides everything.
        keys: how many partitions there are.
        processes: how many clients.
    """

    def __init__(self, dice: random.Random, keys: int = 2, processes: int = 3) -> None:
        self._dice = dice
        self._keys: list[Key] = [("t", number) for number in range(keys)]
        self._names = [f"p{number}" for number in range(processes)]
        # For each key: where values that readers see are; and the next free offset.
        self._visible: dict[Key, list[tuple[int, Value]]] = {key: [] for key in self._keys}
        self._end: dict[Key, int] = dict.fromkeys(self._keys, 0)
        # For each process and key: how many visible records it has passed.
        self._position: dict[str, dict[Key, int]] = {}
        self._subscribed: set[str] = set()
        self._next_value = 0
        self._clock = 0
        self.history: list[Event] = []
        for name in self._names:
            self._assign(name)

    def run(self, steps: int) -> list[Event]:
        """Do so many random things, then read everything; returns the history."""
        for _ in range(steps):
            self._step(self._dice.choice(self._names))
        self._names.append("last")
        self._position["last"] = dict.fromkeys(self._keys, 0)
        self.history.append(Assign("last", frozenset(self._keys), is_seeking=True))
        for key in self._keys:
            while self._position["last"][key] < len(self._visible[key]):
                poll = Poll({key: self._take("last", key)})
                self._record("last", Outcome.OK, [poll])
        return self.history

    def _step(self, name: str) -> None:
        roll = self._dice.random()
        if roll < 0.05:
            self._crash(name)
        elif roll < 0.10:
            self._assign(name)
        elif roll < 0.13:
            self._subscribed.add(name)
            self.history.append(Subscribe(name))
        elif roll < 0.18 and name in self._subscribed:
            self._rebalance(name)
        else:
            self._transact(name)

    def _crash(self, name: str) -> None:
        self.history.append(Crash(name))
        self._subscribed.discard(name)
        self._assign(name)

    def _assign(self, name: str) -> None:
        self._subscribed.discard(name)
        keys = [key for key in self._keys if self._dice.random() < 0.8]
        is_seeking = self._dice.random() < 0.3
        before = {} if is_seeking else self._position.get(name, {})
        self._position[name] = {key: before.get(key, self._anywhere(key)) for key in keys}
        self.history.append(Assign(name, frozenset(keys), is_seeking))

    def _rebalance(self, name: str) -> None:
        self._position[name] = {
            key: self._anywhere(key) for key in self._keys if self._dice.random() < 0.8
        }
        self.history.append(Rebalance(name))

    def _anywhere(self, key: Key) -> int:
        return self._dice.randint(0, len(self._visible[key]))

    def _transact(self, name: str) -> None:
        happens = self._dice.random() < 0.85
        is_known = self._dice.random() < 0.85
        is_written = happens or self._dice.random() < 0.5
        written: dict[Key, list[tuple[int, Value]]] = {}
        actions: list[Send | Poll] = []
        positions = dict(self._position[name])
        for _ in range(self._dice.randint(1, _ACTIONS_MAX)):
            if self._dice.random() < 0.5:
                key = self._dice.choice(self._keys)
                value = self._next_value
                self._next_value += 1
                offset: int | None = None
                if is_written:
                    offset = self._end[key]
                    self._end[key] += 1
                    written.setdefault(key, []).append((offset, value))
                    if not is_known and self._dice.random() < 0.5:
                        offset = None
                actions.append(Send(key, value, offset))
            elif self._position[name]:
                keys = self._dice.sample(sorted(self._position[name]), 1)
                actions.append(Poll({key: self._take(name, key) for key in keys}))
        if is_written and len(actions) > 1:
            for key in written:  # a control record ends it
                self._end[key] += 1
        if happens:
            for key, records in written.items():
                self._visible[key] += records
        if not happens and self._dice.random() < 0.5:
            self._position[name] = positions
        known = Outcome.OK if happens else Outcome.FAIL
        self._record(name, known if is_known else Outcome.INFO, actions)

    def _take(self, name: str, key: Key) -> list[tuple[int, Value]]:
        start = self._position[name][key]
        records = self._visible[key][start : start + self._dice.randint(0, _POLLED_MAX)]
        self._position[name][key] += len(records)
        return records

    def _record(self, name: str, outcome: Outcome, actions: list[Send | Poll]) -> None:
        self._clock += 2
        self.history.append(Operation(name, outcome, tuple(actions), self._clock, self._clock + 1))
