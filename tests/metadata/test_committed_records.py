"""No committed record is lost, and a planned move loses none at all: histories from seeds.

`tests.metadata.replicated_partition` says how the brokers behave and checks every election. Here is
what happens to them. A story is a seed: it is too long to be found, or shrunk, step by step, so a
failure prints what happened.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from minikafka.metadata.records import NO_LEADER
from tests.metadata.replicated_partition import BROKERS, ReplicatedPartition

STEPS = 60


class Story:
    """A partition to which things happen that a seed chooses."""

    def __init__(self, seed: int, *, min_insync: int, loses_disk_ends: bool) -> None:
        self.random = Random(seed)
        self.world = ReplicatedPartition(min_insync)
        self.loses_disk_ends = loses_disk_ends
        self.steps = [
            (6, self.replicate),
            (6, self.isr_becomes),
            (3, self.heal),
            (3, self.move),
            (3, self.apply),
            (2, self.produce),
            (3, self.fetch),
            (3, self.advance),
            (3, self.propose),
            (3, self.proposal_arrives),
            (1, self.proposals_get_lost),
            (1, self.give_up),
            (2, self.fence),
            (6, self.unfence),
            (3, self.crash),
            (6, self.restart),
            (2, self.stop),
            (1, self.set_min_insync),
        ]

    def run(self) -> None:
        """Let it happen."""
        weights = [weight for weight, _ in self.steps]
        for _, step in self.random.choices(self.steps, weights, k=STEPS):
            note(f"{step.__name__}: {step()}")

    def recover(self) -> None:
        """Everybody dies once more, comes back, and does what is right."""
        world = self.world
        world.in_flight.clear()
        for broker_id in BROKERS:
            if world.processes[broker_id].is_alive:
                world.crash(broker_id, 0)
        world.fence([*BROKERS])
        for broker_id in BROKERS:
            world.restart(broker_id, is_clean=False)
        for broker_id in BROKERS:
            world.apply_all()
            world.unfence(broker_id)
        for _ in range(2):
            leader = self.leader()
            assert leader is not None
            for other in BROKERS:
                self.replicate_to(leader, [*BROKERS])
                world.propose(leader, other, is_joining=True, next_leader=False)
                self.decide_at_once(leader)

    def any(self) -> int:
        return self.random.choice(BROKERS)

    def some(self) -> list[int]:
        return [one for one in BROKERS if self.random.random() < 0.5]

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def leader(self) -> int | None:
        """The leader, if it lives; everybody knows it then."""
        self.world.apply_all()
        leader = self.world.cluster.at().leader
        return leader if leader != NO_LEADER and self.world.leads(leader) else None

    # --- what goes as it should ----------------------------------------------------------------

    def replicate(self) -> object:
        """The leader appends, some fetch it, and it is committed."""
        leader, followers = self.leader(), self.some()
        self.replicate_to(leader, followers)
        return leader, followers, self.world.committed[-2:]

    def replicate_to(self, leader: int | None, followers: list[int]) -> None:
        if leader is not None:
            self.world.produce(leader)
            for follower in 2 * followers:
                self.world.fetch(follower, 100)
            self.world.advance(leader)

    def isr_becomes(self) -> object:
        """The leader brings some into the ISR and leaves the others out, if it can."""
        leader, followers = self.leader(), self.some()
        self.replicate_to(leader, followers)
        for other in BROKERS if leader is not None else ():
            assert leader is not None
            self.world.propose(leader, other, is_joining=other in followers, next_leader=False)
            self.decide_at_once(leader)
        self.replicate_to(self.leader(), followers)
        return leader, followers, self.world.cluster.at()

    def decide_at_once(self, leader: int) -> None:
        """What the leader asks for is decided, sometimes with a copy that comes late."""
        self.world.propose_again(leader)
        if self.world.processes[leader].pending is not None:
            last = len(self.world.in_flight) - 1
            self.world.decide_proposal(last, is_kept=self.coin())
            self.world.apply_all()

    def heal(self) -> object:
        """Everybody comes back, and what is committed goes on where it can."""
        for broker_id in BROKERS:
            if not self.world.processes[broker_id].is_alive:
                self.world.restart(broker_id, is_clean=False)
        for broker_id in BROKERS:
            self.world.apply_all()
            self.world.unfence(broker_id)
        return self.isr_becomes()

    def move(self) -> object:
        """The leader hands over, if the other can have everything."""
        leader, other = self.leader(), self.any()
        if leader is not None:
            self.world.produce(leader)
            self.world.freeze(leader, other)
            if self.coin():
                self.world.fetch(other, 100)
                self.world.fetch(other, 0)
            self.world.propose(leader, other, is_joining=False, next_leader=True)
            if self.coin():
                self.decide_at_once(leader)
        return leader, other, self.world.cluster.at()

    # --- what happens between ------------------------------------------------------------------

    def apply(self) -> object:
        broker_id = self.any()
        self.world.apply(broker_id)
        return broker_id

    def produce(self) -> object:
        leader = self.any()
        self.world.produce(leader)
        return leader

    def fetch(self) -> object:
        follower = self.any()
        self.world.fetch(follower, self.random.randrange(3))
        return follower

    def advance(self) -> object:
        self.world.advance(self.any())
        return self.world.committed[-2:]

    def propose(self) -> object:
        for leader in BROKERS:
            self.world.propose(leader, self.any(), is_joining=self.coin(), next_leader=False)
        return self.world.in_flight[-1:]

    def proposal_arrives(self) -> object:
        if not self.world.in_flight:
            return None
        index = self.random.randrange(len(self.world.in_flight))
        self.world.decide_proposal(index, is_kept=self.coin())
        return index, self.world.cluster.at()

    def proposals_get_lost(self) -> object:
        self.world.in_flight.clear()
        return None

    def give_up(self) -> object:
        for leader in BROKERS:
            self.world.give_up(leader)
        return self.world.in_flight[-1:]

    # --- what goes wrong -----------------------------------------------------------------------

    def fence(self) -> object:
        gone = self.some()
        self.world.fence(gone)
        return gone, self.world.cluster.at()

    def unfence(self) -> object:
        back = self.some()
        for broker_id in back:
            self.world.apply_all()
            self.world.unfence(broker_id)
        return back, self.world.cluster.at()

    def crash(self) -> object:
        broker_id = self.any()
        lost = self.random.randrange(4) if self.loses_disk_ends else 0
        if self.world.processes[broker_id].is_alive:
            self.world.crash(broker_id, lost)
            if self.coin():
                self.world.fence([broker_id])
        return broker_id, lost, self.world.cluster.at()

    def restart(self) -> object:
        for broker_id in BROKERS:
            if not self.world.processes[broker_id].is_alive and self.coin():
                self.world.restart(broker_id, is_clean=False)
                if self.coin():
                    self.world.apply_all()
                    self.world.unfence(broker_id)
        return self.world.cluster.at()

    def stop(self) -> object:
        broker_id = self.any()
        is_forced = self.coin()
        if self.world.processes[broker_id].is_alive and self.world.stop(
            broker_id, is_forced=is_forced
        ):
            self.world.restart(broker_id, is_clean=True)
        return broker_id, is_forced, self.world.cluster.at()

    def set_min_insync(self) -> object:
        value = self.random.randint(1, 2)
        self.world.set_min_insync(value)
        return value


@pytest.mark.parametrize("min_insync", [1, 2])
@pytest.mark.parametrize("loses_disk_ends", [False, True], ids=["kill", "power-failure"])
@given(seed=st.integers(0, 2**64 - 1))
def test_an_elected_leader_has_every_committed_record(
    seed: int, min_insync: int, loses_disk_ends: bool
) -> None:
    story = Story(seed, min_insync=min_insync, loses_disk_ends=loses_disk_ends)
    story.run()
    story.recover()
    assert story.world.cluster.at().in_sync_replicas == BROKERS
    leader = story.leader()
    assert leader is not None
    story.replicate_to(leader, [*BROKERS])
    assert story.world.committed == story.world.processes[leader].log
