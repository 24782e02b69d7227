"""Consumers in processes of their own, which are killed, paused or joined by others."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from ..matrix import Cell, Commit, Fault
from ..timeline import EventKind
from .children import Child, Children
from .reading import read_to_the_end
from .stage import Stage
from .worker import results_topic_of

_POINTS: Final = {
    Fault.CONSUMER_KILLED_BEFORE: "before",
    Fault.CONSUMER_KILLED_BETWEEN: "between",
    Fault.CONSUMER_KILLED_AFTER: "after",
}
_IN_DATABASE: Final = {Commit.WITH_RESULT, Commit.UPSERT, Commit.TWO_PHASE}
_IN_TOPIC: Final = {Commit.TRANSACTION, Commit.TWO_PHASE, Commit.SPARK_SINK}
_RESULTS: Final = "SELECT value FROM results WHERE value <> ''"
_ZOMBIE_S: Final = 3.0
"""How long one that was woken may do harm, if it does not come to rest."""
_KINDS: Final[dict[str, EventKind]] = {
    "start": "start",
    "read": "read",
    "process": "process",
    "commit": "commit",
    "pause": "pause",
    "resume": "resume",
    "kill": "kill",
}


class Consuming:
    """The consumers of a run.

    Args:
        stage: where.
        cell: how, and what goes wrong.
        children: for the processes.
    """

    def __init__(self, stage: Stage, cell: Cell, children: Children) -> None:
        assert cell.consumer is not None
        self._stage = stage
        self._cell = cell
        self._mode = cell.consumer
        self._children = children
        self._folder = tempfile.TemporaryDirectory(prefix="minikafka-lab-")
        self._started: list[Child] = []
        self._strikes: list[int] = []
        self._lag_s: list[float] = []
        self._commit_s: list[float] = []
        if self._mode.commit in _IN_TOPIC:
            settings = {"min.insync.replicas": cell.topic.min_insync}
            stage.create_topic(results_topic_of(stage.topic), 1, cell.topic.replicas, settings)

    def begin(self, strikes: list[int]) -> None:
        """Start the first consumer; strikes that happen to consumers follow at the end."""
        self._strikes = strikes
        child = self._start(strikes[0] if strikes else None)
        if self._mode.commit is Commit.SPARK_SINK:  # it takes seconds to be there
            child.wait_until(lambda: _has_position(child), "read anything")

    def end(self, sent_at: dict[str, float]) -> None:
        """Let what is to happen to consumers happen, and have everything read.

        Args:
            sent_at: when each value was sent.

        Raises:
            CannotError: a consumer did not do its part.
        """
        try:
            for number in self._strikes:
                if self._strike(number):
                    self._stage.faults[number] = self._cell.fault.value
                if self._cell.fault is Fault.CONSUMER_PAUSED:
                    break  # its successor has read everything
            self._finish()
        finally:
            for child in self._started:
                child.kill()
        self._write_down(sent_at)
        self._folder.cleanup()

    def samples(self) -> dict[str, list[float]]:
        """How old records were when they were read, and how long commits took."""
        found = {"lag_s": self._lag_s}
        if self._mode.commit is Commit.AFTER_SYNC:
            found["commit_s"] = self._commit_s
        return found

    # --- processes ---

    def _start(self, number: int | None) -> Child:
        fault, commit = self._cell.fault, self._mode.commit
        job: dict[str, Any] = {
            "mode": commit.value,
            "bootstrap": self._stage.target.bootstrap,
            "properties": dict(self._stage.target.properties),
            "topic": self._stage.topic,
            "partitions": self._stage.partitions,
            "database": str(Path(self._folder.name) / "results.db"),
            "session_ms": self._stage.target.session_ms,
            "is_read_committed": self._mode.is_read_committed,
            "name": f"{self._stage.topic}-{len(self._started)}",
        }
        if fault in _POINTS:
            job["instance"] = job["name"] = "consumer"
        if commit is Commit.TWO_PHASE:
            job["name"] = "two-phase"
        if number is not None and (fault in _POINTS or fault is Fault.CONSUMER_PAUSED):
            job["count"] = self._stage.dice.randint(2, 3)
            job["point"] = _POINTS.get(fault, self._point_of_pause())
            job["is_pause"] = fault is Fault.CONSUMER_PAUSED
            job["is_leading"] = number % 2 == 1
        take = self._children.take_spark if commit is Commit.SPARK_SINK else self._children.take
        child = take(job)
        self._started.append(child)
        return child

    def _point_of_pause(self) -> str:
        """An open transaction of the database would keep the successor out of it."""
        return "before" if self._mode.commit is Commit.WITH_RESULT else "between"

    def _strike(self, number: int) -> bool:
        fault, child = self._cell.fault, self._started[-1]
        if fault in _POINTS:
            child.wait_until_dead()
            following = self._strikes[self._strikes.index(number) + 1 :]
            self._start(following[0] if following else None)
        elif fault is Fault.CONSUMER_PAUSED:
            child.wait_until_paused()
            self._start(None)
            self._finish()
            said = len(child.lines)
            child.resume()
            child.wait_a_while(lambda: _is_idle(child, said), _ZOMBIE_S)
        elif fault is Fault.REBALANCE:
            second = self._start(None)
            second.wait_until(lambda: _reads_something(second), "joined")
            second.ask_to_leave()
            second.wait_until_dead()
            self._started.remove(second)
            self._started.insert(0, second)
        else:
            return False
        return True

    def _finish(self) -> None:
        """Wait until the last consumer, or one before it, is at the end of each partition."""
        ends = self._stage.ends()
        child = self._started[-1]

        def is_done() -> bool:
            reached: dict[int, int] = {}
            for one in list(child.lines):
                if one["kind"] == "position":
                    reached[one["partition"]] = one["position"]
            return all(reached.get(partition, -1) >= end for partition, end in ends.items())

        child.wait_until(is_done, "reached the end of the log")

    # --- the ledger ---

    def _write_down(self, sent_at: dict[str, float]) -> None:
        stage, ledger = self._stage, self._stage.ledger
        lines = [
            (line["at"], number, line)
            for number, child in enumerate(self._started, 1)
            for line in child.lines
        ]
        lines.sort(key=lambda one: one[:2])
        results: list[str] = []
        processed_at: dict[int, float] = {}
        for at, number, line in lines:
            kind, value = line["kind"], line.get("value")
            if value == "":
                continue  # the mark behind the last record
            if kind == "read" and value is not None:
                ledger.read.append(value)
                if value in sent_at:
                    self._lag_s.append(max(0.0, at - sent_at[value]))
            elif kind == "process" and value is not None:
                results.append(value)
            if kind in {"process", "read"}:
                processed_at[number] = at
            elif kind == "commit" and number in processed_at:
                self._commit_s.append(at - processed_at.pop(number))
            if kind in _KINDS:
                text = kind if value is None else f"{kind} {value}"
                lane = f"consumer-{number}"
                stage.note(lane, _KINDS[kind], text, record=value, at=at)
        ledger.results = self._stored_results() if self._is_stored else results

    @property
    def _is_stored(self) -> bool:
        return self._mode.commit in _IN_DATABASE or self._mode.commit in _IN_TOPIC

    def _stored_results(self) -> list[str]:
        rows: list[str] = []
        if self._mode.commit in _IN_DATABASE:
            with closing(sqlite3.connect(Path(self._folder.name) / "results.db")) as database:
                rows = [value for (value,) in database.execute(_RESULTS)]
        if self._mode.commit not in _IN_TOPIC:
            return rows
        topic = results_topic_of(self._stage.topic)
        bootstrap = self._stage.target.bootstrap
        (found,) = read_to_the_end(bootstrap, topic, 1, self._stage.connection)
        records = [value for _, value in found]
        if self._mode.commit not in _IN_DATABASE:
            return records
        # What only one side has is lost; what either has twice is repeated.
        both = set(rows) & set(records)
        more = rows if len(rows) >= len(records) else records
        return [value for value in more if value in both]


def _has_position(child: Child) -> bool:
    return any(line["kind"] == "position" for line in child.lines)


def _is_idle(child: Child, said: int) -> bool:
    """Whether a client that was woken has come to rest, or has ended."""
    if not child.is_alive:
        return True
    return any(line["kind"] in {"position", "commit"} for line in child.lines[said:])


def _reads_something(child: Child) -> bool:
    return any(line["kind"] == "position" for line in child.lines)
