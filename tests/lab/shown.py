"""Is what a claim allows shown, in each of its cells? ``make lab-shown`` looks at all of them.

For each cell of which a claim says that something can happen: the first seed that shows it, shrunk
to its fewest faults.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from minikafka.lab.claims import CLAIMS, Bound
from minikafka.lab.matrix import Cell
from minikafka.lab.scenario import Scenario
from minikafka.lab.shrinking import shows, shrink
from minikafka.lab.simulation.engine import SimulationEngine

SEEDS = 50
"""As many as `make lab` runs."""
FAULTS_MAX = 5


class Shown(NamedTuple):
    """A scenario that shows something.

    ``faults``: how many it needs; 0 if it happens without any.
    """

    scenario: Scenario
    faults: int


def allowed() -> list[tuple[Cell, str]]:
    """Cells, and what a claim says can happen there."""
    engine = SimulationEngine()
    found = {
        (cell, one.what): None
        for claim in CLAIMS
        for one in claim.says
        if one.bound is Bound.SHOWN
        for cell in one.where.cells()
        if engine.why_not(cell) is None
    }
    return list(found)


def show(engine: SimulationEngine, cell: Cell, what: str) -> Shown | None:
    """The first seed that shows it, with its fewest faults; None if none does."""
    for seed in range(SEEDS):
        scenario = Scenario(cell, seed)
        if getattr(engine.run(scenario).counts, what):
            small = shrink(engine, scenario, shows(what)).scenario
            return Shown(small, len(engine.run(small).faults))
    return None


def lines() -> Iterator[str]:
    """What is not shown, and then how many faults the others need."""
    engine = SimulationEngine()
    sizes: Counter[int] = Counter()
    for cell, what in allowed():
        found = show(engine, cell, what)
        if found is None or found.faults > FAULTS_MAX:
            yield f"{what} is not shown by {SEEDS} seeds of {cell} with {FAULTS_MAX} faults"
        else:
            sizes[found.faults] += 1
    needed = ", ".join(f"{count} with {faults} faults" for faults, count in sorted(sizes.items()))
    yield f"{sizes.total()} shown: {needed}"


if __name__ == "__main__":
    missing = -1  # the last line is the summary
    for line in lines():
        sys.stdout.write(f"{line}\n")
        missing += 1
    sys.exit(missing > 0)
