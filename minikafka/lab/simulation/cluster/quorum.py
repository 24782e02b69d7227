"""Brokers whose metadata log is a real quorum: `minikafka.consensus` decides what is committed.

The first three nodes vote, the others observe. The leader of the quorum is the active controller,
as soon as it has applied everything that was committed before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from minikafka.consensus import (
    Committed,
    DurableLog,
    Effect,
    Event,
    PeerLost,
    PersistEntries,
    PersistSnapshot,
    PersistState,
    Propose,
    QuorumConfig,
    RaftNode,
    Received,
    Refused,
    Role,
    Send,
)
from minikafka.lab.simulation.cluster.controller import Controller
from minikafka.lab.simulation.cluster.messages import QuorumMessage
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.lab.simulation.kit.truth import Decided
from minikafka.metadata.image import MetadataImage

VOTERS = frozenset({1, 2, 3})
DIRECTORY = "quorum"
NOTHING = Decided((), is_proposal=False)


class QuorumController(Controller):
    """The active controller on the node that leads the quorum, for one epoch of it."""

    def __init__(self, node: QuorumNode, epoch: int) -> None:
        super().__init__(node, node.rules)
        self._node = node
        self.epoch = epoch
        self._tokens = 0
        self._then: dict[int, Callable[[], None]] = {}

    @property
    def image(self) -> MetadataImage:
        return self._node.image

    @property
    def committed_index(self) -> int:
        return self._node.applied_index

    def entries_from(self, index: int) -> tuple[Decided, ...]:
        return ()  # all nodes get them from the quorum

    def commit(self, decided: Decided, then: Callable[[], None]) -> None:
        payload = self._node.truth.pack(decided)
        self._then[int(payload)] = then
        self._node.deliver(Propose(payload, self.epoch, int(payload)))

    def applied(self, payload: bytes) -> None:
        then = self._then.pop(int(payload), None) if payload else None
        if then is not None:
            then()


class QuorumNode(SimulatedNode):
    """A broker that is a node of the quorum, too.

    Attributes:
        raft: Its part in the quorum, while it is up.
        controller: While it is the active controller.
        has_lost_directory: And its new one is not admitted yet.
    """

    raft: RaftNode | None = None
    controller: QuorumController | None = None
    has_lost_directory = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of the class it extends
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory(DIRECTORY)
        self._durable: DurableLog
        self._events: deque[Event] = deque()
        self._is_working = False
        self._raft_timer_at: float | None = None

    def start(self) -> None:
        if self.is_up:
            return
        super().start()
        config = QuorumConfig(
            self.node_id,
            VOTERS,
            election_timeout_s=2.0,
            heartbeat_s=0.7,
            lost_peer_jitter_s=0.1,
            observer_silence_s=5.0,
        )
        self._durable = DurableLog.open(
            self.disk, DIRECTORY, config, new_directory_id=partial(self.world.dice.randbytes, 16)
        )
        self.raft = RaftNode(
            config,
            self._durable.log,
            epoch=self._durable.epoch,
            vote=self._durable.vote,
            directory_id=self._durable.directory_id,
            is_admitted=self._durable.is_admitted,
            commit_index=self._durable.commit_index,
            read_snapshot=self._durable.read_snapshot,
            dice=self.world.dice.uniform,
        )
        self._forget_loss()
        self._events.clear()
        self._is_working = False
        self._raft_timer_at = None
        self.controller = None
        self._apply_committed()
        self._work(self.raft.start(self.world.now))

    def crash(self, *, power_loss: bool) -> None:
        super().crash(power_loss=power_loss)
        self.raft = self.controller = None

    def lose_quorum_directory(self) -> None:
        """While it is down, its part of the metadata log is lost, with its vote."""
        self.world.note("{} loses its metadata log", self)
        for name in self.disk.list_directory(DIRECTORY):
            self.disk.remove(f"{DIRECTORY}/{name}")
        self.disk.sync_directory(DIRECTORY)
        self.has_lost_directory = True

    def _forget_loss(self) -> None:
        if self._durable.is_admitted:
            self.has_lost_directory = False

    def stopped(self) -> None:
        assert self.raft is not None
        self._durable.close(self.raft.commit_index)
        self.raft = self.controller = None

    # --- messages --------------------------------------------------------------------------------

    def find_controller(self) -> int | None:
        """Where requests to the active controller go."""
        return None if self.raft is None else self.raft.leader_id

    def receive_for_controller(self, sender: int, message: object) -> None:
        """A broker asks the controller, which it believes to be here."""
        if self.is_up and self.is_paused:
            self.hold(self.receive_for_controller, sender, message)
        elif self.is_up and self.controller is not None:
            self.controller.receive(sender, message)

    def receive(self, sender: int, message: object) -> None:
        if isinstance(message, QuorumMessage) and self.is_up and not self.is_paused:
            self.deliver(Received(sender, message.message))
        else:
            super().receive(sender, message)

    def lose_peer(self, node_id: int) -> None:
        """The connection to a node ended, and it takes no other."""
        if self.is_up and not self.is_paused:
            self.deliver(PeerLost(node_id))
            if self.controller is not None:
                self.controller.lost(node_id)

    # --- the quorum ------------------------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        """Something happens to the quorum's machine."""
        self._events.append(event)
        if not self._is_working:
            self._work([])

    def _work(self, effects: list[Effect]) -> None:
        """Carry out effects, and handle what has come meanwhile, one after the other."""
        self._is_working = True
        while self.raft is not None:
            self._carry_out(effects)
            self._become_controller()
            if not self._events:
                break
            effects = self.raft.handle(self._events.popleft(), self.world.now)
        self._is_working = False
        self._set_raft_timer()

    def _carry_out(self, effects: list[Effect]) -> None:
        raft = self.raft
        assert raft is not None
        for effect in effects:
            match effect:
                case PersistState() | PersistEntries() | PersistSnapshot():
                    self._durable.write([effect], raft.commit_index)
                    self._forget_loss()
                case Send(node_id=node_id, message=message):
                    self.send(node_id, QuorumMessage(message))
                case Committed():
                    self._apply_committed()
                case Refused():
                    self.controller = None
                case _:
                    pass

    def _apply_committed(self) -> None:
        raft = self.raft
        assert raft is not None
        while self.applied_index < raft.commit_index:
            first = self.applied_index + 1
            for index, entry in enumerate(raft.log.entries(first, 1000), first):
                if index > raft.commit_index:
                    break
                decided = self.truth.unpack(entry.payload) if entry.payload else NOTHING
                self.truth.decided_at(index - 1, decided)
                self.apply(index - 1, decided)
                if self.controller is not None:
                    self.controller.applied(entry.payload)

    def _become_controller(self) -> None:
        raft = self.raft
        assert raft is not None
        if raft.role is not Role.LEADER or not raft.is_ready:
            if raft.role is not Role.LEADER:
                self.controller = None
            return
        if self.controller is None or self.controller.epoch != raft.epoch:
            self.world.note("{} is the controller in epoch {}", self, raft.epoch)
            self.controller = QuorumController(self, raft.epoch)
            self.controller.begin()

    def _set_raft_timer(self) -> None:
        deadline = self.raft.deadline() if self.raft is not None else None
        if deadline is not None and (self._raft_timer_at is None or deadline < self._raft_timer_at):
            self._raft_timer_at = max(deadline, self.world.now)
            self.at(self._raft_timer_at, self._expire_raft, self._raft_timer_at)

    def _expire_raft(self, time: float) -> None:
        if time == self._raft_timer_at and self.raft is not None:
            self._raft_timer_at = None
            self._work(self.raft.expire(self.world.now))
