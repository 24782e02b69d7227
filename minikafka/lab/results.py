"""What a lab came to: counts of each cell by engine, and a stamp for each claim.

`to_json` gives what ``minikafka lab run --json`` writes and the page shows:

    {"format": 1, "minikafka": "0.1.0", "python": "3.11.7", "started": "2026-11-23T02:30:00Z",
     "seconds": 212.0, "is_quick": true, "is_as_expected": true,
     "engines": {"simulation": {"version": "...", "runs": 51600, "recorded": null},
                 "processes": {...}, "apache-kafka": {"missing": "no Java on this machine"}},
     "claims": [{"id": "...", "statement": "...", "because": "...", "expected": true,
                 "verdict": "true",             # "true" | "false" | "open"
                 "engines": {"simulation": {"verdict": "true", "runs": 4200,
                                            "counts": {"lost": 0, ...},
                                            "why": "lost 0 in 4,200 runs",
                                            "example": {"seed": TOKEN, "faults": ["..."],
                                                        "counts": {...}}}}}],
     "cells": [{"id": "...", "words": {...}, "engines": {"simulation": {"runs": 50,
                "runs_with": {"lost": 3, ...}, "counts": {...}, "examples": {"lost": TOKEN}}}}],
     "side_by_side": [TOKEN, TOKEN],            # one seed, acks=1 and acks=all, both in "timelines"
     "timelines": {TOKEN: <timeline>}, "plots": {...}}

An example's ``seed`` is a token: ``minikafka lab replay`` repeats it. A cell's ``words`` say it in
words: ``producer``, ``topic``, ``consumer``, ``fault``. ``recorded`` is when, for counts that come
from a file instead of a run.

``plots`` has what the page draws; each may be absent:

    {"latency_by_acks": {"acks=1": [SECONDS, ...], ...},  # of each acknowledgement, in any order
     "lag": {NAME: [[t, RECORDS], ...], ...},       # in the log, not yet given to the consumer
     "staleness": {NAME: [[t, SECONDS], ...], ...}, # age of the oldest record that it lacks
     "consumed_times": {NAME: {"0": VALUES, "1": VALUES, "2": VALUES}, ...}}  # "2": or more

A name is a line of the plot; ``t`` is in seconds from the beginning of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Any, Final

from .claims import Bound, Claim, Costs
from .engine import Run
from .ledger import Counts
from .matrix import Cell

Document = dict[str, Any]

FORMAT: Final = 1
SHOWN = ("lost", "repeated", "reordered", "aborted_read", "torn", "vanished", "too_few")
"""The members of `Counts` of which each cell keeps an example."""
SAMPLES_KEPT_MAX: Final = 5_000
BROKEN_KEPT_MAX: Final = 5


class Verdict(Enum):
    """The stamp of a claim."""

    TRUE = "true"
    FALSE = "false"
    OPEN = "open"
    """Its cells were not run, or too little to show what it says can happen."""


@dataclass
class CellResult:
    """What the runs of a cell came to in one engine.

    Attributes:
        runs: how many.
        counts: their sum.
        runs_with: how many had at least one, by member of `Counts`.
        examples: a scenario's token for each member of `SHOWN` that came up.
        measures: of each run, by name.
        samples: of all runs, by name, the first ones.
        broken: what did not hold in runs that broke an invariant of the engine, by the scenario's
            token; the first ones.
        broken_runs: how many of them there were; they are not in `runs`.
    """

    runs: int = 0
    counts: Counts = field(default_factory=Counts)
    runs_with: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])
    measures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    samples: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    broken: dict[str, str] = field(default_factory=dict[str, str])
    broken_runs: int = 0

    def broke(self, token: str, text: str) -> None:
        """A run broke an invariant."""
        self.broken_runs += 1
        if len(self.broken) < BROKEN_KEPT_MAX:
            self.broken[token] = text

    def add(self, run: Run) -> None:
        """Count a run."""
        self.runs += 1
        self.counts += run.counts
        for name, count in run.counts._asdict().items():
            if count:
                self.runs_with[name] += 1
                if name in SHOWN:
                    self.examples.setdefault(name, str(run.scenario))
        for name, value in run.measures.items():
            self.measures.setdefault(name, []).append(value)
        for name, values in run.samples.items():
            kept = self.samples.setdefault(name, [])
            kept += values[: SAMPLES_KEPT_MAX - len(kept)]

    def to_json(self) -> Document:
        """As in the document."""
        return {
            "runs": self.runs,
            "counts": {name: count for name, count in self.counts._asdict().items() if count},
            "runs_with": dict(sorted(self.runs_with.items())),
            "examples": self.examples,
            "measures": {name: round(median(all_), 6) for name, all_ in self.measures.items()},
        }


CellResults = Mapping[Cell, CellResult]


@dataclass(frozen=True)
class Judgement:
    """A claim in the light of one engine.

    Attributes:
        verdict: the stamp.
        runs: of all its cells.
        counts: their sum.
        why: what decided, in words.
        example: a token of a run that shows it; the contrary for a false claim. None if there is
            nothing to show.
        shows: the member of `Counts` that the example shows.
        is_broken: the example broke an invariant and has no timeline.
    """

    verdict: Verdict
    runs: int
    counts: Counts
    why: str
    example: str | None = None
    shows: str = ""
    is_broken: bool = False


def judge(claim: Claim, found: CellResults) -> Judgement:
    """Stamp a claim with what one engine found."""
    if claim.costs is not None:
        return _judge_costs(claim.costs, found)
    seen: dict[Cell, CellResult] = {}
    worst, why = Verdict.TRUE, list[str]()
    example, shows = None, ""
    for one in claim.says:
        here = {cell: found[cell] for cell in one.where.cells() if cell in found}
        seen.update(here)
        runs = sum(result.runs for result in here.values())
        hits = sum(result.runs_with[one.what] for result in here.values())
        shown = next(
            (result.examples[one.what] for result in here.values() if one.what in result.examples),
            None,
        )
        broken = next((result.broken for result in here.values() if result.broken), None)
        if one.bound is Bound.NEVER and broken:
            token, text = next(iter(broken.items()))
            why_broken = f"an invariant broke: {text}"
            return Judgement(Verdict.FALSE, *_sums(seen), why_broken, token, is_broken=True)
        why.append(f"{one.what.replace('_', ' ')} in {hits:,} of {runs:,} runs")
        if one.bound is Bound.NEVER and hits:
            return Judgement(Verdict.FALSE, *_sums(seen), why[-1], shown, one.what)
        if not runs or (one.bound is Bound.SHOWN and not hits):
            worst = Verdict.OPEN
        if example is None and shown is not None:
            example, shows = shown, one.what
    return Judgement(worst, *_sums(seen), "; ".join(why), example, shows)


def _sums(seen: Mapping[Cell, CellResult]) -> tuple[int, Counts]:
    counts = Counts()
    for result in seen.values():
        counts += result.counts
    return sum(result.runs for result in seen.values()), counts


def _judge_costs(costs: Costs, found: CellResults) -> Judgement:
    sides: list[float] = []
    seen: dict[Cell, CellResult] = {}
    for where in (costs.of, costs.over):
        if where is None:
            continue
        here = {cell: found[cell] for cell in where.cells() if cell in found}
        seen.update(here)
        values = [v for result in here.values() for v in result.measures.get(costs.measure, ())]
        if not values:
            return Judgement(Verdict.OPEN, *_sums(seen), "not measured")
        sides.append(median(values))
    value = sides[0] if len(sides) == 1 else sides[0] / sides[1]
    holds = costs.low <= value <= costs.high
    if len(sides) == 1:
        why = f"{value * 1000:.2f} ms"
    else:
        why = f"{value:.2f} times ({sides[0] * 1000:.2f} over {sides[1] * 1000:.2f} ms)"
    return Judgement(Verdict.TRUE if holds else Verdict.FALSE, *_sums(seen), why)


def overall(judgements: Iterable[Judgement]) -> Verdict:
    """The stamp of a claim with several engines: one that shows the contrary decides."""
    verdicts = {one.verdict for one in judgements}
    if Verdict.FALSE in verdicts:
        return Verdict.FALSE
    return Verdict.TRUE if Verdict.TRUE in verdicts else Verdict.OPEN
