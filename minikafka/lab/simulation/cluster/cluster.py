"""A simulated cluster under attack: a phase of safety, then one of liveness.

First everything that may go wrong does: messages are lost, repeated, late and overtaken, links are
cut in one direction or both, nodes are killed, lose power, are paused, stop and come back; replicas
and leaders are moved meanwhile. Nothing has to get done, but no invariant may break (`truth`). Then
all is well again, and everything has to be in sync, equal and acknowledged.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from minikafka.broker.replicas.topic_state import TopicState
from minikafka.lab.simulation.cluster.clients import Consumer, Producer
from minikafka.lab.simulation.cluster.controller import (
    CONTROLLER,
    TOPIC,
    TOPIC_ID,
    Controller,
    SingleController,
)
from minikafka.lab.simulation.cluster.faults import Faults
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.lab.simulation.cluster.quorum import QuorumNode
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.partition import Replicas
from minikafka.lab.simulation.kit.run import Outcome, traced
from minikafka.lab.simulation.kit.world import Weather, World
from minikafka.metadata.decision import Decision
from minikafka.metadata.placement import Placement
from minikafka.metadata.records import NO_LEADER
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.metadata.topic_settings import topic_values
from minikafka.metadata.topics import create_topic
from minikafka.protocol.messages import create_topics
from minikafka.replication import Committed

Take = Callable[[int, object], None]

MODULE = "tests.simulation.cluster"
SEGMENT_SIZE_BYTES = 1500

FIRST_CLIENT = 100
START_S = 5.0
SAFETY_S = 50.0
LIVENESS_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is like; by default everything is drawn from the seed.

    Attributes:
        safety_s: How long things go wrong.
        has_quorum: Decisions are committed by a quorum of brokers; else by a controller that is
            always there.
        broker_count: How many brokers, None to draw it.
        partition_count: How many partitions, None to draw it.
        replica_count: How many replicas of each, None to draw it.
        min_insync: min.insync.replicas, None to draw it.
        producers: acks of each partition's producers, and whether they are idempotent; None to
            draw them.
        is_power_safe: There are no power failures.
        is_synced: Every replica syncs what it counts (flush.messages=1), None to draw it.
    """

    safety_s: float = SAFETY_S
    has_quorum: bool = False
    broker_count: int | None = None
    partition_count: int | None = None
    replica_count: int | None = None
    min_insync: int | None = None
    producers: tuple[tuple[int, bool], ...] | None = None
    is_power_safe: bool = False
    is_synced: bool | None = None


class Cluster:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.seed = seed
        self.plan = plan
        self.world = World(seed)
        dice = self.world.dice
        self.crashes = 0
        self.faults: Counter[str] = Counter()
        is_synced = dice.random() < 0.2 if plan.is_synced is None else plan.is_synced
        self.replicas = Replicas(self.world.note, is_synced=is_synced)
        self.truth = self.replicas.truth
        count = plan.broker_count or dice.choice((3, 3, 3, 4, 5))
        min_insync = plan.min_insync or dice.choice((1, 2, 2))
        self.rules = ReplicationRules(min_insync, is_unclean_election_enabled=False)
        topic = topic_state(min_insync, is_synced=is_synced)
        broker_ids = range(1, count + 1)
        node_class = QuorumNode if plan.has_quorum else SimulatedNode
        self.nodes: Mapping[int, SimulatedNode] = {
            broker_id: node_class(
                self.world, broker_id, self.replicas, self.rules, topic, self.send
            )
            for broker_id in broker_ids
        }
        self._single_controller: SingleController | None = None
        if not plan.has_quorum:
            self._single_controller = SingleController(
                self.world, self.truth, self.rules, broker_ids, self.send
            )
        self.clients: dict[int, Producer | Consumer] = {}
        self._last_sent: dict[int, deque[tuple[int, object, Take]]] = {
            broker_id: deque(maxlen=3) for broker_id in broker_ids
        }
        self._producer_ids = 0
        self._nemesis: Faults | None = None
        self.partition_count = plan.partition_count or dice.choice((1, 1, 2))
        self.replica_count = plan.replica_count or min(count, dice.choice((2, 3, 3, 3)))

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def send(self, sender: int, receiver: int, message: object) -> None:
        route = self._route(sender, receiver)
        if route is not None:
            receiver, take = route
            self.world.deliver(sender, receiver, message, take)
            if sender in self.nodes:
                self._last_sent[sender].append((receiver, message, take))

    def _route(self, sender: int, receiver: int) -> tuple[int, Take] | None:
        """Find out who takes a message; None when the sender does not know where to send it."""
        if receiver >= FIRST_CLIENT:
            return receiver, self.clients[receiver].receive
        if receiver != CONTROLLER:
            return receiver, self.nodes[receiver].receive
        if self._single_controller is not None:
            return receiver, self._single_controller.receive
        sending = self.nodes[sender]
        assert isinstance(sending, QuorumNode)
        leader_id = sending.find_controller()
        if leader_id is None:
            return None
        leader = self.nodes[leader_id]
        assert isinstance(leader, QuorumNode)
        return leader_id, leader.receive_for_controller

    # --- a run -----------------------------------------------------------------------------------

    def run_for(self, seconds: float) -> None:
        self.guarded(lambda: self.world.run_until(self.world.now + seconds))

    def run(self) -> Outcome:
        """Run it.

        Raises:
            SimulationFailed: an invariant does not hold.
        """
        self.guarded(self._run)
        return self.finish()

    def guarded(self, action: Callable[[], None]) -> None:
        """Do something with the cluster; a failure brings its trace."""
        with traced(MODULE, self.seed, self.world.trace):
            action()

    def finish(self) -> Outcome:
        partitions = self.truth.partitions.values()
        counts = Counter(
            committed=sum(len(one.committed) for one in partitions),
            acknowledged=sum(len(one.acknowledged) for one in partitions),
            leaders=sum(len(one.leaders) for one in partitions),
            forgiven=sum(one.forgiven for one in partitions),
            crashes=self.crashes,
        )
        return Outcome(self.seed, self.world.now, counts, self.world.whole_trace, self.faults)

    def _run(self) -> None:
        self.begin()
        self.break_things()
        self.world.run_until(START_S + self.plan.safety_s)
        self.become_calm()
        self.require_convergence()

    def begin(self) -> None:
        for node in self.nodes.values():
            node.start()
        if self._single_controller is not None:
            self._single_controller.begin()
        self.world.run_until(START_S / 2)
        while not self.truth.partitions:
            self.make_topic()
            self.world.run_until(self.world.now + 0.5)
        self.world.run_until(max(START_S, self.world.now))
        self.make_clients()

    def make_topic(self) -> None:
        brokers = sorted(self.nodes)
        dice = self.world.dice
        assignments = [
            create_topics.CreatableReplicaAssignment(
                partition_index=number, broker_ids=dice.sample(brokers, self.replica_count)
            )
            for number in range(self.partition_count)
        ]
        topic = create_topics.CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[],
        )
        controller = self.active_controller()
        if controller is None or len(controller.image.brokers) < len(self.nodes):
            return

        def decide() -> Decision[object]:
            placement = Placement.of(controller.image, 1, 1, 0)
            decision = create_topic(controller.image, topic, placement, lambda: TOPIC_ID)
            return Decision(decision.records, decision.result)

        controller.decide(decide)

    def break_things(self) -> None:
        plan = self.plan
        self._nemesis = Faults(self, has_quorum=plan.has_quorum, is_power_safe=plan.is_power_safe)

    def make_clients(self) -> None:
        dice = self.world.dice
        for number in range(self.partition_count):
            others = ((-1, False), (1, False), (0, False), (-1, True))
            kinds = ((-1, True), dice.choice(others))
            for acks, is_idempotent in self.plan.producers or kinds:
                address = FIRST_CLIENT + len(self.clients)
                self.clients[address] = Producer(
                    self,
                    address,
                    number,
                    acks=acks,
                    is_idempotent=is_idempotent,
                    mean_pause_s=dice.choice((0.5, 1.5, 4.0)),
                )
            address = FIRST_CLIENT + len(self.clients)
            self.clients[address] = Consumer(self, address, number)

    # --- what faults do --------------------------------------------------------------------------

    def kill(
        self, node: SimulatedNode, *, power_loss: bool = False, is_noticed: bool = False
    ) -> None:
        """End a process; often the controller notices that its connection ended."""
        if node.is_up:
            self.crashes += 1
            node.crash(power_loss=power_loss)
            self._deliver_stragglers(node.node_id)
            if is_noticed or self.world.dice.random() < 0.5:
                self.world.after(0.05, self._notice, node, node.boot)

    def _deliver_stragglers(self, node_id: int) -> None:
        """What a dead process has sent may arrive long after."""
        dice = self.world.dice
        for receiver, message, take in self._last_sent[node_id]:
            if dice.random() < 0.5 and (node_id, receiver) not in self.world.cuts:
                self.world.after(dice.uniform(0.1, 4.0), take, node_id, message)

    def _notice(self, node: SimulatedNode, boot: int) -> None:
        if node.is_up or node.boot != boot:
            return
        if self._single_controller is not None:
            self._single_controller.lost(node.node_id)
        for other in self.nodes.values():
            if isinstance(other, QuorumNode):
                other.lose_peer(node.node_id)

    def active_controller(self) -> Controller | None:
        """The node that believes it is the active controller; None without any."""
        if self._single_controller is not None:
            return self._single_controller
        controllers = [
            node.controller
            for node in self.nodes.values()
            if isinstance(node, QuorumNode) and node.controller is not None
        ]
        return max(controllers, key=lambda one: one.epoch, default=None)

    # --- liveness --------------------------------------------------------------------------------

    def become_calm(self) -> None:
        world = self.world
        world.note("all is well from here on")
        if self._nemesis is not None:
            self._nemesis.stop()
        world.cuts.clear()
        world.weather = Weather()
        for node in self.nodes.values():
            node.resume()
            node.start()
        for client in self.clients.values():
            if isinstance(client, Producer):
                client.stop()

    def require_convergence(self) -> None:
        """Everything is in sync, equal and acknowledged, soon."""
        world = self.world
        end = world.now + LIVENESS_S
        problem = ""
        while world.now < end:
            world.run_until(world.now + 2.0)
            for node in self.nodes.values():
                node.start()  # some were still stopping
            problem = self._what_is_missing()
            if not problem:
                break
        if problem:
            raise InvariantViolated("liveness", f"after {LIVENESS_S} calm seconds {problem}")
        self.truth.require_all_kept()

    def _what_is_missing(self) -> str:
        for client in self.clients.values():
            if isinstance(client, Producer) and client.pending and client.acks:
                return f"client {client.address} waits for {client.pending[0].value}"
        for number, one in self.truth.partitions.items():
            image = one.image
            if image.leader == NO_LEADER:
                return f"partition {number} has no leader: {image}"
            if set(image.in_sync_replicas) != set(image.replicas) or image.adding_replicas:
                return f"partition {number} is not in sync: {image}"
            leader = self.nodes[image.leader].replicas[number]
            if leader.leader is None or not isinstance(leader.leader.isr, Committed):
                return f"leader {image.leader} of partition {number} is not settled: {image}"
            for node_id in image.replicas:
                replica = self.nodes[node_id].replicas[number]
                log = replica.log
                if replica.entries != leader.entries:
                    return f"node {node_id} has another log of partition {number} than its leader"
                if log.high_watermark != log.log_end_offset:
                    return (
                        f"node {node_id} shows partition {number} up to {log.high_watermark}, "
                        f"and it ends at {log.log_end_offset}"
                    )
        for client in self.clients.values():
            if isinstance(client, Consumer):
                end_offset = self.truth.partitions[client.number].end_offset
                if client.offset != end_offset:
                    return f"client {client.address} has read up to {client.offset} of {end_offset}"
        return ""


def topic_state(min_insync: int, *, is_synced: bool) -> TopicState:
    """The topic's settings: Kafka's defaults, but for these."""
    settings = {
        "min.insync.replicas": str(min_insync),
        "segment.bytes": str(SEGMENT_SIZE_BYTES),
        "flush.messages": "1" if is_synced else str(2**63 - 1),
    }
    values = topic_values(settings, {})
    return TopicState(TOPIC, TOPIC_ID, values, producer_id_expiration_ms=86_400_000)


def run_seed(seed: int, plan: Plan | None = None) -> Outcome:
    """Run one seed; raises SimulationFailed."""
    return Cluster(seed, plan or Plan()).run()
