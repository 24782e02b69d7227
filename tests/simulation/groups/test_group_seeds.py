"""The group simulation: seeds that are clean, and guards whose absence it notices."""

from __future__ import annotations

import pytest

from tests.simulation.groups.mutants import MUTANTS
from tests.simulation.groups.simulation import run_seed
from tests.simulation.groups.streams_mutants import STREAMS_MUTANTS
from tests.simulation.groups.streams_simulation import run_seed as run_streams_seed
from tests.simulation.kit.canary import fingerprint_elsewhere
from tests.simulation.kit.mutants import Mutant

SEEDS = 12


@pytest.mark.parametrize("seed", range(SEEDS))
def test_groups_keep_their_promises(seed: int) -> None:
    assert run_seed(seed).counts["commits"]


def test_a_seed_is_one_run() -> None:
    assert run_seed(3).fingerprint == fingerprint_elsewhere(
        "tests.simulation.groups.simulation", "run_seed(3)"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_missing_guard_is_noticed(mutant: Mutant) -> None:
    assert mutant.caught(run_seed).name != "crash"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_streams_groups_keep_their_promises(seed: int) -> None:
    assert run_streams_seed(seed).counts["commits"]


@pytest.mark.parametrize("mutant", STREAMS_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_guard_of_streams_groups_that_is_missing_is_noticed(mutant: Mutant) -> None:
    assert mutant.caught(run_streams_seed).name != "crash"
