"""What runs scenarios: the simulation, real processes, Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from .ledger import Counts
from .matrix import Cell
from .scenario import Scenario
from .timeline import Timeline


@dataclass(frozen=True, slots=True)
class Run:
    """What a scenario came to.

    Attributes:
        scenario: what was run.
        counts: of its ledger.
        faults: what went wrong, in words, by the numbers that `Scenario.kept` names.
        timeline: gives it; made only when somebody wants it.
        fingerprint: a hash of everything that happened, where a run repeats it; else empty.
        measures: medians in seconds, by name: ``ack_s``, ``commit_s``, ``lag_s``.
        samples: the values behind some measures, for plots.
    """

    scenario: Scenario
    counts: Counts
    faults: Mapping[int, str]
    timeline: Callable[[], Timeline]
    fingerprint: str = ""
    measures: Mapping[str, float] = field(default_factory=dict[str, float])
    samples: Mapping[str, list[float]] = field(default_factory=dict[str, list[float]])


class Engine(Protocol):
    """Runs scenarios.

    Attributes:
        name: ``simulation``, ``processes``, ``apache-kafka`` or ``verify``.
        version: of what is run, for the report.
    """

    name: str
    version: str

    def why_not(self, cell: Cell) -> str | None:
        """Why it cannot run a cell, in one line; None if it can."""
        ...

    def run(self, scenario: Scenario) -> Run:
        """Run it.

        Raises:
            AssertionError: something happened that no guarantee allows, such as a broken invariant.
        """
        ...
