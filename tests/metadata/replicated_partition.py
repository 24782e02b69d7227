"""One partition with records in it: leaders and followers that do what the protocols say.

Brokers see the metadata late, each as late as it likes; proposals are lost, repeated and delayed;
processes die and lose the end of their logs; sessions end while the broker lives. What leaders do
is as simple as it can be and still right. So if a record gets lost, the controller lost it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.metadata.alter_partition import IsrProposal, alter_partitions
from minikafka.metadata.brokers import unfence_broker
from minikafka.metadata.decision import Refusal
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.replication import IsrMember
from tests.metadata.cluster import Cluster

BROKERS = (1, 2, 3)
Log = list[tuple[int, int]]
"""Records as (leader epoch, value)."""


class View(NamedTuple):
    """What a broker that has applied so much of the metadata knows."""

    partition: PartitionRecord
    min_insync: int


@dataclass
class Process:
    """A broker: what is on its disk, and what it knows."""

    broker_epoch: int
    log: Log = field(default_factory=Log)
    applied: int = 0
    is_alive: bool = True
    high_watermark: int = 0
    positions: dict[int, int] = field(default_factory=dict[int, int])
    fetcher_epochs: dict[int, int] = field(default_factory=dict[int, int])
    epoch_start: int = 0
    pending: IsrProposal | None = None
    frozen_for: int | None = None


class ReplicatedPartition:
    """The partition ``t-0`` on brokers 1, 2 and 3.

    Attributes:
        committed: every record that a leader ever committed, in order.
        in_flight: proposals on their way: (broker, its epoch, proposal).
        excuse: no replica known to have all committed records is left, and disks were lost.
    """

    def __init__(self, min_insync: int) -> None:
        self.cluster = Cluster(3)
        self.topic = self.cluster.topic("t", [*BROKERS], min_insync_replicas=str(min_insync))
        self.history = [View(self.cluster.at(), min_insync)]
        self.processes = {one: Process(self.cluster.epoch(one)) for one in BROKERS}
        self.committed: Log = []
        self.in_flight: list[tuple[int, int, IsrProposal]] = []
        self.excuse = False
        self.has_lost_disk_ends = False
        self.values = 0

    # --- lookups -------------------------------------------------------------------------------

    def view(self, broker_id: int) -> View:
        """What a broker knows."""
        return self.history[self.processes[broker_id].applied]

    def leads(self, broker_id: int) -> bool:
        """True when a broker lives and believes that it leads."""
        process = self.processes[broker_id]
        return process.is_alive and self.view(broker_id).partition.leader == broker_id

    # --- the controller ------------------------------------------------------------------------

    def committed_to_metadata(self) -> None:
        """Note what the last decision did, and check that no election lost a record."""
        old, new = self.history[-1].partition, self.cluster.at()
        minimum = self.cluster.image.topic_settings("t")["min.insync.replicas"]
        view = View(new, int(minimum))
        if view == self.history[-1]:
            return
        self.history.append(view)
        if new.leader not in (NO_LEADER, old.leader):
            self.check_leader(new.leader)

    def check_leader(self, broker_id: int) -> None:
        """Check that a new leader has what is committed, if it lives to serve it."""
        process = self.processes[broker_id]
        if not process.is_alive:
            return
        if self.excuse:
            # What it lost is lost: from here on only the rest counts.
            self.committed = common_prefix(process.log, self.committed)
            self.excuse = False
        assert process.log[: len(self.committed)] == self.committed, self.history[-2:]

    def decide_proposal(self, index: int, *, is_kept: bool) -> None:
        """Let a proposal arrive; when it is kept, another copy is still on its way."""
        by, epoch, proposal = self.in_flight[index]
        if not is_kept:
            del self.in_flight[index]
        old = self.cluster.at()
        self.cluster.commit(
            alter_partitions(self.cluster.image, by, epoch, [proposal], self.cluster.defaults)
        )
        new = self.cluster.at()
        if new.leader != old.leader:
            # A planned move loses nothing at all, also what only acks=1 acknowledged.
            assert proposal.leader == new.leader
            given, taken = self.processes[old.leader].log, self.processes[new.leader].log
            is_served = self.processes[new.leader].is_alive
            assert taken[: len(given)] == given or not is_served, (old, new)
        self.committed_to_metadata()

    def fence(self, broker_ids: list[int]) -> None:
        """End sessions; the brokers may live."""
        self.cluster.fence(*broker_ids)
        self.committed_to_metadata()

    def unfence(self, broker_id: int) -> None:
        """Take a broker that lives and has applied everything into service."""
        process = self.processes[broker_id]
        if not process.is_alive or process.applied != len(self.history) - 1:
            return
        image, defaults = self.cluster.image, self.cluster.defaults
        decision = unfence_broker(image, broker_id, process.broker_epoch, defaults)
        if not isinstance(decision.result, Refusal):
            self.cluster.commit(decision)
            self.committed_to_metadata()

    def set_min_insync(self, value: int) -> None:
        self.cluster.set("min.insync.replicas", str(value))
        self.committed_to_metadata()

    # --- processes -----------------------------------------------------------------------------

    def crash(self, broker_id: int, lost_records: int) -> None:
        """Kill a process; the end of its log may be lost with it."""
        process = self.processes[broker_id]
        process.is_alive = False
        if lost_records and process.log:
            self.has_lost_disk_ends = True
            del process.log[-lost_records:]

    def restart(self, broker_id: int, *, is_clean: bool) -> None:
        """Start a process that died, or that stopped in good order.

        It acts on nothing that is older than its own registration: it would take itself for the
        leader that it was before it lost the end of its log, and others would follow it.
        """
        process = self.processes[broker_id]
        before = self.cluster.at()
        complete = {*before.in_sync_replicas, *before.eligible_leader_replicas}
        if complete == {broker_id} and not is_clean and self.has_lost_disk_ends:
            self.excuse = True
        broker = self.cluster.register(broker_id, is_clean=is_clean)
        self.processes[broker_id] = Process(broker.broker_epoch, process.log)
        self.committed_to_metadata()
        self.processes[broker_id].applied = len(self.history) - 1

    def stop(self, broker_id: int, *, is_forced: bool) -> bool:
        """Ask to stop in good order; when it may, the process ends. Returns whether it did."""
        process = self.processes[broker_id]
        if process.broker_epoch != self.cluster.epoch(broker_id):
            return False
        old = self.cluster.at()
        progress = self.cluster.stop(broker_id, is_forced=is_forced)
        new = self.cluster.at()
        assert new.leader in (old.leader, NO_LEADER) or is_forced, "only a hand-over moves leaders"
        self.committed_to_metadata()
        process.is_alive = not progress.may_stop
        return progress.may_stop

    def apply(self, broker_id: int) -> None:
        """Let a broker see one more change of the partition."""
        process = self.processes[broker_id]
        if not process.is_alive or process.applied == len(self.history) - 1:
            return
        old = self.view(broker_id).partition
        process.applied += 1
        new = self.view(broker_id).partition
        if new.partition_epoch != old.partition_epoch:
            process.pending = None
            process.frozen_for = None
        if new.leader_epoch != old.leader_epoch:
            process.positions = {}
            process.fetcher_epochs = {}
            process.epoch_start = len(process.log)
            if self.leads(broker_id) and new.leader_epoch == self.cluster.at().leader_epoch:
                self.check_leader(broker_id)

    def apply_all(self) -> None:
        """Let every broker that lives see everything."""
        for broker_id in BROKERS:
            for _ in self.history:
                self.apply(broker_id)

    # --- leaders and followers -----------------------------------------------------------------

    def produce(self, leader: int) -> None:
        """Append a record, if the broker believes that it leads and may append."""
        process = self.processes[leader]
        if self.leads(leader) and process.frozen_for is None:
            self.values += 1
            process.log.append((self.view(leader).partition.leader_epoch, self.values))

    def fetch(self, follower: int, count: int) -> None:
        """Let a follower fetch from whom it believes to be the leader."""
        mine = self.view(follower).partition
        leader = mine.leader
        if leader in (NO_LEADER, follower) or not self.processes[follower].is_alive:
            return
        source, target = self.processes[leader], self.processes[follower]
        if not self.leads(leader) or self.view(leader).partition.leader_epoch != mine.leader_epoch:
            return
        target.log = common_prefix(target.log, source.log)
        source.positions[follower] = len(target.log)
        source.fetcher_epochs[follower] = target.broker_epoch
        target.log += source.log[len(target.log) :][:count]
        target.high_watermark = min(source.high_watermark, len(target.log))

    def advance(self, leader: int) -> None:
        """Commit what the maximal ISR has, if the ISR that is committed is large enough."""
        if not self.leads(leader):
            return
        process, (partition, minimum) = self.processes[leader], self.view(leader)
        in_sync = set(partition.in_sync_replicas)
        if len(in_sync) < min(minimum, len(partition.replicas)):
            return
        if process.pending is not None:
            in_sync |= {one.broker_id for one in process.pending.in_sync_replicas}
        in_sync.discard(leader)
        reached = min((process.positions.get(one, 0) for one in in_sync), default=len(process.log))
        reached = min(reached, len(process.log))
        if reached > process.high_watermark:
            process.high_watermark = reached
            known = process.log[:reached]
            assert common_prefix(known, self.committed) in (known, self.committed)
            if reached > len(self.committed):
                self.committed = known

    def propose(self, leader: int, other: int, *, is_joining: bool, next_leader: bool) -> None:
        """Ask for another ISR, or for another leader, if nothing is asked for yet."""
        if not self.leads(leader) or self.processes[leader].pending is not None or other == leader:
            return
        process, partition = self.processes[leader], self.view(leader).partition
        in_sync = set(partition.in_sync_replicas)
        position = process.positions.get(other, -1)
        if next_leader:
            if process.frozen_for != other or position != len(process.log):
                return
        elif is_joining:
            needed = max(process.high_watermark, process.epoch_start)
            if other not in partition.replicas or position < needed:
                return
            in_sync.add(other)
        else:
            in_sync.discard(other)
        if next_leader or in_sync != set(partition.in_sync_replicas):
            self.send(leader, in_sync, other if next_leader else NO_LEADER)

    def propose_again(self, leader: int) -> None:
        """Repeat a proposal that was not answered."""
        process = self.processes[leader]
        if self.leads(leader) and process.pending is not None:
            self.in_flight.append((leader, process.broker_epoch, process.pending))

    def freeze(self, leader: int, other: int) -> None:
        """Stop appending, so that another member of the ISR can catch up and take over."""
        process = self.processes[leader]
        if self.leads(leader) and process.pending is None and other != leader:
            process.frozen_for = other

    def give_up(self, leader: int) -> None:
        """Thaw, or, when the hand-over was proposed, take the proposal back first."""
        process = self.processes[leader]
        if not self.leads(leader) or process.frozen_for is None:
            return
        if process.pending is None:
            process.frozen_for = None
        else:
            self.send(leader, set(self.view(leader).partition.in_sync_replicas), leader)

    def send(self, leader: int, in_sync: set[int], next_leader: int) -> None:
        """Put a proposal on its way."""
        process, partition = self.processes[leader], self.view(leader).partition
        members = tuple(
            IsrMember(
                one,
                process.broker_epoch
                if one == leader
                else process.fetcher_epochs.get(one, self.processes[one].broker_epoch),
            )
            for one in sorted(in_sync)
        )
        process.pending = IsrProposal(
            self.topic.topic_id,
            0,
            partition.leader_epoch,
            partition.partition_epoch,
            members,
            next_leader,
        )
        self.in_flight.append((leader, process.broker_epoch, process.pending))


def common_prefix(one: Log, other: Log) -> Log:
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return one[:length]
