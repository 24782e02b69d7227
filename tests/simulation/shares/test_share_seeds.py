"""The share-group simulation: seeds that are clean, and guards whose absence it notices."""

from __future__ import annotations

import pytest

from tests.simulation.kit.canary import fingerprint_elsewhere
from tests.simulation.kit.mutants import Mutant
from tests.simulation.shares.mutants import MUTANTS
from tests.simulation.shares.simulation import run_seed

SEEDS = 6


@pytest.mark.parametrize("seed", range(SEEDS))
def test_share_groups_keep_their_promises(seed: int) -> None:
    assert run_seed(seed).counts["accept"]


def test_a_seed_is_one_run() -> None:
    assert run_seed(3).fingerprint == fingerprint_elsewhere(
        "tests.simulation.shares.simulation", "run_seed(3)"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_missing_guard_is_noticed(mutant: Mutant) -> None:
    assert mutant.caught(run_seed).name != "crash"
