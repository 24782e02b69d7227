"""A simulated quorum under attack: a phase of safety, then one of liveness.

First everything that may go wrong does: messages are lost, repeated, late and overtaken, links are
cut in one direction or both, nodes are killed, lose power, are paused, disks are slow or fail,
leaders are asked to go. In half of the runs the voters are recorded in the log and change again and
again. Nothing has to get done, but no invariant may break. Then all is well
again, and a leader has to be found and has to commit something on every node.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable

from minikafka.consensus import (
    AddVoter,
    PeerLost,
    Propose,
    QuorumConfig,
    RecordVoters,
    RemoveVoter,
    Role,
    TransferLeadership,
    Voter,
)
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.run import Outcome, traced
from minikafka.lab.simulation.kit.world import Weather, World
from minikafka.lab.simulation.raft.invariants import Observations
from minikafka.lab.simulation.raft.node import SimulatedNode

MODULE = "tests.simulation.raft"
SAFETY_S = 20.0
LIVENESS_S = 20.0
_PROPOSALS_PER_S = 4.0


class Cluster:
    """See the module's text.

    Args:
        seed: decides everything.
        voter_count: configured voters; by default the seed decides.
        observer_count: further nodes; as above.
    """

    def __init__(
        self, seed: int, *, voter_count: int | None = None, observer_count: int | None = None
    ) -> None:
        self.seed = seed
        self.world = World(seed)
        dice = self.world.dice
        self._seconds_between_changes: float | None = None
        if voter_count is None or observer_count is None:
            voter_count, observer_count = self._choose_counts()
        voters = frozenset(range(1, voter_count + 1))
        self.seen = Observations(voters)
        self.nodes: list[SimulatedNode] = []
        self.crashes = 0
        self.directories_lost = 0
        self.quorums_lost = 0
        self._proposals = 0
        self._is_calm = False
        memory_size_bytes = dice.choice((40, 200, 10**6))
        append_size_bytes: int = dice.choice((1, 60, 10**6))
        in_flight = dice.choice((1, 2, 8))
        piece_size_bytes = dice.choice((3, 1000))
        for node_id in range(1, voter_count + observer_count + 1):
            config = QuorumConfig(
                node_id,
                voters,
                append_size_bytes_max=append_size_bytes,
                appends_in_flight_max=in_flight,
                snapshot_piece_size_bytes=piece_size_bytes,
                observer_silence_s=3.0,
                log_memory_size_bytes_max=memory_size_bytes,
            )
            node = SimulatedNode(self.world, config, self.seen, lambda: self.nodes, self._elected)
            node.compacts_after = dice.choice((5, 20, 10**9))
            self.nodes.append(node)
        self.world.weather = Weather(
            loss=dice.choice((0.0, 0.02, 0.2)),
            repetition=dice.choice((0.0, 0.05)),
            delay_s=dice.choice((0.001, 0.02, 0.1)),
            detour=dice.choice((0.0, 0.05)),
            detour_s=dice.choice((0.2, 3.0)),
            fsync_s=dice.choice((0.001, 0.02)),
            slow_fsync=dice.choice((0.0, 0.03)),
            slow_fsync_s=dice.choice((0.3, 1.5)),
        )
        self._seconds_between_faults = dice.choice((0.2, 0.8, 3.0))
        self._has_short_reigns = dice.random() < 0.2
        if self._has_short_reigns:
            self.world.weather = Weather(delay_s=0.01)
            self._seconds_between_faults = 100.0

    def _choose_counts(self) -> tuple[int, int]:
        dice = self.world.dice
        self._seconds_between_changes = dice.choice((None, 0.3, 1.0))
        if self._seconds_between_changes is not None:
            return dice.choice((1, 1, 2, 3, 4)), dice.choice((1, 2, 3))
        return dice.choice((1, 2, 3, 3, 3, 3, 4, 5, 5)), dice.choice((0, 0, 1, 2))

    # --- a run -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run it; raises SimulationFailed."""
        world = self.world
        with traced(MODULE, self.seed, world.trace):
            for node in self.nodes:
                world.after(world.dice.random() * 0.5, self._start, node)
            self.keep_proposing()
            self._next_fault()
            self._next_change()
            world.run_until(SAFETY_S)
            self.become_calm()
            self.require_progress()
        counts = Counter(
            committed=self.seen.commit_index,
            elections=len(self.seen.leaders),
            crashes=self.crashes,
            directories=self.directories_lost,
            changes=self.seen.changes,
            quorums_lost=self.quorums_lost,
            snapshots=sum(
                node.raft is not None and node.raft.log.base_index > 0 for node in self.nodes
            ),
        )
        return Outcome(self.seed, world.now, counts, world.whole_trace)

    def _start(self, node: SimulatedNode) -> None:
        if node.raft is None:
            node.start()

    def keep_proposing(self) -> None:
        dice = self.world.dice
        self.world.after(dice.expovariate(_PROPOSALS_PER_S), self.keep_proposing)
        leaders = [node for node in self.nodes if node.raft is not None and node.raft.is_ready]
        if leaders:
            self.propose(dice.choice(leaders))

    def propose(self, node: SimulatedNode) -> None:
        assert node.raft is not None
        self._proposals += 1
        payload = b"%d" % self._proposals
        node.deliver(Propose(payload, node.raft.epoch, self._proposals))

    # --- voters that come and go -------------------------------------------------------------

    def _next_change(self) -> None:
        dice = self.world.dice
        if self._seconds_between_changes is None:
            return
        pause_s = dice.expovariate(1 / self._seconds_between_changes)
        self.world.after(pause_s, self._next_change)
        leaders = [
            node for node in self.nodes if node.raft is not None and node.raft.role is Role.LEADER
        ]
        if leaders and not self._is_calm:
            leader = dice.choice(leaders)
            self.change_voters(leader, dice.choice(self.nodes))
            if dice.random() < 0.3:
                self.change_voters(leader, dice.choice(self.nodes))

    def change_voters(self, leader: SimulatedNode, node: SimulatedNode) -> None:
        """Ask a leader to add a node to the voters, or to remove it if it is one of them.

        One of the configured voters remains: without them a node that was away would not find the
        others.
        """
        raft = leader.raft
        if raft is None or node.raft is None:
            return
        directory_id = node.raft.directory_id
        if raft.log.voters is None:
            addresses = tuple((one, "host", one) for one in sorted(raft.voters))
            leader.deliver(RecordVoters(addresses, "voters"))
        elif node.node_id not in raft.voters:
            voter = Voter(node.node_id, directory_id, "host", node.node_id)
            leader.deliver(AddVoter(voter, f"plus {node.node_id}"))
        elif (raft.voters & node.config.voters) - {node.node_id}:
            leader.deliver(RemoveVoter(node.node_id, directory_id, f"minus {node.node_id}"))

    # --- faults ------------------------------------------------------------------------------

    def _next_fault(self) -> None:
        dice = self.world.dice
        self.world.after(dice.expovariate(1 / self._seconds_between_faults), self._next_fault)
        if self._is_calm:
            return
        faults: list[Callable[[SimulatedNode, float], None]] = [
            self.crash,
            self.crash,
            self._lose_power,
            self._lose_power,
            self._pause,
            self._cut_one_way,
            self.isolate,
            self._split,
            self._fail_disk,
            self._transfer,
            self._claim_loss,
            self._heal,
            self._lose_all_power,
            self.lose_directory,
        ]
        leaders = [
            node for node in self.nodes if node.raft is not None and node.raft.role is Role.LEADER
        ]
        victims = leaders if leaders and dice.random() < 0.4 else self.nodes
        dice.choice(faults)(dice.choice(victims), dice.choice((0.05, 0.3, 2.0)) * dice.random())

    def _elected(self, node: SimulatedNode) -> None:
        """Leaders that few nodes can reach, and that die soon, leave strange logs."""
        dice = self.world.dice
        if self._has_short_reigns and not self._is_calm:
            deafness = dice.choice((0.3, 1.0))
            self.world.cut(
                {(node.node_id, other.node_id) for other in self.nodes if dice.random() < deafness},
                0.04,
            )
            reign_s = dice.random() * dice.choice((0.02, 0.04))
            self.world.after(reign_s, self.crash, node, dice.random() * 0.3)

    def crash(self, node: SimulatedNode, duration_s: float, *, power_loss: bool = False) -> None:
        if node.raft is not None:
            self.crashes += 1
            node.crash(power_loss=power_loss)
            self.world.after(duration_s, self._start, node)

    def _lose_power(self, node: SimulatedNode, duration_s: float) -> None:
        self.crash(node, duration_s, power_loss=True)

    def _lose_all_power(self, node: SimulatedNode, duration_s: float) -> None:
        if self.world.dice.random() < 0.3:
            for one in self.nodes:
                self.crash(one, duration_s * self.world.dice.random(), power_loss=True)

    def lose_directory(self, node: SimulatedNode, duration_s: float) -> None:
        """Any minority of the voters' directories may be lost at once, at any moment."""
        lost = {one.node_id for one in self.nodes if one.lost_epochs is not None} | {node.node_id}
        # Those of a change that is not committed, or not known everywhere, are voters, too.
        in_use = {self.seen.voters, *(one.voters for one in self.nodes)}
        if any(len(voters - lost) <= len(voters) // 2 for voters in in_use):
            return
        # All configured voters together, with empty directories, are a new cluster.
        configured = [one for one in self.nodes if one.node_id in node.config.voters]
        if all(one is node or one.is_empty for one in configured):
            return
        self.directories_lost += 1
        self.crash(node, duration_s)
        node.lose_directory()
        self.world.after(duration_s, self._start, node)

    def _pause(self, node: SimulatedNode, duration_s: float) -> None:
        node.pause()
        self.world.after(duration_s * 2, node.resume)

    def _cut_one_way(self, node: SimulatedNode, duration_s: float) -> None:
        others = self._others(node)
        if others:
            self.world.cut_one_way(node.node_id, others, 2 * duration_s)

    def isolate(self, node: SimulatedNode, duration_s: float) -> None:
        self.world.isolate(node.node_id, self._others(node), 2 * duration_s)

    def _others(self, node: SimulatedNode) -> list[int]:
        return [one.node_id for one in self.nodes if one is not node]

    def _split(self, node: SimulatedNode, duration_s: float) -> None:
        self.world.split([one.node_id for one in self.nodes], 2 * duration_s)

    def _heal(self, node: SimulatedNode, duration_s: float) -> None:
        self.world.heal()

    def _fail_disk(self, node: SimulatedNode, duration_s: float) -> None:
        dice = self.world.dice
        operation = dice.choice(("pwritev", "fsync", "rename", "truncate", "pread"))
        node.disk.fail(operation, code=dice.choice((errno.EIO, errno.ENOSPC)))
        self.world.after(duration_s, node.disk.heal)

    def _transfer(self, node: SimulatedNode, duration_s: float) -> None:
        target = self.world.dice.choice((None, *(one.node_id for one in self.nodes)))
        node.deliver(TransferLeadership(target))

    def _claim_loss(self, node: SimulatedNode, duration_s: float) -> None:
        """A node believes that a running process has ended."""
        node.deliver(PeerLost(self.world.dice.choice(self.nodes).node_id))

    # --- liveness ----------------------------------------------------------------------------

    def become_calm(self) -> None:
        world = self.world
        world.note("all is well from here on")
        self._is_calm = True
        world.cuts.clear()
        world.weather = Weather()
        for node in self.nodes:
            node.disk.heal()
            node.resume()
            self._start(node)

    def require_progress(self) -> None:
        """A leader is found, and all nodes apply what was committed after that."""
        world = self.world
        end = world.now + LIVENESS_S
        while world.now < end:
            start = self.seen.commit_index
            world.run_until(world.now + 1.0)
            leaders = [node for node in self.nodes if node.raft is not None and node.raft.is_ready]
            if leaders:
                world.run_until(world.now + 1.5)
                if self.seen.commit_index > start + 1 and all(
                    node.applied_index > start + 1
                    and (node.is_admitted or node.node_id not in self.seen.voters)
                    for node in self.nodes
                ):
                    return
        if self._is_majority_lost():
            world.note("a voter was removed while another one lost its directory")
            self.quorums_lost += 1
            return
        raise InvariantViolated(
            "liveness",
            f"nothing was committed everywhere in {LIVENESS_S} calm seconds: voters are "
            f"{sorted(self.seen.voters)}, applied are "
            f"{[node.applied_index for node in self.nodes]} of {self.seen.commit_index}, admitted "
            f"are {[node.node_id for node in self.nodes if node.is_admitted]}",
        )

    def _is_majority_lost(self) -> bool:
        """Whether a change went through at the moment in which a directory was lost.

        The loss was harmless for the voters before, and the leader could not know of it.
        """
        lost = {one.node_id for one in self.nodes if one.lost_epochs is not None}
        return any(len(one.voters - lost) <= len(one.voters) // 2 for one in self.nodes)


def run_seed(seed: int) -> Outcome:
    """Run one seed; raises SimulationFailed."""
    return Cluster(seed).run()
