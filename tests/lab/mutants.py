"""Guards that are broken on purpose: the lab has to turn red, and name a claim.

python -m tests.lab.mutants          all of them
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from minikafka.lab.claims import CLAIMS, Bound
from minikafka.lab.matrix import Cell
from minikafka.lab.report import Lab
from minikafka.lab.runner import EngineResult, run_cell
from minikafka.lab.simulation.engine import SimulationEngine
from tests.simulation import replication_mutants
from tests.simulation.cluster import mutants as cluster_mutants
from tests.simulation.kit.mutants import Mutant

SEEDS_OF_A_CELL = 4
ROUNDS_MAX = 5


class Red(NamedTuple):
    """How the lab noticed a mutant.

    Attributes:
        claims: ids of those that are stamped otherwise than expected.
        runs: how many it took.
        why: the first line.
    """

    claims: tuple[str, ...]
    runs: int
    why: str


PROMISES = tuple(claim for claim in CLAIMS if claim.expected)


def promised_cells() -> list[Cell]:
    """The cells for which a claim that is true says that something never happens."""
    found = {
        cell: None
        for claim in PROMISES
        for says in claim.says
        if says.bound is Bound.NEVER
        for cell in says.where.cells()
    }
    engine = SimulationEngine()
    return [cell for cell in found if engine.why_not(cell) is None]


def look_for(mutant: Mutant) -> Red | None:
    """Run cells until the lab is red; None if it stays green."""
    with mutant.applied():
        for runs, lab in _growing():
            surprises = lab.surprises
            if surprises:
                red = [one.claim.id for one in lab.stamped() if not one.is_as_expected]
                return Red(tuple(red), runs, surprises[0])
    return None


def _growing() -> Iterator[tuple[int, Lab]]:
    """A lab that runs more and more."""
    dice = Random(1)
    engine = SimulationEngine()
    result = EngineResult(engine.name, engine.version)
    runs = 0
    for round_ in range(ROUNDS_MAX):
        cells = promised_cells()
        dice.shuffle(cells)
        first = round_ * SEEDS_OF_A_CELL
        for cell in cells:
            result.cells = {cell: run_cell(engine, cell, range(first, first + SEEDS_OF_A_CELL))}
            runs += SEEDS_OF_A_CELL
            yield runs, Lab([result], PROMISES)


MUTANTS = tuple(dict.fromkeys((*replication_mutants.MUTANTS, *cluster_mutants.MUTANTS)))


def main() -> int:
    logging.disable()
    missed = 0
    for mutant in MUTANTS:
        red = look_for(mutant)
        missed += red is None
        words = "NOT NOTICED" if red is None else f"{red.runs} runs: {red.why[:150]}"
        sys.stdout.write(f"{mutant.name}: {words}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
