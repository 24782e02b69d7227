"""Whole brokers and transactions; `python -m tests.simulation.brokers.transactions` runs more."""

from __future__ import annotations

import pytest

from tests.simulation.brokers.transactions import MODULE, run_seed
from tests.simulation.kit.canary import fingerprint_elsewhere
from tests.simulation.kit.mutants import Mutant
from tests.simulation.transactions.mutants import (
    any_marker,
    high_watermark_is_stable,
    nothing_is_fenced,
)

SEEDS = (0, 4, 23)
MUTANTS = (
    high_watermark_is_stable._replace(seeds=5),
    any_marker._replace(first=14, seeds=10),
    nothing_is_fenced._replace(seeds=5),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_copied_exactly_once(seed: int) -> None:
    outcome = run_seed(seed)
    # What did nothing has shown nothing.
    assert outcome.counts["copied"] > 20
    assert outcome.counts["committed"] > 5
    assert outcome.faults.total() > 2


def test_a_seed_of_transactions_repeats_its_run_in_another_process() -> None:
    assert run_seed(7, 3.0).fingerprint == fingerprint_elsewhere(MODULE, "run_seed(7, 3.0)")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_whole_brokers_without_a_guard_are_found_out(mutant: Mutant) -> None:
    assert mutant.caught(run_seed).name != "crash"
