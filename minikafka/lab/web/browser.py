"""What the page asks the Python code in it for. Everything goes in and out as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..engine import Run
from ..matrix import cells
from ..scenario import Scenario
from ..shrinking import shows, shrink
from ..simulation.engine import SimulationEngine

_engine = SimulationEngine()


def choices() -> str:
    """The matrix: for each cell its name and the words of its axes."""
    return json.dumps(
        [
            {
                "id": str(cell),
                "producer": str(cell.producer),
                "topic": str(cell.topic),
                "consumer": None if cell.consumer is None else str(cell.consumer),
                "fault": cell.fault.value,
            }
            for cell in cells()
        ]
    )


def run(token: str) -> str:
    """Run a scenario; its timeline, with ``faults`` in words and the ``fingerprint``."""
    return json.dumps(_document(_engine.run(Scenario.parse(token))))


def shrunk(token: str, what: str) -> str:
    """The same for the scenario with the fewest faults that shows a count."""
    return json.dumps(_document(shrink(_engine, Scenario.parse(token), shows(what))))


def first_with(cell: str, what: str, first: int, seeds_max: int) -> str:
    """The first seed from `first` on that shows a count: its timeline, or null."""
    scenario = Scenario.parse(f"{cell}@{first}")
    for seed in range(first, first + seeds_max):
        found = _engine.run(scenario._replace(seed=seed))
        if getattr(found.counts, what):
            return json.dumps(_document(found))
    return "null"


def fingerprints(seeds: int, simulated: Callable[[float], object] = lambda _: None) -> str:
    """A fingerprint for each of the first seeds, each of which draws its cell.

    `minikafka lab fingerprints` prints the same: see `fingerprints_of`.
    """
    return json.dumps(fingerprints_of(seeds, simulated))


def fingerprints_of(seeds: int, simulated: Callable[[float], object] = lambda _: None) -> list[str]:
    """The same as a list. `simulated` is told the simulated seconds of each run."""
    found: list[str] = []
    for seed in range(seeds):
        ended = _engine.run(Scenario.parse(str(seed)))
        simulated(ended.measures.get("simulated_s", 0.0))
        found.append(ended.fingerprint)
    return found


def _document(ended: Run) -> dict[str, Any]:
    return ended.timeline().to_json() | {
        "faults": list(ended.faults.values()),
        "fingerprint": ended.fingerprint,
    }
