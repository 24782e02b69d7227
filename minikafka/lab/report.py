"""The document of a lab: stamps, counts, timelines and plots. `results` says what is in it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

from .claims import CLAIMS, Claim
from .matrix import Acks, Cell, Commit, ConsumerMode, Fault, ProducerMode, TopicMode
from .results import FORMAT, Document, Judgement, Verdict, judge, overall
from .runner import EngineResult
from .scenario import Scenario

TimelineOf = Callable[[Scenario], Document]
Shrink = Callable[[Scenario, str], Scenario]

_SIDE_BY_SIDE: Final = (
    Cell(
        ProducerMode(Acks.LEADER, in_flight_max=5),
        TopicMode(),
        None,
        Fault.LEADER_KILLED_AFTER_ACK,
    ),
    Cell(
        ProducerMode(Acks.ALL, is_idempotent=True, in_flight_max=5),
        TopicMode(),
        None,
        Fault.LEADER_KILLED_AFTER_ACK,
    ),
)
_SEEDS_LOOKED_AT: Final = 200
_CONSUMED: Final = (
    Commit.AUTO,
    Commit.BEFORE,
    Commit.AFTER_SYNC,
    Commit.WITH_RESULT,
    Commit.TRANSACTION,
)
_CONSUMED_SEEDS: Final = 5


@dataclass(frozen=True)
class Stamped:
    """A claim with its stamps.

    Attributes:
        claim: what it says.
        verdict: of all engines together.
        judgements: by engine.
    """

    claim: Claim
    verdict: Verdict
    judgements: Mapping[str, Judgement]

    @property
    def is_as_expected(self) -> bool:
        """Whether no engine stamps it otherwise than we expect."""
        if self.claim.expected is None or self.verdict is Verdict.OPEN:
            return True
        return self.verdict is (Verdict.TRUE if self.claim.expected else Verdict.FALSE)


@dataclass
class Lab:
    """What engines came to, and what that means.

    Attributes:
        results: one for each engine; the simulation first.
        claims: which were looked at.
        is_quick: fewer seeds and scenarios than a long run has.
        is_complete: False after Ctrl-C.
        started: when.
        seconds: how long it took.
    """

    results: list[EngineResult] = field(default_factory=list[EngineResult])
    claims: Sequence[Claim] = CLAIMS
    is_quick: bool = True
    is_complete: bool = True
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: float = 0.0

    def stamped(self) -> list[Stamped]:
        """All claims with their stamps."""
        found: list[Stamped] = []
        for claim in self.claims:
            judgements = {
                result.name: judge(claim, result.cells)
                for result in self.results
                if result.missing is None
            }
            live = [judgements[one.name] for one in self.results if _is_live(one)]
            found.append(Stamped(claim, overall(live), judgements))
        return found

    @property
    def surprises(self) -> list[str]:
        """What is not as expected, in words; empty if the lab is green."""
        lines = [
            f"{one.claim.id}: {one.verdict.value}, expected "
            f"{'true' if one.claim.expected else 'false'} ({_why(one)})"
            for one in self.stamped()
            if not one.is_as_expected
        ]
        for result in self.results:
            lines += [f"{token}: {text}" for token, text in result.broken.items()]
        return lines

    def document(self, timeline_of: TimelineOf, shrink: Shrink) -> Document:
        """What ``--json`` writes and the page shows.

        Args:
            timeline_of: runs a scenario of the simulation and tells what happened.
            shrink: finds the fewest faults that show a count.
        """
        pictures = _Pictures(timeline_of, shrink, self.results)
        claims = [_claim_document(one, pictures) for one in self.stamped()]
        side_by_side = pictures.side_by_side()
        plots = _Plots(pictures, self.results).document()
        return {
            "format": FORMAT,
            "minikafka": metadata.version("minikafka"),
            "python": platform.python_version(),
            "started": self.started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": round(self.seconds, 1),
            "is_quick": self.is_quick,
            "is_complete": self.is_complete,
            "is_as_expected": not self.surprises,
            "surprises": self.surprises,
            "engines": {one.name: _engine_document(one) for one in self.results},
            "claims": claims,
            "cells": self._cell_documents(),
            "side_by_side": side_by_side,
            "timelines": pictures.timelines,
            "plots": plots,
        }

    def _cell_documents(self) -> list[Document]:
        cells = dict.fromkeys(cell for result in self.results for cell in result.cells)
        return [
            {
                "id": str(cell),
                "words": _words_of(cell),
                "engines": {
                    result.name: result.cells[cell].to_json()
                    for result in self.results
                    if cell in result.cells
                },
            }
            for cell in cells
        ]


def _is_live(result: EngineResult) -> bool:
    """Whether its results decide; those of Apache Kafka stand beside ours."""
    return result.missing is None and result.recorded is None and result.name != "apache-kafka"


def _why(one: Stamped) -> str:
    return "; ".join(
        f"{name}: {judgement.why}"
        for name, judgement in one.judgements.items()
        if judgement.verdict is one.verdict
    )


def _words_of(cell: Cell) -> Document:
    """The choices of a cell, each in a word, for the axes of the heat map."""
    return {
        "producer": str(cell.producer),
        "topic": str(cell.topic),
        "consumer": None if cell.consumer is None else str(cell.consumer),
        "fault": cell.fault.value,
    }


def _engine_document(result: EngineResult) -> Document:
    document: Document = {"version": result.version, "runs": result.runs}
    if result.missing is not None:
        document["missing"] = result.missing
    return document | {
        "seconds": round(result.seconds, 1),
        "recorded": result.recorded,
        "left_out": result.left_out,
        "broken": result.broken,
    }


def _claim_document(one: Stamped, pictures: _Pictures) -> Document:
    return {
        "id": one.claim.id,
        "statement": one.claim.statement,
        "because": one.claim.because,
        "expected": one.claim.expected,
        "is_as_expected": one.is_as_expected,
        "verdict": one.verdict.value,
        "engines": {
            name: {
                "verdict": judgement.verdict.value,
                "runs": judgement.runs,
                "counts": judgement.counts._asdict(),
                "why": judgement.why,
                "example": pictures.example(name, judgement),
            }
            for name, judgement in one.judgements.items()
        },
    }


class _Pictures:
    """The timelines that a document shows."""

    def __init__(
        self, timeline_of: TimelineOf, shrink: Shrink, results: Sequence[EngineResult]
    ) -> None:
        self._timeline_of = timeline_of
        self._shrink = shrink
        self._names = {one.name for one in results if one.missing is None}
        self.timelines: dict[str, Document] = {}

    def timeline(self, scenario: Scenario) -> Document:
        """It, kept for the document."""
        token = str(scenario)
        if token not in self.timelines:
            self.timelines[token] = self._timeline_of(scenario)
        return self.timelines[token]

    def look(self, scenario: Scenario) -> Document:
        """It, without keeping it."""
        return self.timelines.get(str(scenario)) or self._timeline_of(scenario)

    def example(self, engine: str, judgement: Judgement) -> Document | None:
        """What the page shows for a stamp: the fewest faults that decide it."""
        if judgement.example is None:
            return None
        scenario = Scenario.parse(judgement.example)
        if engine != "simulation":
            return {"seed": str(scenario)}
        if judgement.is_broken:
            return {"seed": str(scenario), "what": judgement.why}
        scenario = self._shrink(scenario, judgement.shows)
        timeline = self.timeline(scenario)
        return {
            "seed": str(scenario),
            "what": judgement.shows,
            "faults": timeline.get("faults", []),
            "counts": timeline["counts"],
        }

    def side_by_side(self) -> list[str]:
        """The same seed with acks=1, which loses, and with acks=all, which does not."""
        if "simulation" not in self._names:
            return []
        weak, strong = _SIDE_BY_SIDE
        for seed in range(_SEEDS_LOOKED_AT):
            scenario = Scenario(weak, seed)
            if not self.look(scenario)["counts"]["lost"]:
                continue
            scenario = self._shrink(scenario, "lost")
            other = Scenario(strong, scenario.seed, scenario.kept)
            if self.look(other)["counts"]["lost"]:
                continue
            self.timeline(scenario)
            self.timeline(other)
            return [str(scenario), str(other)]
        return []


class _Plots:
    """The plots of a document; `results` says in which form."""

    def __init__(self, pictures: _Pictures, results: Sequence[EngineResult]) -> None:
        self._pictures = pictures
        self._results = [one for one in results if one.missing is None]

    def document(self) -> Document:
        """All of them."""
        lag: Document = {}
        staleness: Document = {}
        consumed: Document = {}
        if any(one.name == "simulation" for one in self._results):
            for commit in _CONSUMED:
                self._consume(commit, lag, staleness, consumed)
        return {
            "latency_by_acks": self._latencies(),
            "lag": lag,
            "staleness": staleness,
            "consumed_times": consumed,
        }

    def _latencies(self) -> Document:
        """Seconds until the acknowledgement, of runs in which nothing went wrong."""
        found: Document = {}
        for result in self._results:
            if result.name == "simulation":
                continue  # its network is made up
            for cell, one in result.cells.items():
                if cell.fault is Fault.NONE and cell.consumer is None:
                    name = f"{result.name}, {cell.producer.acks.word.replace('acks', 'acks=')}"
                    values = found.setdefault(name, [])
                    values += one.samples.get("ack_s", ())
        return {name: sorted(values) for name, values in found.items() if values}

    def _consume(
        self, commit: Commit, lag: Document, staleness: Document, consumed: Document
    ) -> None:
        """Runs in which the consumer is killed between processing and committing."""
        cell = Cell(
            ProducerMode(Acks.ALL, is_idempotent=True, in_flight_max=5),
            TopicMode(),
            ConsumerMode(commit),
            Fault.CONSUMER_KILLED_BETWEEN,
        )
        times: dict[str, int] = {"0": 0, "1": 0, "2": 0}
        for seed in range(_CONSUMED_SEEDS):
            timeline = self._pictures.look(Scenario(cell, seed))
            if seed == 0:
                lag[commit.value] = lag_of(timeline)
                staleness[commit.value] = staleness_of(timeline)
            for record in timeline["records"].values():
                if record.get("copies"):
                    times[str(min(2, int(record.get("results", 0))))] += 1
        consumed[commit.value] = times


def lag_of(timeline: Document) -> list[list[float]]:
    """Pairs of seconds and records: how far the consumer's position is behind the log's end."""
    lanes = {lane["id"]: lane["kind"] for lane in timeline["lanes"]}
    end, position, found = 0, 0, list[list[float]]()
    for event in timeline["events"]:
        state: Mapping[str, Any] = event.get("state") or {}
        if lanes.get(event["lane"]) == "broker":
            end = max(end, state.get("high_watermark") or 0)
        elif lanes.get(event["lane"]) == "consumer" and state.get("position") is not None:
            position = state["position"]
        else:
            continue
        point = [event["t"], float(max(0, end - position))]
        if not found or found[-1][1] != point[1]:
            found.append(point)
    return found


def staleness_of(timeline: Document) -> list[list[float]]:
    """Pairs of seconds: when a record was given to a consumer, and how old it was then."""
    sent: dict[str, float] = {}
    found: list[list[float]] = []
    for event in timeline["events"]:
        record = event.get("record")
        if record is None:
            continue
        if event["kind"] == "send":
            sent.setdefault(record, event["t"])
        elif event["kind"] == "read" and record in sent:
            found.append([event["t"], round(event["t"] - sent[record], 6)])
    return found
