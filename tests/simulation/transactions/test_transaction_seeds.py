"""The transaction simulation: seeds that are clean, and guards whose absence it notices."""

from __future__ import annotations

import pytest

from tests.simulation.transactions.mutants import MUTANTS, Mutant
from tests.simulation.transactions.simulation import BrokenPromise, Simulation

SEEDS = 16
MUTANT_SEEDS = 200
"""Most show themselves at once, an early answer in one of four, an old memory in one of sixty."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_transactions_keep_their_promises(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run()
    assert "committed" in {tried.outcome for tried in simulation.history}


def test_a_seed_is_one_run() -> None:
    first, second = Simulation(3), Simulation(3)
    first.run()
    second.run()
    assert first.world.trace == second.world.trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_missing_guard_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(map(breaks_a_promise, range(MUTANT_SEEDS)))


def breaks_a_promise(seed: int) -> bool:
    try:
        Simulation(seed).run()
    except BrokenPromise:
        return True
    return False
