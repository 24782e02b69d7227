"""A quorum whose faults and changes hypothesis chooses, and makes few when an invariant breaks.

The nodes, their disks and what is checked all the time are those of the simulation, which plays
longer and at random. Here a run is short, and a failing one is shrunk.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from minikafka.consensus import Role
from minikafka.consensus.context import RaftContext
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.raft.node import SimulatedNode
from tests.kit.examples import SCALE, examples
from tests.simulation.raft.cluster import Cluster
from tests.simulation.raft.mutants import go_by_the_committed_voters

NODES = 5
places = st.integers(0, NODES - 1)
moments = st.sampled_from((0.0, 0.02, 0.3, 1.5))


class QuorumMachine(RuleBasedStateMachine):
    """Three configured voters and two observers; any of them may vote later."""

    @initialize(seed=st.integers(0, 7))
    def begin(self, seed: int) -> None:
        self.cluster = Cluster(seed, voter_count=3, observer_count=NODES - 3)
        for node in self.cluster.nodes:
            node.start()
        self.cluster.world.run_until(3.0)

    def node(self, place: int) -> SimulatedNode:
        return self.cluster.nodes[place]

    @rule(seconds=moments)
    def wait(self, seconds: float) -> None:
        world = self.cluster.world
        world.run_until(world.now + seconds)

    @rule()
    def propose(self) -> None:
        for node in self.cluster.nodes:
            if node.raft is not None and node.raft.is_ready:
                self.cluster.propose(node)

    @rule(place=places)
    def change_voters(self, place: int) -> None:
        for node in self.cluster.nodes:
            if node.raft is not None and node.raft.role is Role.LEADER:
                self.cluster.change_voters(node, self.node(place))

    @rule(place=places, seconds=moments, power_loss=st.booleans())
    def crash(self, place: int, seconds: float, power_loss: bool) -> None:
        self.cluster.crash(self.node(place), seconds, power_loss=power_loss)

    @rule(place=places, seconds=moments)
    def lose_directory(self, place: int, seconds: float) -> None:
        self.cluster.lose_directory(self.node(place), seconds)

    @rule(place=places, seconds=moments)
    def isolate(self, place: int, seconds: float) -> None:
        self.cluster.isolate(self.node(place), seconds)

    @rule()
    def heal(self) -> None:
        self.cluster.world.heal()

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.become_calm()
            self.cluster.keep_proposing()
            self.cluster.require_progress()


SHORT = settings(
    max_examples=examples(25),
    stateful_step_count=25,
    deadline=None,
    derandomize=SCALE == 1,
    suppress_health_check=list(HealthCheck),
)

UNSHRUNK = settings(SHORT, max_examples=examples(100), phases=[Phase.generate])


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minikafka")


def test_no_sequence_of_faults_and_changes_breaks_an_invariant() -> None:
    run_state_machine_as_test(QuorumMachine, settings=SHORT)


def test_a_broken_guard_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RaftContext, "voters", property(go_by_the_committed_voters))
    with pytest.raises(InvariantViolated, match="committed by a majority"):
        run_state_machine_as_test(QuorumMachine, settings=UNSHRUNK)
