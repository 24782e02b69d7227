"""What goes wrong in a run, and exactly when.

A `Strike` is armed when its turn comes; it then waits for the moment that its fault names, such as
the acknowledgement of the next record, and strikes there. A process that is killed has not sent
what it had not sent yet: where a fault says "before the followers have it", the answers to their
fetches of that very moment are kept back. When everything is started and healed again, `over` is
called; the run goes on when the cluster is calm. `STRIKES` is the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Protocol

from minikafka.lab.matrix import Acks, Fault, ProducerMode
from minikafka.lab.simulation.cluster.controller import CONTROLLER, TOPIC
from minikafka.lab.simulation.cluster.messages import Alter, Fetched, Produce, Produced
from minikafka.lab.simulation.coordinators.messages import AskTransactions, Call, WriteMarker
from minikafka.lab.simulation.network import CLIENTS_FROM
from minikafka.lab.simulation.stage import PARTITION, TIMING, LabNode, Stage, Trap
from minikafka.protocol.errors import ErrorCode

MARKER_WAIT_S = 0.5
JOIN_WAIT_S = 3.0
UNHEARD = 0.4
"""How often a leader is killed before it hears that a follower has joined the ISR."""
SUCCESSORS = 0.25
"""How often the next leader is killed as well."""
SUCCESSOR_S = 0.01
"""At most so long after it was elected: a follower has then cut its log, and fetched nothing."""
SUCCESSOR_WAIT_S = 0.5
LOOK_S = 0.002
DAMAGE = 0.5
"""How often a node that loses power finds a bit of its log changed."""
DIRECTORY = f"logs/{TOPIC}-{PARTITION}/"
REFUSALS = 0.5
"""Of requests that take no effect, where several are in flight."""
DOWN_S = (0.1, 0.6, 3.0)
"""How long a killed node is down; past its session or not."""
CLOCK_ERRORS_MS = (-1_800_000, -1000, 60_000, 3_600_000, 12 * 3_600_000)
"""Of nodes. Forward less than producer.id.expiration.ms (a day): beyond it a leader has forgotten
all sequence numbers. Back less than message.timestamp.after.max.ms (an hour): beyond it all records
are refused, because they seem to come from the future."""
PRODUCER_CLOCK_ERRORS_MS = (-3_600_000, 60_000)


class Programs(Protocol):
    """The programs of a run, as far as strikes act on them."""

    @property
    def producer_mode(self) -> ProducerMode: ...

    def kill_producer(self) -> None:
        """Another one of the same id goes on soon."""
        ...

    def set_producer_clock(self, error_ms: int) -> None: ...

    def send_more(self, count: int) -> None:
        """The program sends records at this moment."""
        ...


class Strike:
    """One thing that goes wrong.

    Attributes:
        number: as in `Scenario.kept`.
        text: what it was, in words; empty until it has happened.
        is_armed: it waits for its moment, or is not over.
        first_record: number of the record at which it strikes; later if that one does not do.
    """

    def __init__(
        self, number: int, fault: Fault, stage: Stage, programs: Programs, seed: int
    ) -> None:
        self.number = number
        self.fault = fault
        self.stage = stage
        self.programs = programs
        self.dice = Random(seed)
        self.text = ""
        self.is_armed = False
        self.first_record = 0

    def arm(self, next_record: int) -> None:
        """Its turn has come; it strikes at the next record, or one of the two after it."""
        self.is_armed = True
        self.first_record = next_record + self.dice.randrange(3)
        STRIKES[self.fault](self)

    def over(self) -> None:
        """Everything is started and healed."""
        self.is_armed = False

    def say(self, text: str) -> None:
        """It happens."""
        self.text = self.text or text
        self.stage.note_fault(text)

    # --- moments ----------------------------------------------------------------------------------

    def on_request(self, act: Callable[[int, Produce], bool]) -> None:
        """Look at every request of the producer that is sent, from its record on.

        Args:
            act: is given the producer's address and the request; whether it is lost.
        """

        def trap(sender: int, _: int, message: object) -> bool:
            return isinstance(message, Produce) and self._is_due(message) and act(sender, message)

        self.stage.on_send = trap

    def on_ack(self, act: Callable[[LabNode, int, str], bool]) -> None:
        """Look at every acknowledgement that is sent, from its record on.

        Args:
            act: is given the leader, the producer's address and the record; whether it is lost.
        """
        values: dict[tuple[int, int], str] = {}

        def trap(sender: int, receiver: int, message: object) -> bool:
            if isinstance(message, Produce) and self._is_due(message):
                values[sender, message.correlation] = message.value
            elif isinstance(message, Produced) and message.error_code is ErrorCode.NONE:
                value = values.get((receiver, message.correlation))
                return value is not None and act(self.stage.nodes[sender], receiver, value)
            return False

        self.stage.on_send = trap

    def on_arrival(self, act: Callable[[int, LabNode, Produce], bool]) -> None:
        """Look at every request that arrives at the leader, from its record on.

        Args:
            act: is given the producer's address, the leader and the request; whether the request
                ends here.
        """

        def trap(sender: int, node_id: int, message: object) -> bool:
            node = self.stage.nodes[node_id]
            return (
                isinstance(message, Produce)
                and self._is_due(message)
                and node is self.stage.leader
                and not node.is_paused
                and act(sender, node, message)
            )

        self.stage.on_arrival = trap

    def _is_due(self, message: Produce) -> bool:
        """Whether it is the record at which it strikes, or a later one."""
        return int(message.value[1:]) >= self.first_record

    def on_request_instead(self, trap: Trap) -> None:
        """The moment has not come: wait for another one."""
        if self.stage.on_send is not None:
            self.disarm()
            self.stage.on_arrival = trap

    def disarm(self) -> None:
        """The moment has come."""
        self.stage.on_send = self.stage.on_arrival = None

    def soon(self, action: Callable[..., None], *arguments: object) -> None:
        """At this very moment, but after what is being done."""
        self.stage.world.at(self.stage.world.now, action, *arguments)

    def later(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        """After some seconds."""
        self.stage.world.after(delay_s, action, *arguments)

    # --- what most of them do ---------------------------------------------------------------------

    def restart_later(self, nodes: list[LabNode]) -> None:
        """Start nodes again after a while; then it is over."""
        for node in nodes:
            delay_s = self.dice.choice(DOWN_S) * self.dice.uniform(0.5, 1.0)
            self.later(delay_s, self._restart, node, nodes)

    def heal_later(self, pairs: set[tuple[int, int]], delay_s: float) -> None:
        """Heal what was cut after a while; then it is over."""
        self.later(delay_s, self.stage.heal, pairs)
        self.later(delay_s, self.over)

    def _restart(self, node: LabNode, nodes: list[LabNode]) -> None:
        self.stage.start(node)
        if all(one.is_up for one in nodes):
            self.over()

    def kill(self, node: LabNode, when: str) -> None:
        """Kill a node, noticed or not, and start it again later; sometimes its successor, too."""
        self.disarm()
        self.say(f"node {node.node_id} is killed {when}")
        is_noticed = self.dice.random() < 0.7
        self.stage.kill(node, is_noticed=is_noticed)
        if is_noticed and self.stage.leader is node and self.dice.random() < SUCCESSORS:
            self.later(LOOK_S, self._kill_successor, node, self.stage.world.now + SUCCESSOR_WAIT_S)
        else:
            self.restart_later([node])

    def _kill_successor(self, node: LabNode, until: float) -> None:
        """Kill the next leader when the others have just heard of it."""
        leader = self.stage.leader
        if leader is None or leader is node or not leader.is_up:
            if self.stage.world.now < until:
                self.later(LOOK_S, self._kill_successor, node, until)
            else:
                self.restart_later([node])
            return
        self.later(self.dice.uniform(0.0, SUCCESSOR_S), self._kill_both, [node, leader])

    def _kill_both(self, nodes: list[LabNode]) -> None:
        self.stage.note_fault(f"node {nodes[-1].node_id}, which leads now, is killed, too")
        self.stage.kill(nodes[-1])
        self.restart_later(nodes)

    def process_unsent(
        self, node: LabNode, sender: int, message: Produce, *, to_clients: bool, to_nodes: bool
    ) -> bool:
        """Let a node append, and keep back what it sends of it; whether it did append.

        Args:
            node: the leader.
            sender: the producer's address.
            message: its request.
            to_clients: whether acknowledgements are kept back.
            to_nodes: whether answers to followers are kept back.
        """
        replica = node.replicas.get(message.number)
        before = -1 if replica is None else replica.log.log_end_offset
        kept: list[tuple[int, object]] = []

        def keep_back(source: int, to: int, sent: object) -> bool:
            if source != node.node_id:
                return False
            is_kept = to_clients if to >= CLIENTS_FROM else to_nodes and isinstance(sent, Fetched)
            if is_kept:
                kept.append((to, sent))
            return is_kept

        self.stage.on_send = keep_back
        node.receive(sender, message)
        self.stage.on_send = None
        if replica is not None and replica.log.log_end_offset > before:
            return True
        for to, sent in kept:
            node.send(to, sent)
        return False


# --- lost messages --------------------------------------------------------------------------------


def lose_request(strike: Strike) -> None:
    """A request does not take effect: its connection is broken, or the leader refuses it.

    Refused, it comes again after those that were sent behind it, if several are in flight.
    """
    mode = strike.programs.producer_mode
    if mode.in_flight_max > 1 and mode.acks is not Acks.NONE and strike.dice.random() < REFUSALS:
        strike.on_arrival(partial(_refuse, strike))
        return

    def act(sender: int, message: Produce) -> bool:
        strike.disarm()
        strike.say(f"the request with {message.value} is lost, its connection breaks")
        strike.stage.lose_connection(sender)
        strike.over()
        return True

    strike.on_request(act)


def _refuse(strike: Strike, sender: int, node: LabNode, message: Produce) -> bool:
    strike.disarm()
    strike.say(f"the request with {message.value} is refused by node {node.node_id}")
    answer = Produced(
        message.number, message.correlation, ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
    )
    strike.stage.send(node.node_id, sender, answer)
    strike.over()
    return True


def lose_ack(strike: Strike) -> None:
    """An acknowledgement does not arrive; its connection is broken. With acks=0 there is none."""
    if strike.programs.producer_mode.acks is Acks.NONE:
        strike.over()
        return

    def act(_: LabNode, receiver: int, value: str) -> bool:
        strike.disarm()
        strike.say(f"the acknowledgement of {value} is lost, its connection breaks")
        strike.stage.lose_connection(receiver)
        strike.over()
        return True

    strike.on_ack(act)


# --- the leader is killed -------------------------------------------------------------------------


def kill_before_append(strike: Strike) -> None:
    """A request has arrived, and is never looked at."""

    def act(_: int, node: LabNode, message: Produce) -> bool:
        strike.kill(node, f"before it appends {message.value}")
        return True

    strike.on_arrival(act)


def kill_after_append(strike: Strike) -> None:
    """The record is in the leader's log; with acks=all the followers may have it, or not."""
    is_replicated = strike.programs.producer_mode.acks is Acks.ALL and strike.dice.random() < 0.5
    to_nodes = strike.dice.random() < 0.5

    def act(sender: int, node: LabNode, message: Produce) -> bool:
        if strike.process_unsent(node, sender, message, to_clients=True, to_nodes=to_nodes):
            strike.kill(node, f"after it appended {message.value}, before it acknowledged it")
        return True

    def when_committed(node: LabNode, _: int, value: str) -> bool:
        strike.soon(strike.kill, node, f"after {value} is committed, before it acknowledged it")
        return True

    if is_replicated:
        strike.on_ack(when_committed)
    else:
        strike.on_arrival(act)


def kill_after_ack(strike: Strike) -> None:
    """With acks=all after the acknowledgement; else also before the followers have the record."""

    def act(sender: int, node: LabNode, message: Produce) -> bool:
        if strike.process_unsent(node, sender, message, to_clients=False, to_nodes=True):
            strike.kill(node, f"right after it acknowledged {message.value}")
        return True

    def when_acknowledged(node: LabNode, _: int, value: str) -> bool:
        strike.disarm()
        strike.soon(strike.kill, node, f"right after it acknowledged {value}")
        return False

    if strike.programs.producer_mode.acks is Acks.ALL:
        strike.on_ack(when_acknowledged)
    else:
        strike.on_arrival(act)


# --- cut off, and paused --------------------------------------------------------------------------


def isolate_leader(strike: Strike) -> None:
    """Nodes and controller do not reach it past its session; its clients do."""

    def act(_: int, node: LabNode, message: Produce) -> bool:
        strike.disarm()
        others = [CONTROLLER, *strike.stage.others(node)]
        duration_s = TIMING.session_timeout_s * strike.dice.uniform(1.1, 2.0)
        strike.say(f"node {node.node_id} is cut off from the other nodes, before {message.value}")
        strike.heal_later(strike.stage.cut_off(node, others), duration_s)
        return False

    strike.on_arrival(act)


def isolate_follower(strike: Strike) -> None:
    """Often long enough to leave the ISR; sometimes the controller does not reach it either.

    Sometimes the leader is killed when it is back and the leader has not heard that it has joined.
    """
    is_unheard = strike.dice.random() < UNHEARD

    def act(_: int, node: LabNode, message: Produce) -> bool:
        strike.disarm()
        follower = strike.stage.nodes[strike.dice.choice(strike.stage.others(node))]
        others = strike.stage.others(follower)
        if strike.dice.random() < 0.5:
            others.append(CONTROLLER)
        duration_s = TIMING.lag_time_max_s * strike.dice.choice((0.1, 1.2, 2.0))
        strike.say(f"node {follower.node_id} is cut off from the leader, before {message.value}")
        pairs = strike.stage.cut_off(follower, others)
        if is_unheard:
            strike.later(duration_s, strike.stage.heal, pairs)
            strike.later(duration_s, _wait_for_joining, strike, follower)
        else:
            strike.heal_later(pairs, duration_s)
        return False

    strike.on_arrival(act)


def _wait_for_joining(strike: Strike, follower: LabNode) -> None:
    """Wait until the leader asks the controller to let a follower into the ISR."""
    stage = strike.stage

    def trap(sender: int, _: int, message: object) -> bool:
        if (
            isinstance(message, Alter)
            and message.number == PARTITION
            and sender == stage.image.leader
            and follower.node_id not in stage.image.in_sync_replicas
            and follower.node_id in (member[0] for member in message.proposal.isr)
        ):
            strike.disarm()
            strike.soon(_join_unheard, strike, stage.nodes[sender], follower)
        return False

    def give_up() -> None:
        if stage.on_send is trap:  # it has not left the ISR, or is in it by now
            strike.disarm()
            strike.over()

    stage.on_send = trap
    strike.later(JOIN_WAIT_S, give_up)


def _join_unheard(strike: Strike, leader: LabNode, follower: LabNode) -> None:
    """The question arrives; the leader hears no answer, writes more, and is killed.

    What is acknowledged meanwhile has to be on the follower as well, which may be elected.
    """
    one, other = leader.node_id, follower.node_id
    pairs = {(CONTROLLER, one), (one, other), (other, one)}
    strike.stage.note_fault(
        f"node {leader.node_id} does not hear that node {follower.node_id} has joined the ISR"
    )
    strike.stage.world.cuts |= pairs
    strike.later(0.05, strike.programs.send_more, 3)
    strike.later(0.4, strike.stage.heal, pairs)
    strike.later(0.4, strike.kill, leader, "before it hears of it")


def pause_leader(strike: Strike) -> None:
    """Past its session, before or after it has appended a record; then it goes on, replaced."""
    is_after = strike.dice.random() < 0.5
    duration_s = TIMING.session_timeout_s * strike.dice.uniform(1.1, 1.8)

    def wake(node: LabNode) -> None:
        node.resume()
        strike.over()

    def act(sender: int, node: LabNode, message: Produce) -> bool:
        strike.disarm()
        if is_after:
            node.receive(sender, message)
        when = "after" if is_after else "before"
        strike.say(f"node {node.node_id} is paused {when} it appends {message.value}")
        node.pause()
        strike.later(duration_s, wake, node)
        return is_after

    strike.on_arrival(act)


# --- the last of the ISR --------------------------------------------------------------------------


def shrink_isr(strike: Strike) -> None:
    """The followers are cut off until only the leader is in sync; then it is lost with its disk.

    With min.insync.replicas=2 nothing is committed meanwhile: the followers stay eligible (KIP-966)
    and one of them leads with everything that was acknowledged. With 1, what was acknowledged
    meanwhile was on that disk alone. The partition stays offline until either an operator elects
    any live replica (the unclean election, which needs his order), or the node is back with an
    empty disk: it was the last known leader, so it leads (Kafka 4 does the same), and its
    followers cut their logs to what it has, which is nothing.
    """

    def act(sender: int, node: LabNode, message: Produce) -> bool:
        is_appended = False
        if message.transactional_id:  # a coordinator has to confirm it, and may be cut off, too
            is_appended = strike.process_unsent(
                node, sender, message, to_clients=False, to_nodes=True
            )
            if not is_appended:
                return True
        strike.disarm()
        stage = strike.stage
        pairs: set[tuple[int, int]] = set()
        for one in stage.others(node):
            pairs |= stage.cut_off(stage.nodes[one], [node.node_id])
        strike.say(
            f"the followers of node {node.node_id} are cut off before {message.value}; when the "
            "ISR has shrunk to it and more was written, it is lost with its disk"
        )
        strike.later(0.2, _wait_for_shrinking, strike, node, pairs)
        return is_appended

    strike.on_arrival(act)


def _wait_for_shrinking(strike: Strike, node: LabNode, pairs: set[tuple[int, int]]) -> None:
    if strike.stage.image.in_sync_replicas != (node.node_id,):
        strike.later(0.2, _wait_for_shrinking, strike, node, pairs)
        return
    strike.programs.send_more(3)
    strike.later(0.3, _lose_disk, strike, node, pairs)


def _lose_disk(strike: Strike, node: LabNode, pairs: set[tuple[int, int]]) -> None:
    stage = strike.stage
    stage.kill(node)
    node.lose_disk()
    stage.note_fault(f"node {node.node_id} is lost with its disk")
    strike.later(0.1, stage.heal, pairs)
    if strike.dice.random() < 0.5:
        strike.later(1.0, _elect_uncleanly, strike)
        strike.later(2.0, strike.restart_later, [node])
    else:
        strike.restart_later([node])


def _elect_uncleanly(strike: Strike) -> None:
    if strike.stage.leader is None:
        strike.stage.note_fault("the operator elects any live replica")
        strike.stage.elect_uncleanly()


# --- power ----------------------------------------------------------------------------------------


def lose_power_of_one(strike: Strike) -> None:
    """Of the leader or of a follower, while a record is written or soon after.

    Where other replicas have the records, and nothing says that this one has synced them, all that
    it wrote last may have reached the disk, but for a bit that is wrong.
    """
    is_leader = strike.dice.random() < 0.7
    delay_s = strike.dice.choice((0.0, 0.0, 0.001, 0.003))

    def lose(node: LabNode, value: str) -> None:
        strike.say(f"node {node.node_id} loses power while {value} is written")
        if len(strike.stage.nodes) > 1 and not strike.stage.topic.is_synced:
            _damage_log(strike, node)
        strike.stage.kill(node, power_loss=True)
        strike.restart_later([node])

    def act(sender: int, node: LabNode, message: Produce) -> bool:
        others = strike.stage.others(node)
        victim = node if is_leader or not others else strike.stage.nodes[strike.dice.choice(others)]
        strike.disarm()
        strike.process_unsent(node, sender, message, to_clients=False, to_nodes=delay_s == 0)
        strike.later(delay_s, lose, victim, message.value)
        return True

    strike.on_arrival(act)


def _damage_log(strike: Strike, node: LabNode) -> None:
    """Sometimes a bit is wrong in the segment that recovery is going to read.

    The rest of the segment is on the disk, so there may be intact batches behind the damage. If all
    of the log is synced, recovery believes the disk.
    """
    replica = node.replicas.get(PARTITION)
    if replica is None or replica.log.recovery_point >= replica.log.log_end_offset:
        return
    paths = [one for one in node.disk.paths(".log") if one.startswith(DIRECTORY)]
    path = max(paths, default="")
    size_bytes = len(node.disk.content(path)) if path else 0
    if node.is_up and size_bytes and strike.dice.random() < DAMAGE:
        strike.stage.note_fault(f"a bit of the log of node {node.node_id} is wrong")
        node.disk.flip_bit(path, strike.dice.randrange(size_bytes * 8))


def lose_power_of_all(strike: Strike) -> None:
    """All at once, right after an acknowledgement (acks=0: after a record is appended)."""
    nodes = [*strike.stage.nodes.values()]

    def lose(what: str) -> None:
        strike.say(f"all nodes lose power right after {what}")
        for node in nodes:
            strike.stage.kill(node, power_loss=True)
        strike.restart_later(nodes)

    def act(sender: int, node: LabNode, message: Produce) -> bool:
        strike.disarm()
        node.receive(sender, message)
        strike.soon(lose, f"node {node.node_id} appended {message.value}")
        return True

    def when_acknowledged(node: LabNode, _: int, value: str) -> bool:
        strike.disarm()
        strike.soon(lose, f"node {node.node_id} acknowledged {value}")
        return False

    if strike.programs.producer_mode.acks is Acks.NONE:
        strike.on_arrival(act)
    else:
        strike.on_ack(when_acknowledged)


# --- in good order --------------------------------------------------------------------------------


def jump_clock(strike: Strike) -> None:
    """The time of day of nodes or the producer jumps, just when an acknowledgement is lost.

    So the producer sends again what the leader appended before the jump.
    """
    error_ms = strike.dice.choice(CLOCK_ERRORS_MS)
    nodes = [one for one in strike.stage.nodes.values() if strike.dice.random() < 0.7]
    producer_error_ms = strike.dice.choice(PRODUCER_CLOCK_ERRORS_MS)
    has_producer = strike.dice.random() < 0.3 or not nodes

    def jump() -> None:
        texts: list[str] = []
        if nodes:
            names = ", ".join(f"node {one.node_id}" for one in nodes)
            texts.append(f"the clock of {names} jumps by {error_ms // 1000} s")
        for one in nodes:
            one.clock_error_ms = error_ms
        if has_producer:
            strike.programs.set_producer_clock(producer_error_ms)
            texts.append(f"the producer's clock jumps by {producer_error_ms // 1000} s")
        strike.say(" and ".join(texts))

    def act(_: LabNode, receiver: int, value: str) -> bool:
        strike.disarm()
        jump()
        strike.stage.note_fault(f"the acknowledgement of {value} is lost")
        strike.stage.lose_connection(receiver)
        strike.over()
        return True

    if strike.programs.producer_mode.acks is Acks.NONE:
        jump()
        strike.over()
    else:
        strike.on_ack(act)


def rolling_restart(strike: Strike) -> None:
    """Each node in turn stops in good order; the next one when all are in sync again."""
    strike.say("each node in turn is stopped and started again")
    _restart_next(strike, [*strike.stage.nodes.values()])


def _restart_next(strike: Strike, nodes: list[LabNode]) -> None:
    if not nodes:
        strike.over()
    elif strike.stage.is_in_sync:
        nodes[0].begin_stop()
        strike.later(0.1, _start_stopped, strike, nodes)
    else:
        strike.later(0.1, _restart_next, strike, nodes)


def _start_stopped(strike: Strike, nodes: list[LabNode]) -> None:
    node = nodes[0]
    if node.is_up:
        strike.later(0.1, _start_stopped, strike, nodes)
    else:
        strike.programs.send_more(1)
        strike.later(0.2, strike.stage.start, node)
        strike.later(0.3, _restart_next, strike, nodes[1:])


def kill_producer(strike: Strike) -> None:
    """While a request of it is under way; another one goes on."""

    def act(_: int, message: Produce) -> bool:
        strike.disarm()
        strike.say(f"the producer is killed right after it sent {message.value}")
        strike.soon(strike.programs.kill_producer)
        strike.soon(strike.over)
        return False

    strike.on_request(act)


def kill_coordinator(strike: Strike) -> None:
    """Of transactions: before or after it decides, or before or after it sends a marker."""
    is_after = strike.dice.random() < 0.5

    def at_request(sender: int, node_id: int, message: object) -> bool:
        if not isinstance(message, Call) or not isinstance(message.body, AskTransactions):
            return False
        node = strike.stage.nodes[node_id]
        if is_after:
            node.receive(sender, message)
        what = f"{type(message.body.command).__name__}"
        strike.kill(node, f"{'after' if is_after else 'before'} it has decided about {what}")
        return True

    def at_marker(sender: int, _: int, message: object) -> bool:
        if not isinstance(message, Call) or not isinstance(message.body, WriteMarker):
            return False
        strike.disarm()
        when = f"{'after' if is_after else 'before'} it has sent a marker"
        strike.soon(strike.kill, strike.stage.nodes[sender], when)
        return not is_after

    if strike.dice.random() < 0.4 and len(strike.stage.nodes) > 1:
        # If it leads the partition, too, it sends no message; then a request is the moment.
        strike.stage.on_send = at_marker
        strike.later(MARKER_WAIT_S, strike.on_request_instead, at_request)
    else:
        strike.stage.on_arrival = at_request


def do_nothing(strike: Strike) -> None:
    """Nothing goes wrong."""
    strike.over()


STRIKES: Mapping[Fault, Callable[[Strike], None]] = {
    Fault.NONE: do_nothing,
    Fault.REQUEST_LOST: lose_request,
    Fault.ACK_LOST: lose_ack,
    Fault.LEADER_KILLED_BEFORE_APPEND: kill_before_append,
    Fault.LEADER_KILLED_AFTER_APPEND: kill_after_append,
    Fault.LEADER_KILLED_AFTER_ACK: kill_after_ack,
    Fault.LEADER_ISOLATED: isolate_leader,
    Fault.FOLLOWER_ISOLATED: isolate_follower,
    Fault.LEADER_PAUSED: pause_leader,
    Fault.ISR_SHRUNK: shrink_isr,
    Fault.POWER_LOSS_ONE: lose_power_of_one,
    Fault.POWER_LOSS_ALL: lose_power_of_all,
    Fault.CLOCK_JUMP: jump_clock,
    Fault.ROLLING_RESTART: rolling_restart,
    Fault.PRODUCER_KILLED: kill_producer,
    Fault.COORDINATOR_KILLED: kill_coordinator,
}
"""How each fault is armed."""
