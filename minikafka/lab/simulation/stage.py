"""The simulated cluster of a cell: nodes, controller, clients' connections, what can go wrong.

What goes wrong, and when, `strikes` decides; it is told of every message first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol

from minikafka.lab.matrix import TopicMode
from minikafka.lab.simulation.cluster.cluster import topic_state
from minikafka.lab.simulation.cluster.controller import (
    CONTROLLER,
    TOPIC,
    TOPIC_ID,
    SingleController,
)
from minikafka.lab.simulation.cluster.messages import Fetch, Fetched, Produce
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.lab.simulation.cluster.replica import NOW_MS
from minikafka.lab.simulation.cluster.timing import Timing
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.partition import Replicas
from minikafka.lab.simulation.network import CLIENTS_FROM, LabWorld
from minikafka.lab.simulation.recorder import (
    CONTROLLER_LANE,
    Recorder,
    WatchedTruth,
    node_lane,
)
from minikafka.lab.timeline import EventKind
from minikafka.metadata.decision import Decision
from minikafka.metadata.elections import ElectionKind, elect_leaders
from minikafka.metadata.placement import Placement
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.metadata.topics import create_topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics
from minikafka.replication import Committed, FetchAnswer
from minikafka.storage.memory_disk import MemoryDisk

TIMING = Timing(
    heartbeat_s=0.9,
    session_timeout_s=2.0,
    lag_time_max_s=2.0,
    fetch_wait_max_s=1.5,
    fetch_answer_max_s=2.0,
    stop_time_max_s=4.0,
    sync_s=(0.004, 0.004, 0.004, 0.05),
)
DELAYS_S = (0.001, 0.002, 0.006)
"""How long a message takes at most: the weather that a seed draws, and keeps when it is shrunk."""
PARTITION = 0
CALM_TIME_MAX_S = 60.0
LOOK_AGAIN_S = 0.2

Trap = Callable[[int, int, object], bool]
"""(sender, receiver, message) -> whether the message ends here."""


class LabNode(SimulatedNode):
    """A simulated node with a clock of its own.

    Attributes:
        clock_error_ms: how much its time of day is wrong.
        recorder: listens; None for nobody.
    """

    clock_error_ms = 0
    recorder: Recorder | None = None

    def record(self, kind: EventKind, text: str, **state: Any) -> None:
        """Something happens to it."""
        if self.recorder is not None:
            self.recorder.add(node_lane(self.node_id), kind, f"{self} {text}", **state)

    def start(self) -> None:
        if not self.is_up:
            super().start()
            replica = self.replicas.get(PARTITION)
            end_offset = 0 if replica is None else replica.log.log_end_offset
            self.record("start", "starts", is_up=True, is_paused=False, log_end_offset=end_offset)

    def crash(self, *, power_loss: bool) -> None:
        super().crash(power_loss=power_loss)
        kind: EventKind = "power-loss" if power_loss else "kill"
        text = "loses power" if power_loss else "is killed"
        self.record(kind, text, is_up=False, is_leader=False, isr=[])

    def pause(self) -> None:
        super().pause()
        self.record("pause", "is paused", is_paused=True)

    def resume(self) -> None:
        self.record("resume", "goes on", is_paused=False)
        super().resume()

    def stopped(self) -> None:
        self.record("stop", "stops in good order", is_up=False, is_leader=False, isr=[])
        super().stopped()

    def now_ms(self) -> int:
        return NOW_MS + self.clock_error_ms + int(self.world.now * 1000)

    def receive(self, sender: int, message: object) -> None:
        if (
            isinstance(message, Fetch)
            and message.number not in self.replicas
            and self.is_up
            and not self.is_paused
        ):
            answer = FetchAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.send(sender, Fetched(message.number, message.correlation, answer, ()))
        else:
            super().receive(sender, message)

    def lose_disk(self) -> None:
        """While it is down, it gets an empty disk."""
        self.disk = MemoryDisk(Random(self.node_id))
        self.all_replicas.lost_disk(self.node_id)


class ConnectionUser(Protocol):
    """Who opens connections."""

    def answered(self, connection: Connection, message: object) -> None: ...

    def closed(self, connection: Connection) -> None:
        """It is broken: what is under way may have arrived or not."""
        ...


class Connection:
    """Of a client to a node. What is sent arrives in order, until it breaks.

    Attributes:
        node_id: of the other end.
        address: answers come here.
        is_open: and may be used.
    """

    def __init__(self, stage: Stage, user: ConnectionUser, node_id: int, address: int) -> None:
        self.node_id = node_id
        self.address = address
        self.is_open = True
        self._stage = stage
        self._user = user

    def send(self, message: object) -> None:
        """Send a request."""
        if self.is_open:
            self._stage.send(self.address, self.node_id, message)

    def receive(self, _: int, message: object) -> None:
        """An answer."""
        if self.is_open:
            self._user.answered(self, message)

    def close(self) -> None:
        """The client closes it: what was sent still arrives, answers do not."""
        self.is_open = False
        self._stage.connections.pop(self.address, None)

    def tell_broken(self) -> None:
        """The client notices that it is broken."""
        if self.is_open:
            self.close()
            self._user.closed(self)


class Stage:
    """See the module's text.

    Attributes:
        nodes: by id.
        connections: open ones, by address.
        on_send: looks at every message that is sent, while something is about to go wrong.
        on_arrival: looks at every message of a client that arrives at a node.

    Args:
        topic: how partitions are replicated.
        seed: of all dice.
        partition_count: the first one is `PARTITION`.
        node_class: what nodes are.
    """

    def __init__(
        self,
        topic: TopicMode,
        seed: int,
        *,
        partition_count: int = 1,
        node_class: type[LabNode] = LabNode,
    ) -> None:
        self.topic = topic
        self.partition_count = partition_count
        self.world = LabWorld(seed)
        self.world.weather.delay_s = self.world.dice.choice(DELAYS_S)
        self.recorder: Recorder | None = None
        self.replicas = Replicas(
            self.world.note, is_synced=topic.is_synced, truth_class=WatchedTruth
        )
        self.truth = self.replicas.truth
        self.rules = ReplicationRules(topic.min_insync, is_unclean_election_enabled=False)
        state = topic_state(topic.min_insync, is_synced=topic.is_synced)
        broker_ids = range(1, topic.replicas + 1)
        self.nodes: Mapping[int, LabNode] = {
            one: node_class(self.world, one, self.replicas, self.rules, state, self.send, TIMING)
            for one in broker_ids
        }
        self.controller = SingleController(
            self.world, self.truth, self.rules, broker_ids, self.send, TIMING
        )
        self.connections: dict[int, Connection] = {}
        self.on_send: Trap | None = None
        self.on_arrival: Trap | None = None
        self._addresses = CLIENTS_FROM

    # --- messages --------------------------------------------------------------------------------

    def connect(self, user: ConnectionUser, lane: int, node_id: int) -> Connection:
        """Open a connection of a client; it breaks soon if nobody is there.

        Args:
            user: the client.
            lane: its number, which chooses the dice of the link.
            node_id: to which node.
        """
        self._addresses += 1
        connection = Connection(self, user, node_id, self._addresses)
        self.connections[connection.address] = connection
        self.world.lanes[connection.address] = CLIENTS_FROM + lane
        if not self.nodes[node_id].is_up:
            self._end(connection)
        return connection

    def send(self, sender: int, receiver: int, message: object) -> None:
        """The one way for all messages."""
        arrives = None
        if self.on_send is None or not self.on_send(sender, receiver, message):
            take = self._taker(sender, receiver)
            if take is not None:
                arrives = self.world.carry(sender, receiver, message, take)
        if self.recorder is not None:
            self.recorder.sent(sender, receiver, message, arrives)

    def _taker(self, sender: int, receiver: int) -> Callable[[int, object], None] | None:
        """Who takes a message; None if nobody is there any longer."""
        if receiver >= CLIENTS_FROM:
            connection = self.connections.get(receiver)
            return None if connection is None else connection.receive
        if receiver == CONTROLLER:
            return self.controller.receive
        if sender >= CLIENTS_FROM:
            return partial(self._arrive, receiver)
        return self.nodes[receiver].receive

    def _arrive(self, node_id: int, sender: int, message: object) -> None:
        """A client's request arrives."""
        node = self.nodes[node_id]
        if not node.is_up:
            return
        if self.on_arrival is not None and self.on_arrival(sender, node_id, message):
            return
        node.receive(sender, message)
        if isinstance(message, Produce) and not message.acks and not node.is_paused:
            replica = node.replicas.get(message.number)
            if replica is None or replica.leader is None:
                # Nobody waits for an answer, so an error closes the connection, as in Kafka.
                connection = self.connections.get(sender)
                if connection is not None:
                    self._end(connection)

    def _end(self, connection: Connection) -> None:
        """A node ends a connection, or its process ended; what it has sent arrives first."""
        world = self.world
        sent_until = world.end_of_link(connection.node_id, connection.address)
        world.at(max(world.now + 0.002, sent_until + 1e-6), connection.tell_broken)

    def _end_all(self, node: LabNode) -> None:
        for connection in [*self.connections.values()]:
            if connection.node_id == node.node_id:
                self._end(connection)

    def lose_connection(self, address: int) -> None:
        """The network loses a connection, with what is sent on it until the client notices."""
        connection = self.connections.get(address)
        if connection is not None:
            pairs = {(address, connection.node_id), (connection.node_id, address)}
            self.world.cuts |= pairs
            self.world.after(0.004, self.heal, pairs)
            self.world.after(0.004, connection.tell_broken)

    # --- what can go wrong -----------------------------------------------------------------------

    def kill(self, node: LabNode, *, power_loss: bool = False, is_noticed: bool = True) -> None:
        """End a process.

        Args:
            node: whose.
            power_loss: its machine loses power: what was not synced may be gone.
            is_noticed: clients and controller notice that their connections ended.
        """
        if not node.is_up:
            return
        node.crash(power_loss=power_loss)
        if power_loss or not is_noticed:
            return
        self._end_all(node)
        self.world.after(0.05, self._notice, node, node.boot)

    def start(self, node: LabNode) -> None:
        """Start a node that is down; it knows nothing of earlier connections."""
        if not node.is_up:
            self._end_all(node)
            node.start()

    def _notice(self, node: LabNode, boot: int) -> None:
        if not node.is_up and node.boot == boot:
            self.controller.lost(node.node_id)

    def cut_off(self, node: LabNode, others: list[int]) -> set[tuple[int, int]]:
        """Let nothing through between a node and others; returns what `heal` takes."""
        pairs = {(node.node_id, one) for one in others} | {(one, node.node_id) for one in others}
        self.world.note("cut {}", sorted(pairs))
        self.world.cuts |= pairs
        names = ", ".join(
            "the controller" if one == CONTROLLER else f"node {one}" for one in others
        )
        node.record("cut", f"is cut off from {names}", is_cut=True)
        return pairs

    def heal(self, pairs: set[tuple[int, int]]) -> None:
        """Let everything through again."""
        self.world.cuts -= pairs
        for node in self.nodes.values():
            if any(node.node_id == one and other < CLIENTS_FROM for one, other in pairs):
                node.record("heal", "is reached again", is_cut=False)

    def note_fault(self, text: str) -> None:
        """Something goes wrong."""
        self.world.note("{}", text)
        if self.recorder is not None:
            self.recorder.add(CONTROLLER_LANE, "note", text)

    def record(self, recorder: Recorder) -> None:
        """Let a recorder listen from now on, when all is calm."""
        self.recorder = recorder
        truth = self.truth
        assert isinstance(truth, WatchedTruth)
        truth.watcher = recorder
        recorder.lane(CONTROLLER_LANE, "controller", "controller")
        image = self.image
        recorder.begins(
            image.leader,
            {
                node_id: one.replicas[PARTITION].log.high_watermark
                for node_id, one in self.nodes.items()
            },
        )
        for node in self.nodes.values():
            node.recorder = recorder
            log = node.replicas[PARTITION].log
            is_leader = node.node_id == image.leader
            recorder.lane(
                node_lane(node.node_id),
                "broker",
                f"node {node.node_id}",
                is_up=True,
                is_paused=False,
                is_cut=False,
                is_leader=is_leader,
                leader_epoch=image.leader_epoch,
                log_end_offset=log.log_end_offset,
                high_watermark=log.high_watermark,
                last_stable_offset=log.high_watermark,
                isr=list(image.in_sync_replicas) if is_leader else [],
            )

    def elect_uncleanly(self) -> None:
        """The operator makes any live replica the leader (kafka-leader-election.sh)."""
        image = self.controller.image
        self.controller.decide(lambda: elect_leaders(image, ElectionKind.UNCLEAN, None, self.rules))

    # --- how it is -------------------------------------------------------------------------------

    @property
    def image(self) -> PartitionRecord:
        """The partition, as decided."""
        return self.truth.partitions[PARTITION].image

    @property
    def leader(self) -> LabNode | None:
        """The node that leads according to the controller; it may be down."""
        leader = self.image.leader
        return None if leader == NO_LEADER else self.nodes[leader]

    def others(self, node: LabNode) -> list[int]:
        """The other nodes."""
        return [one for one in self.nodes if one != node.node_id]

    @property
    def is_in_sync(self) -> bool:
        """All replicas are in the ISR."""
        return set(self.image.in_sync_replicas) == set(self.image.replicas)

    def what_is_missing(self) -> str:
        """Why the cluster is not calm: in sync, equal, everything committed; empty if it is."""
        if any(not node.is_up or node.is_paused for node in self.nodes.values()) or self.world.cuts:
            return "not every node is up"
        for number in range(self.partition_count):
            problem = self._what_is_missing_in(number)
            if problem:
                return problem
        return ""

    def _what_is_missing_in(self, number: int) -> str:
        image = self.truth.partitions[number].image
        if image.leader == NO_LEADER or set(image.in_sync_replicas) != set(image.replicas):
            return f"partition {number} is not in sync: {image}"
        leader = self.nodes[image.leader].replicas.get(number)
        if leader is None or leader.leader is None or not isinstance(leader.leader.isr, Committed):
            return f"leader {image.leader} is not settled: {image}"
        for node in self.nodes.values():
            replica = node.replicas.get(number)
            if replica is None:
                return f"{node} has no replica yet"
            if replica.entries != leader.entries:
                return f"{node} has another log than its leader"
            if replica.log.high_watermark != replica.log.log_end_offset:
                return f"{node} shows records up to {replica.log.high_watermark}"
        return ""

    def run_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Let time pass until something is so.

        Raises:
            InvariantViolated: it takes more than `CALM_TIME_MAX_S`.
        """
        world = self.world
        end = world.now + CALM_TIME_MAX_S
        while not is_so():
            if world.now > end:
                text = f"{what}: not in {CALM_TIME_MAX_S} s; {self.what_is_missing()}"
                raise InvariantViolated("liveness", text)
            world.run_until(world.now + LOOK_AGAIN_S)

    def end(self) -> None:
        """Take it down: nodes, logs and timers refer to each other.

        The garbage collector would have to find them, which takes a twentieth of a run's time.
        """
        self.world.end()
        for node in self.nodes.values():
            node.forget()

    # --- the beginning ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the nodes and create the topic."""
        for node in self.nodes.values():
            node.start()
        self.controller.begin()
        self.run_until(self._are_all_active, "all nodes are in service")
        self._create_topic()
        self.run_until(lambda: not self.what_is_missing(), "the topic is served")

    def _are_all_active(self) -> bool:
        brokers = self.controller.image.brokers
        return len(brokers) == len(self.nodes) and all(one.is_active for one in brokers.values())

    def _create_topic(self) -> None:
        brokers = sorted(self.nodes)
        topic = create_topics.CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                create_topics.CreatableReplicaAssignment(
                    partition_index=number, broker_ids=self.world.dice.sample(brokers, len(brokers))
                )
                for number in range(self.partition_count)
            ],
            configs=[],
        )

        def decide() -> Decision[object]:
            image = self.controller.image
            decision = create_topic(image, topic, Placement.of(image, 1, 1, 0), lambda: TOPIC_ID)
            return Decision(decision.records, decision.result)

        self.controller.decide(decide)
