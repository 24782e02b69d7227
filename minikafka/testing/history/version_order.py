"""What all clients together saw and wrote: which operations happened, and each key's order.

An operation is *committed* if its client knows so, or if that is unknown and a successful poll
returned one of its writes. The order of a key's values comes from their offsets: those that
committed writers were given, and those of all polls. Positions in that order are called *places*
here: they have no gaps where a log has control records, so that two neighbours are one apart.
"""

from __future__ import annotations

from typing import NamedTuple

from .anomalies import Anomaly, Findings
from .operations import History, Key, Operation, Outcome, Poll, Send, Value


class VersionOrder(NamedTuple):
    """The values of one key, in the order of the log.

    Attributes:
        offsets: rising.
        values: one for each offset; where offsets are inconsistent, one of them.
        place_of_offset: offset to its place in `offsets`.
        place_of_value: value to its first place.
    """

    offsets: list[int]
    values: list[Value]
    place_of_offset: dict[int, int]
    place_of_value: dict[Value, int]


_EMPTY = VersionOrder([], [], {}, {})


class Observed:
    """Everything that the other checks need to know about a history.

    Args:
        history: what happened.

    Attributes:
        writers: for each key, each value's operation (its place in the history).
        seen: for each key, the values that successful polls returned.
        last_read: for each key, the highest offset that a successful poll returned.
        committed: places in the history of committed operations.
        orders: for each key, the order of its values.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.writers: dict[Key, dict[Value, int]] = {}
        self.seen: dict[Key, set[Value]] = {}
        self.last_read: dict[Key, int] = {}
        self.committed: set[int] = set()
        self.orders: dict[Key, VersionOrder] = {}
        self._at: dict[Key, dict[int, Value]] = {}
        self._conflicts: dict[Key, dict[int, list[Value]]] = {}
        self._note_writers_and_polls()
        self._find_committed()
        for key, values in self._at.items():
            self.orders[key] = _in_order(values)

    def _note_writers_and_polls(self) -> None:
        for number, event in enumerate(self.history):
            if not isinstance(event, Operation):
                continue
            is_ok = event.outcome is Outcome.OK
            for action in event.actions:
                if isinstance(action, Send):
                    writer = self.writers.setdefault(action.key, {}).setdefault(
                        action.value, number
                    )
                    if writer != number:
                        raise ValueError(
                            f"events {writer} and {number} both send {action.value!r} to "
                            f"{action.key}; a history needs unique values"
                        )
                else:
                    self._note_poll(action, is_ok=is_ok)

    def _note_poll(self, poll: Poll, *, is_ok: bool) -> None:
        for key, records in poll.records.items():
            at = self._at.setdefault(key, {})
            for offset, value in records:
                if at.setdefault(offset, value) != value:
                    self._conflict(key, offset, value)
            if is_ok and records:
                self.seen.setdefault(key, set()).update([value for _, value in records])
                highest = max(offset for offset, _ in records)
                self.last_read[key] = max(self.last_read.get(key, -1), highest)

    def _conflict(self, key: Key, offset: int, value: Value) -> None:
        others = self._conflicts.setdefault(key, {}).setdefault(offset, [self._at[key][offset]])
        if value not in others:
            others.append(value)

    def _find_committed(self) -> None:
        nothing: set[Value] = set()
        for number, event in enumerate(self.history):
            if not isinstance(event, Operation) or event.outcome is Outcome.FAIL:
                continue
            sends = [action for action in event.actions if isinstance(action, Send)]
            if event.outcome is Outcome.INFO and not any(
                send.value in self.seen.get(send.key, nothing) for send in sends
            ):
                continue
            self.committed.add(number)
            for send in sends:
                if send.offset is not None:
                    at = self._at.setdefault(send.key, {})
                    if at.setdefault(send.offset, send.value) != send.value:
                        self._conflict(send.key, send.offset, send.value)

    def writer_of(self, key: Key, value: Value) -> int | None:
        """The operation that wrote a value, or None."""
        return self.writers.get(key, {}).get(value)

    def place_of(self, send: Send) -> int | None:
        """Where a send of a committed operation went, or None if unknown."""
        order = self.orders.get(send.key)
        if order is None:
            return None
        if send.offset is not None:
            return order.place_of_offset[send.offset]
        return order.place_of_value.get(send.value)

    def check(self, findings: Findings, *, is_caught_up: bool) -> None:
        """Check the logs themselves, and the outcome of each write.

        Args:
            findings: gets what is wrong.
            is_caught_up: at its end a process has read each key from the beginning to the end.
        """
        self._check_offsets(findings)
        self._check_writes(findings, is_caught_up=is_caught_up)

    def _check_offsets(self, findings: Findings) -> None:
        for key, conflicts in self._conflicts.items():
            for offset, values in sorted(conflicts.items()):
                writers = [self.writers.get(key, {}).get(value, -1) for value in values]
                findings.add(
                    Anomaly.INCONSISTENT_OFFSETS, key, writers, f"offset {offset} has {values}"
                )
        for key, order in self.orders.items():
            # Usually every value is there once and nothing more needs to be looked at.
            values = [value for some in self._conflicts.get(key, {}).values() for value in some[1:]]
            if len(order.place_of_value) == len(order.values) and not values:
                continue
            offsets_of: dict[Value, set[int]] = {}
            for offset, value in zip(order.offsets, order.values, strict=True):
                offsets_of.setdefault(value, set()).add(offset)
            for offset, some in self._conflicts.get(key, {}).items():
                for value in some:
                    offsets_of.setdefault(value, set()).add(offset)
            for value, offsets in offsets_of.items():
                if len(offsets) > 1:
                    writer = self.writers.get(key, {}).get(value, -1)
                    text = f"{value!r} is at offsets {sorted(offsets)}"
                    findings.add(Anomaly.DUPLICATE, key, [writer], text)

    def _check_writes(self, findings: Findings, *, is_caught_up: bool) -> None:
        for key, writers in self.writers.items():
            seen = self.seen.get(key, set())
            if seen.issuperset(writers):
                continue
            order = self.orders.get(key)
            bound = -1
            if order is not None and key in self.last_read:
                bound = order.place_of_offset[self.last_read[key]]
            for number in sorted({writers[value] for value in writers.keys() - seen}):
                if number in self.committed:
                    self._check_unseen(findings, key, number, bound, is_caught_up=is_caught_up)

    def _check_unseen(
        self, findings: Findings, key: Key, number: int, bound: int, *, is_caught_up: bool
    ) -> None:
        operation, order = self.history[number], self.orders.get(key, _EMPTY)
        assert isinstance(operation, Operation)
        for send in operation.actions:
            if not isinstance(send, Send) or send.key != key:
                continue
            if send.value in self.seen.get(key, ()):
                continue
            place = self.place_of(send)
            last = self.last_read.get(key)
            where = "an unknown offset" if place is None else f"offset {order.offsets[place]}"
            text = f"{send.value!r} at {where}; readers came to {last}"
            if place is not None and place <= bound:
                findings.add(Anomaly.LOST_WRITE, key, [number], text)
            elif is_caught_up:
                findings.add(Anomaly.UNSEEN, key, [number], text)


def _in_order(at: dict[int, Value]) -> VersionOrder:
    offsets = sorted(at)
    values = [at[offset] for offset in offsets]
    place_of_value: dict[Value, int] = {}
    for place, value in enumerate(values):
        place_of_value.setdefault(value, place)
    return VersionOrder(
        offsets, values, {offset: place for place, offset in enumerate(offsets)}, place_of_value
    )
