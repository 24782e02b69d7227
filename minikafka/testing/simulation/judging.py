"""Judges a run: what the program claims, against what the brokers' logs hold.

| violation | what it says |
|---|---|
| ``lost`` | acknowledged, and not in the log; failed, and not repeated; never processed |
| ``duplicated`` | processed, or written to an output, more often than once |
| ``reordered`` | first processed after a later record of its partition |
| ``aborted read``, ``torn read``, ... | what consumers saw is no history that Kafka may show |
| ``crash`` | the program raised something that is no error of Kafka |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ..history.anomalies import Anomaly
from ..history.checker import check_history
from ..history.operations import Assign, Event, Key, Send
from ..history.recording import Recorded, Recorder
from .cluster import Output, Run
from .observing import Consumed, Fate, Reader, Sent
from .outcome import Stored

Guarantee = Literal["at_most_once", "at_least_once", "exactly_once"]
"""How often each record has its effect."""

_ALWAYS_ALLOWED: Final = frozenset({Anomaly.NONMONOTONIC_SEND})
"""A send that failed and is sent again comes later."""
_REPEATING: Final = frozenset({Anomaly.DUPLICATE, Anomaly.INTERNAL_NONMONOTONIC_SEND})
_LOSING: Final = frozenset({Anomaly.LOST_WRITE, Anomaly.UNSEEN})
_ALLOWED: Final[dict[Guarantee, Collection[Anomaly]]] = {
    "at_most_once": _ALWAYS_ALLOWED | _LOSING,
    "at_least_once": _ALWAYS_ALLOWED | _REPEATING,
    "exactly_once": _ALWAYS_ALLOWED,
}
_NAMES: Final = {
    Anomaly.LOST_WRITE: "lost",
    Anomaly.UNSEEN: "lost",
    Anomaly.DUPLICATE: "duplicated",
    Anomaly.ABORTED_READ: "aborted read",
    Anomaly.POLL_SKIP: "torn read",
    Anomaly.INTERNAL_POLL_SKIP: "torn read",
    Anomaly.NONMONOTONIC_POLL: "reordered",
    Anomaly.INTERNAL_NONMONOTONIC_POLL: "reordered",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that did not hold.

    Attributes:
        kind: see the module.
        text: what happened, in a sentence.
        topic: of the record that it happened to, or "".
        partition: likewise, or -1.
        offset: likewise.
        key, value: likewise.
    """

    kind: str
    text: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    key: bytes | None = None
    value: bytes | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judge(run: Run, guarantee: Guarantee, *, in_order: bool) -> list[Violation]:
    """Everything that is wrong with a run that has ended."""
    violations = [
        *_of_producing(run, guarantee),
        *_of_processing(run, guarantee),
        *(_of_order(run) if in_order else ()),
        *(one for output in run.outputs.values() for one in _of_output(run, output, guarantee)),
    ]
    # What is explained by a record needs no second explanation.
    return violations or [*_of_history(run, guarantee)]


def _about(kind: str, text: str, topic: str, partition: int, stored: Stored) -> Violation:
    return Violation(kind, text, topic, partition, stored.offset, stored.key, stored.value)


def _show(value: bytes | None) -> str:
    return "a tombstone" if value is None else repr(value)[1:60]


# --- records that were sent -----------------------------------------------------------------------


def _of_producing(run: Run, guarantee: Guarantee) -> Iterator[Violation]:
    if guarantee == "at_most_once":
        return
    at = {(*place, one.offset): one for place, some in run.stored.items() for one in some}
    there = {(place[0], one.key, one.value) for place, some in run.stored.items() for one in some}
    starts = {place: some[0].offset for place, some in run.stored.items() if some}
    for sent in run.seen.sent:
        if sent.transaction is not None:
            continue  # the history is judged
        what = f"{_show(sent.value)} to {sent.topic}"
        stored = at.get((sent.topic, sent.partition, sent.offset))
        about = (sent.topic, sent.partition, sent.offset, sent.key, sent.value)
        if sent.fate is Fate.DONE and sent.offset >= 0:
            is_deleted = sent.offset < starts.get((sent.topic, sent.partition), 0)
            if not is_deleted and (stored is None or stored.value != sent.value):
                found = "nothing" if stored is None else "another record"
                text = (
                    f"{what} was acknowledged to {sent.life} at offset {sent.offset} of partition "
                    f"{sent.partition}, where the log has {found}"
                )
                yield Violation("lost", text, *about)
        elif _is_given_up(run, sent) and (sent.topic, sent.key, sent.value) not in there:
            text = f"{sent.life} learned that {what} had failed, and did not send it again"
            yield Violation("lost", text, *about)


def _is_given_up(run: Run, sent: Sent) -> bool:
    """Its process knows that it failed, and has lived on since."""
    process = run.processes.get(sent.life.name)
    has_crashed = process is not None and process.life is not sent.life and not process.is_done
    return sent.fate is Fate.FAILED and not sent.life.is_killed and not has_crashed


# --- records that were processed ------------------------------------------------------------------


def _of_processing(run: Run, guarantee: Guarantee) -> Iterator[Violation]:
    counts = Counter((*one.place, one.offset) for one in run.seen.processed)
    topics = {topic for topic, _, _ in counts}
    for (topic, partition), records in run.stored.items():
        for one in records:
            if topic not in topics or not one.is_visible:
                continue
            where = f"{_show(one.value)} (offset {one.offset} of {topic}-{partition})"
            count = counts[topic, partition, one.offset]
            if not count and guarantee != "at_most_once":
                yield _about("lost", f"{where} was never processed", topic, partition, one)
            elif count > 1 and guarantee != "at_least_once":
                text = f"{where} was processed {count} times"
                yield _about("duplicated", text, topic, partition, one)


def _of_order(run: Run) -> Iterator[Violation]:
    """Records are processed for the first time in their order."""
    highest: dict[Key, int] = {}
    known: set[tuple[str, int, int]] = set()
    for one in run.seen.processed:
        record = (*one.place, one.offset)
        if record in known:
            continue
        known.add(record)
        before = highest.get(one.place, -1)
        if one.offset < before:
            topic, partition = one.place
            text = (
                f"offset {one.offset} of {topic}-{partition} was processed by {one.life} "
                f"after offset {before}"
            )
            stored = {each.offset: each for each in run.stored.get(one.place, ())}
            found = stored.get(one.offset)
            if found is None:
                yield Violation("reordered", text, topic, partition, one.offset)
            else:
                yield _about("reordered", text, topic, partition, found)
        highest[one.place] = max(before, one.offset)


def _of_output(run: Run, output: Output, guarantee: Guarantee) -> Iterator[Violation]:
    """Each record of a topic has become one of another."""
    counts = Counter(
        output.identity(one.key, one.value)
        for (topic, _), records in run.stored.items()
        for one in records
        if topic == output.topic and one.is_visible
    )
    wanted = Counter(
        output.source_identity(one.key, one.value)
        for (topic, _), records in run.stored.items()
        for one in records
        if topic == output.source and one.is_visible
    )
    for (topic, partition), records in run.stored.items():
        for one in records:
            if topic != output.source or not one.is_visible:
                continue
            identity = output.source_identity(one.key, one.value)
            where = f"{_show(one.value)} (offset {one.offset} of {topic}-{partition})"
            if counts[identity] < wanted[identity] and guarantee != "at_most_once":
                text = f"{where} is not in {output.topic}"
                yield _about("lost", text, topic, partition, one)
            elif counts[identity] > wanted[identity] and guarantee != "at_least_once":
                text = f"{where} is in {output.topic} {counts[identity]} times"
                yield _about("duplicated", text, topic, partition, one)


# --- what clients saw -----------------------------------------------------------------------------


class _Names:
    """Gives each record that was sent or stored a name of its own, as histories need it.

    Programs may send the same value twice, so a value is no name. A record in the log that nobody
    can have sent has the name of one that was: it is there twice.
    """

    def __init__(self, run: Run) -> None:
        self._stored: dict[tuple[Key, int], str] = {}
        self._sent: dict[int, str] = {}
        unclaimed: dict[object, list[Sent]] = defaultdict(list)
        claimed: dict[tuple[Key, int], str] = {}
        for number, sent in enumerate(run.seen.sent):
            self._sent[id(sent)] = f"#{number} {_show(sent.value)}"
            if sent.offset >= 0:
                claimed[(sent.topic, sent.partition), sent.offset] = self._sent[id(sent)]
            else:
                unclaimed[sent.topic, sent.partition, sent.key, sent.value].append(sent)
        firsts: dict[object, str] = {}
        for place, records in run.stored.items():
            for one in records:
                content = (*place, one.key, one.value)
                name = claimed.get((place, one.offset))
                if name is None and unclaimed[content]:
                    name = self._sent[id(unclaimed[content].pop(0))]
                if name is None:
                    name = firsts.get(content, f"unknown {_show(one.value)}")
                firsts.setdefault(content, name)
                self._stored[place, one.offset] = name

    def sent(self, sent: Sent) -> str:
        return self._sent[id(sent)]

    def stored(self, place: Key, offset: int) -> str:
        return self._stored.get((place, offset), f"offset {offset} of nothing")


def _of_history(run: Run, guarantee: Guarantee) -> Iterator[Violation]:
    report = check_history(_history(run), allowed=_ALLOWED[guarantee])
    for finding in report.findings:
        if not finding.is_allowed:
            topic, partition = finding.key or ("", -1)
            kind = _NAMES.get(finding.anomaly, finding.anomaly.value)
            yield Violation(kind, f"{topic}-{partition}: {finding.text}", topic, partition)


def _history(run: Run) -> list[Event]:
    """What clients did, and at last a reader who reads everything."""
    recorder, names = Recorder(), _Names(run)
    open_ones: dict[int, Recorded] = {}
    for event in run.seen.events:
        match event:
            case Sent():
                _record_send(recorder, names, event, open_ones)
            case Consumed() if event.reader.is_committed:
                name = names.stored(event.place, event.offset)
                recorder.poll(event.reader.name, {event.place: [(event.offset, name)]})
            case Reader():
                # What it read before says nothing of where it goes on.
                recorder.note(Assign(event.name, frozenset(), is_seeking=True))
            case _:
                pass
    for place, records in run.stored.items():
        if not place[0].startswith("__"):
            recorder.note(Assign("the log", frozenset({place}), is_seeking=True))
            seen = [
                (one.offset, names.stored(place, one.offset)) for one in records if one.is_visible
            ]
            if seen:
                recorder.poll("the log", {place: seen})
    return recorder.history()


def _record_send(
    recorder: Recorder, names: _Names, sent: Sent, open_ones: dict[int, Recorded]
) -> None:
    if sent.partition < 0:
        return
    offset = sent.offset if sent.offset >= 0 else None
    action = Send((sent.topic, sent.partition), names.sent(sent), offset)
    if sent.transaction is None:
        # A send that failed may be stored all the same, unless it was never sent.
        _end(recorder.begin(str(sent.life), [action]), sent.fate, fails=False)
        return
    operation = open_ones.get(id(sent.transaction))
    if operation is None:
        operation = open_ones[id(sent.transaction)] = recorder.begin(str(sent.life))
        _end(operation, sent.transaction.fate, fails=True)
    operation.actions.append(action)


def _end(operation: Recorded, fate: Fate, *, fails: bool) -> None:
    if fate is Fate.DONE:
        operation.ok()
    elif fate is Fate.FAILED and fails:
        operation.fail()
    else:
        operation.info()
