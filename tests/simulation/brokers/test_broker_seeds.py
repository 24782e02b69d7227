"""Whole brokers under attack; `python -m tests.simulation.brokers --seeds N` runs more of them."""

from __future__ import annotations

import pytest

from tests.simulation.brokers.mutants import MUTANTS
from tests.simulation.brokers.simulation import run_seed
from tests.simulation.kit.canary import fingerprint_elsewhere
from tests.simulation.kit.mutants import Mutant

SEEDS = (1, 3, 11, 15, 21)
FAULT_SECONDS = 12.0
MUTANT_FAULT_SECONDS = 15.0


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_acknowledged_stays_once_in_order_and_everywhere(seed: int) -> None:
    outcome = run_seed(seed, FAULT_SECONDS)
    # What did nothing has shown nothing.
    assert outcome.counts["acknowledged"] > 100
    assert outcome.counts["read"] == outcome.counts["acknowledged"]
    assert outcome.counts["offset"] > 10
    assert outcome.faults.total() > 2


def test_a_seed_repeats_its_run_step_by_step_in_another_process() -> None:
    outcome = run_seed(7, 3.0)
    assert outcome.fingerprint == fingerprint_elsewhere(
        "tests.simulation.brokers.simulation", "run_seed(7, 3.0)"
    )
    assert run_seed(8, 3.0).fingerprint != outcome.fingerprint


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_whole_brokers_without_a_guard_are_found_out(mutant: Mutant) -> None:
    error = mutant.caught(lambda seed: run_seed(seed, MUTANT_FAULT_SECONDS))
    assert error.name != "crash"
    assert "start broker1" in str(error)
    assert f"python -m tests.simulation.brokers --first {error.seed} --seeds 1" in str(error)
