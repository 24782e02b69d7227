"""What one process saw and wrote after the other: no record skipped, none twice, none backwards.

Places are those of `Observed.orders`. An operation that failed, or of which it is unknown how it
ended, may or may not have moved its consumer: what its process polls next can begin anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .anomalies import Anomaly, Findings
from .operations import (
    Assign,
    Crash,
    Key,
    Operation,
    Outcome,
    Poll,
    Rebalance,
    Send,
    Subscribe,
    Value,
)
from .version_order import Observed

_Last = tuple[int, int]
"""A place, and the event that it comes from."""


class _Process:
    """Where a process is."""

    def __init__(self) -> None:
        self.polled: dict[Key, _Last] = {}
        self.sent: dict[Key, _Last] = {}
        self.is_subscribed = False
        # Keys whose next poll may go anywhere, because the group moved them.
        self.rebalanced: set[Key] = set()


def check_process_order(observed: Observed, findings: Findings) -> None:
    """Find what processes polled and sent out of order, and what they read too early."""
    processes: dict[str, _Process] = {}
    for number, event in enumerate(observed.history):
        process = processes.setdefault(event.process, _Process())
        match event:
            case Operation():
                _check_operation(observed, findings, process, number, event)
            case Assign(keys=keys, is_seeking=is_seeking):
                kept = frozenset[Key]() if is_seeking else keys - process.rebalanced
                process.polled = {key: process.polled[key] for key in kept & process.polled.keys()}
                process.is_subscribed = False
                process.rebalanced.clear()
            case Subscribe():
                process.is_subscribed = True
                process.rebalanced |= process.polled.keys()
            case Rebalance():
                process.rebalanced |= process.polled.keys()
            case Crash():
                del processes[event.process]


def _check_operation(
    observed: Observed, findings: Findings, process: _Process, number: int, operation: Operation
) -> None:
    own: set[tuple[Key, Value]] = set()
    polled_here: dict[Key, int] = {}
    sent_here: dict[Key, int] = {}
    is_ok = operation.outcome is Outcome.OK
    for action in operation.actions:
        if isinstance(action, Send):
            own.add((action.key, action.value))
            if is_ok:
                _check_send(observed, findings, process, number, action, sent_here)
            continue
        for key, records in action.records.items():
            if own:
                _check_own(findings, number, own, key, records)
            if is_ok and records:
                _check_poll(observed, findings, process, number, key, records, polled_here)
    if not is_ok and any(isinstance(action, Poll) for action in operation.actions):
        process.polled.clear()
        process.rebalanced.clear()


def _check_own(
    findings: Findings,
    number: int,
    own: set[tuple[Key, Value]],
    key: Key,
    records: Sequence[tuple[int, Value]],
) -> None:
    for offset, value in records:
        if (key, value) in own:
            text = f"its own {value!r} at offset {offset}"
            findings.add(Anomaly.PRECOMMITTED_READ, key, [number], text)


def _check_send(
    observed: Observed,
    findings: Findings,
    process: _Process,
    number: int,
    send: Send,
    sent_here: dict[Key, int],
) -> None:
    place = observed.place_of(send)
    if place is None:
        return
    key = send.key
    before = sent_here.get(key)
    if before is not None:
        if place <= before:
            text = f"{send.value!r} at place {place}, after one at {before}"
            findings.add(Anomaly.INTERNAL_NONMONOTONIC_SEND, key, [number], text)
        elif place > before + 1:
            text = f"{send.value!r} at place {place}, after one at {before}"
            findings.add(Anomaly.INTERNAL_SEND_SKIP, key, [number], text)
    elif key in process.sent and place <= process.sent[key][0]:
        last, event = process.sent[key]
        text = f"{send.value!r} at place {place}, after one at {last}"
        findings.add(Anomaly.NONMONOTONIC_SEND, key, [event, number], text)
    sent_here[key] = place
    process.sent[key] = (place, number)


def _check_poll(
    observed: Observed,
    findings: Findings,
    process: _Process,
    number: int,
    key: Key,
    records: Sequence[tuple[int, Value]],
    polled_here: dict[Key, int],
) -> None:
    place_of = observed.orders[key].place_of_offset
    first, last = place_of[records[0][0]], place_of[records[-1][0]]
    before = polled_here.get(key)
    if before is not None:
        _compare_inside(findings, number, key, before, first)
    elif key in process.polled:
        earlier, event = process.polled[key]
        is_allowed = key in process.rebalanced
        text = f"polled place {first}, after {earlier}"
        events = [event, number]
        if first > earlier + 1:
            findings.add(Anomaly.POLL_SKIP, key, events, text, is_allowed=is_allowed)
        elif first <= earlier:
            findings.add(Anomaly.NONMONOTONIC_POLL, key, events, text, is_allowed=is_allowed)
    places = [place_of[offset] for offset, _ in records]
    if places != list(range(first, first + len(places))):
        for one, two in pairwise(places):
            _compare_inside(findings, number, key, one, two)
    process.rebalanced.discard(key)
    polled_here[key] = last
    process.polled[key] = (last, number)


def _compare_inside(findings: Findings, number: int, key: Key, before: int, place: int) -> None:
    if place == before + 1:
        return
    backwards = place <= before
    anomaly = Anomaly.INTERNAL_NONMONOTONIC_POLL if backwards else Anomaly.INTERNAL_POLL_SKIP
    findings.add(anomaly, key, [number], f"polled place {place}, after {before}")
