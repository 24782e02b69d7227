"""Whole brokers under attack; `python -m tests.simulation.brokers --seeds N` runs more of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from minikafka.broker.acknowledgements import Acknowledgements
from minikafka.broker.partition import Partition
from minikafka.protocol.messages.produce import PartitionProduceResponse
from tests.simulation.brokers.simulation import SimulationFailed, run_seed

SEEDS = (1, 3, 11, 15, 21)
FAULT_SECONDS = 12.0
CANARY_SEED = 7
CANARY_SECONDS = 3.0
MUTANT_SEEDS = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_acknowledged_stays_once_in_order_and_everywhere(seed: int) -> None:
    outcome = run_seed(seed, FAULT_SECONDS)
    # What did nothing has shown nothing.
    assert outcome.acknowledged > 100
    assert outcome.read == outcome.acknowledged
    assert outcome.committed > 10
    assert outcome.faults.total() > 2


def test_a_seed_repeats_its_run_step_by_step_in_another_process() -> None:
    outcome = run_seed(CANARY_SEED, CANARY_SECONDS)
    code = (
        "from tests.simulation.brokers.simulation import run_seed;"
        f"print(run_seed({CANARY_SEED}, {CANARY_SECONDS}).fingerprint)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert other.stdout.strip() == outcome.fingerprint
    assert run_seed(CANARY_SEED + 1, CANARY_SECONDS).fingerprint != outcome.fingerprint


def run_seeds(seeds: Iterable[int]) -> None:
    """Run seeds until one fails."""
    for seed in seeds:
        run_seed(seed, 15.0)


def test_an_acknowledgement_before_the_commit_is_found_out_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait_for_nobody(
        self: Acknowledgements, partition: Partition, offset: int, answer: PartitionProduceResponse
    ) -> None:
        del self, partition, offset, answer

    monkeypatch.setattr(Acknowledgements, "add", wait_for_nobody)
    with pytest.raises(SimulationFailed) as caught:
        run_seeds(range(MUTANT_SEEDS))
    text = str(caught.value)
    (seed,) = set(re.findall(r"^seed (\d+): ", text, re.MULTILINE))
    assert "acknowledged records are gone" in text or "acknowledged: " in text
    assert "start broker1" in text
    assert f"python -m tests.simulation.brokers --first {seed} --seeds 1" in text
