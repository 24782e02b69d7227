"""Simulated quorums under attack; `python -m tests.simulation.raft --seeds N` runs more of them."""

from __future__ import annotations

import pytest

from minikafka.consensus import Committed, Effect, Event, RaftNode
from tests.simulation.raft.cluster import Cluster, Outcome, SimulationFailed, run_seed

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
    assert sum(outcome.committed for outcome in outcomes) > 20 * SEEDS_PER_TEST
    assert sum(outcome.elections for outcome in outcomes) > 2 * SEEDS_PER_TEST
    assert sum(outcome.crashes for outcome in outcomes) > 2 * SEEDS_PER_TEST


def test_snapshots_are_among_what_is_simulated() -> None:
    assert sum(run_seed(seed).snapshots for seed in range(5)) > 0


def test_a_seed_repeats_its_run() -> None:
    def run_twice(seed: int) -> list[tuple[Outcome, str]]:
        runs: list[tuple[Outcome, str]] = []
        for _ in range(2):
            cluster = Cluster(seed)
            outcome = cluster.run()
            runs.append((outcome, cluster.world.trace(10_000)))
        return runs

    for seed in (3, 7):
        first, second = run_twice(seed)
        assert first == second
        assert first[1]


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
