"""Simulated quorums under attack; `python -m tests.simulation.raft --seeds N` runs more of them."""

from __future__ import annotations

import pytest

from minikafka.consensus import Committed, Effect, Event, RaftNode
from minikafka.lab.simulation.kit.run import SimulationFailed
from tests.simulation.kit.canary import fingerprint_elsewhere
from tests.simulation.raft.cluster import run_seed

SEEDS = 150
SEEDS_PER_TEST = 10


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Damage and losses are reported as errors, and a simulation has thousands of them."""
    caplog.set_level("CRITICAL", "minikafka")


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_invariant_breaks_and_a_leader_is_found(first: int) -> None:
    outcomes = [run_seed(seed) for seed in range(first, first + SEEDS_PER_TEST)]
    # What did nothing has shown nothing.
    assert sum(outcome.counts["committed"] for outcome in outcomes) > 20 * SEEDS_PER_TEST
    assert sum(outcome.counts["elections"] for outcome in outcomes) > 2 * SEEDS_PER_TEST
    assert sum(outcome.counts["crashes"] for outcome in outcomes) > 2 * SEEDS_PER_TEST


def test_snapshots_are_among_what_is_simulated() -> None:
    assert sum(run_seed(seed).counts["snapshots"] for seed in range(5)) > 0


def test_a_seed_repeats_its_run() -> None:
    for seed in (3, 7):
        call = f"run_seed({seed})"
        assert run_seed(seed).fingerprint == fingerprint_elsewhere(
            "tests.simulation.raft.cluster", call
        )
    assert run_seed(3).fingerprint != run_seed(7).fingerprint


def test_a_failure_says_what_happened_and_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = RaftNode.handle

    def hide_commits(self: RaftNode, event: Event, now: float) -> list[Effect]:
        return [one for one in handle(self, event, now) if not isinstance(one, Committed)]

    monkeypatch.setattr(RaftNode, "handle", hide_commits)
    with pytest.raises(SimulationFailed) as caught:
        run_seed(0)
    text = str(caught.value)
    assert caught.value.name == "liveness"
    assert "seed 0: liveness" in text
    assert "AppendRequest" in text
    assert "python -m tests.simulation.raft --first 0 --seeds 1" in text
