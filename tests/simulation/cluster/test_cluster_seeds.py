"""Whole simulated clusters, one seed after the other; `make simulate` runs as many as you like."""

import logging
from collections.abc import Iterator

import pytest

from minikafka.lab.simulation.cluster.cluster import Cluster, Plan, run_seed
from minikafka.lab.simulation.kit.run import SimulationFailed
from tests.simulation.cluster.mutants import MUTANTS
from tests.simulation.kit.canary import fingerprint_elsewhere
from tests.simulation.kit.mutants import Mutant

SEEDS_PER_TEST = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Damage and cut logs are daily business here."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, 160, SEEDS_PER_TEST))
def test_nothing_that_was_promised_is_broken(first: int) -> None:
    committed = acknowledged = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run_seed(seed)
        committed += outcome.counts["committed"]
        acknowledged += outcome.counts["acknowledged"]
    # A simulation in which little happens proves little.
    assert committed > 20 * SEEDS_PER_TEST
    assert acknowledged > 20 * SEEDS_PER_TEST


@pytest.mark.parametrize("first", range(0, 60, SEEDS_PER_TEST))
def test_nor_with_a_metadata_quorum(first: int) -> None:
    committed = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        committed += run_seed(seed, Plan(has_quorum=True)).counts["committed"]
    assert committed > 20 * SEEDS_PER_TEST


def test_without_power_failures_nothing_committed_is_ever_lost() -> None:
    for seed in range(1000, 1020):
        assert run_seed(seed, Plan(is_power_safe=True)).counts["forgiven"] == 0


def test_what_is_synced_survives_the_power_failure_of_all() -> None:
    """flush.messages=1: with the disks of all members in the same socket."""
    for seed in range(2000, 2020):
        assert run_seed(seed, Plan(is_synced=True)).counts["forgiven"] == 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_guard_is_noticed(mutant: Mutant) -> None:
    assert mutant.caught(lambda seed: run_seed(seed, mutant.plan)).name


def test_a_seed_repeats_a_run() -> None:
    outcome = run_seed(11, Plan(has_quorum=True))
    assert outcome.fingerprint == fingerprint_elsewhere(
        "minikafka.lab.simulation.cluster.cluster", "run_seed(11, Plan(has_quorum=True))"
    )


def test_a_failure_brings_its_seed_and_its_story() -> None:
    mutant = next(one for one in MUTANTS if "acks=all" in one.name)
    with mutant.applied(), pytest.raises(SimulationFailed) as caught:
        Cluster(0, Plan()).run()
    text = str(caught.value)
    assert text.startswith("seed 0: acknowledged is committed: ")
    assert "node 1 starts with {}" in text
    assert text.endswith("repeat it: python -m tests.simulation.cluster --first 0 --seeds 1")
