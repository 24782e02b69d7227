"""An engine whose runs come to what a table says."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.lab.engine import Run
from minikafka.lab.ledger import Counts
from minikafka.lab.matrix import Cell
from minikafka.lab.scenario import Scenario
from minikafka.lab.timeline import Event, Lane, Timeline

FINE = Counts(sent=10, trusted=10, stored=10)


class FakeEngine:
    """Runs nothing.

    Args:
        counts: what a scenario comes to; it may raise.
        refused: why it cannot run a cell, or None.
        measures: of every run.
    """

    name = "simulation"
    version = "fake"

    def __init__(
        self,
        counts: Callable[[Scenario], Counts] = lambda _: FINE,
        refused: Callable[[Cell], str | None] = lambda _: None,
        measures: dict[str, float] | None = None,
    ) -> None:
        self._counts = counts
        self._refused = refused
        self._measures = measures or {}

    def why_not(self, cell: Cell) -> str | None:
        return self._refused(cell)

    def run(self, scenario: Scenario) -> Run:
        counts = self._counts(scenario)
        return Run(
            scenario,
            counts,
            {0: "node 1 is killed"},
            lambda: _timeline(scenario, counts),
            measures=self._measures,
        )


def make_fine() -> FakeEngine:
    """For workers, which import it."""
    return FakeEngine()


def _timeline(scenario: Scenario, counts: Counts) -> Timeline:
    timeline = Timeline("simulation", str(scenario), "a fake run", counts=counts)
    timeline.lanes += [
        Lane("producer", "producer", "producer"),
        Lane("node-1", "broker", "node 1"),
        Lane("consumer", "consumer", "consumer"),
    ]
    timeline.events += [
        Event(0.0, "producer", "send", "sends r0", record="r0", to="node-1", arrives=0.1),
        Event(0.1, "node-1", "append", "appends r0", record="r0", state={"log_end_offset": 1}),
        Event(0.2, "node-1", "advance", "high watermark 1", state={"high_watermark": 1}),
        Event(0.5, "consumer", "read", "is given r0", record="r0", state={"position": 1}),
    ]
    timeline.records["r0"] = {"fate": "trusted", "copies": 1, "results": 1, "offset": 0}
    return timeline
