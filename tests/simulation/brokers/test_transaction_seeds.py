"""Whole brokers and transactions; `python -m tests.simulation.brokers.transactions` runs more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.brokers.clients import BrokenPromiseError
from tests.simulation.brokers.simulation import SimulationFailed, reason_of
from tests.simulation.brokers.transactions import run_seed
from tests.simulation.transactions.mutants import (
    Mutant,
    high_watermark_is_stable,
    markers_of_any_epoch,
    nobody_is_fenced,
)

SEEDS = (0, 4, 23)
MUTANTS: tuple[Mutant, ...] = (
    high_watermark_is_stable,
    markers_of_any_epoch,
    nobody_is_fenced,
)
MUTANT_SEEDS = 50
"""Most show themselves in the first five."""
CANARY_SEED = 7
CANARY_SECONDS = 3.0


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_copied_exactly_once(seed: int) -> None:
    outcome = run_seed(seed)
    # What did nothing has shown nothing.
    assert outcome.copied > 20
    assert outcome.committed > 5
    assert outcome.faults.total() > 2


def test_a_seed_of_transactions_repeats_its_run_in_another_process() -> None:
    outcome = run_seed(CANARY_SEED, CANARY_SECONDS)
    code = (
        "from tests.simulation.brokers.transactions import run_seed;"
        f"print(run_seed({CANARY_SEED}, {CANARY_SECONDS}).fingerprint)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert other.stdout.strip() == outcome.fingerprint


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_whole_brokers_without_a_guard_are_found_out(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(map(breaks_a_promise, range(MUTANT_SEEDS)))


def breaks_a_promise(seed: int) -> bool:
    try:
        run_seed(seed)
    except SimulationFailed as error:
        if not isinstance(reason_of(error), SimulationFailed | BrokenPromiseError):
            raise  # the mutant does not fit the code any more
        return True
    return False
