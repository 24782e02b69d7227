"""The active controller: the decisions of `minikafka.metadata`, one at a time.

Where a decision goes, `commit` says: `SingleController` is alone and never fails, so it applies it
at once; with a metadata quorum it has to be committed first (see `quorum`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from minikafka.lab.simulation.cluster.messages import (
    Alter,
    Altered,
    Entries,
    Heartbeat,
    HeartbeatRefused,
    MayStop,
    Register,
    Registered,
    Stop,
)
from minikafka.lab.simulation.cluster.timing import DEFAULT, Timing
from minikafka.lab.simulation.kit.truth import Decided, Truth
from minikafka.lab.simulation.kit.world import World
from minikafka.metadata.alter_partition import IsrProposal, alter_partitions
from minikafka.metadata.brokers import (
    ShutdownProgress,
    check_broker,
    controlled_shutdown,
    fence_brokers,
    register_broker,
    unfence_broker,
)
from minikafka.metadata.decision import Decision, Refusal
from minikafka.metadata.elections import ElectionKind, elect_leaders
from minikafka.metadata.heartbeats import BrokerHeartbeats
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.reassignments import Reassignment, reassign_partitions
from minikafka.metadata.records import BrokerRecord, MetadataRecord
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import IsrMember

TOPIC = "t"
TOPIC_ID = b"t" * 16
ENTRIES_MAX = 200
CONTROLLER = 0
"""Where a single controller is reached."""

Decide = Callable[[], Decision[Any]]
Answer = Callable[[Any], None]


class Host(Protocol):
    world: World

    def send(self, receiver: int, message: object) -> None: ...

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, if this process still lives then."""
        ...


class Controller:
    def __init__(self, host: Host, rules: ReplicationRules, timing: Timing = DEFAULT) -> None:
        self._host = host
        self._rules = rules
        self.heartbeats = BrokerHeartbeats(timing.session_timeout_s)
        self._waiting: deque[tuple[Decide, Answer, bool]] = deque()
        self._is_busy = False
        self._timer_at: float | None = None

    # --- what depends on where decisions go ------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        raise NotImplementedError

    @property
    def committed_index(self) -> int:
        """How many entries have been committed."""
        raise NotImplementedError

    def entries_from(self, index: int) -> tuple[Decided, ...]:
        """Some committed entries."""
        raise NotImplementedError

    def commit(self, decided: Decided, then: Callable[[], None]) -> None:
        """Append to the metadata log; `then` when it is committed and applied here."""
        raise NotImplementedError

    # --- one decision at a time ------------------------------------------------------------------

    def begin(self) -> None:
        brokers = self.image.brokers.values()
        unfenced = [one.broker_id for one in brokers if not one.is_fenced]
        self.heartbeats.begin(unfenced, self._host.world.now)
        self._set_timer()

    def decide(
        self, decide: Decide, answer: Answer = lambda _: None, *, is_proposal: bool = False
    ) -> None:
        self._waiting.append((decide, answer, is_proposal))
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self._is_busy:
            decide, answer, is_proposal = self._waiting.popleft()
            decision = decide()
            if decision.records:
                self._is_busy = True
                records: Sequence[MetadataRecord] = decision.records
                decided = Decided(tuple(records), is_proposal)
                self.commit(decided, partial(self._committed, answer, decision.result))
            else:
                answer(decision.result)

    def _committed(self, answer: Answer, result: Any) -> None:
        self._is_busy = False
        answer(result)
        self._go_on()

    # --- requests --------------------------------------------------------------------------------

    def receive(self, sender: int, message: object) -> None:
        match message:
            case Register():
                self._register(sender, message)
            case Heartbeat():
                self._heartbeat(sender, message)
            case Alter():
                self._alter(sender, message)
            case MayStop():
                self._may_stop(sender, message)
            case _:
                raise AssertionError(f"a controller got {message}")

    def _register(self, sender: int, message: Register) -> None:
        registration, now = message.registration, self._host.world.now

        def answer(result: BrokerRecord | Refusal) -> None:
            if isinstance(result, BrokerRecord):
                self.heartbeats.forget(sender)
                registered = Registered(result.incarnation_id, result.broker_epoch)
                self._host.send(sender, registered)

        self.decide(
            lambda: register_broker(
                self.image,
                registration,
                self._rules,
                is_old_alive=self.heartbeats.is_alive(sender, now),
            ),
            answer,
        )

    def _heartbeat(self, sender: int, message: Heartbeat) -> None:
        image, index, now = self.image, message.applied_index, self._host.world.now
        if check_broker(image, sender, message.broker_epoch) is not None:
            self._host.send(sender, HeartbeatRefused(message.broker_epoch))
            return
        is_ready = self.heartbeats.contact(sender, index, self.committed_index, now)
        if is_ready and image.is_fenced(sender):
            self.decide(
                lambda: unfence_broker(self.image, sender, message.broker_epoch, self._rules)
            )
        self._host.send(sender, Entries(index, self.entries_from(index)))
        self._set_timer()

    def _alter(self, sender: int, message: Alter) -> None:
        wish = message.proposal
        proposal = IsrProposal(
            TOPIC_ID,
            message.number,
            wish.leader_epoch,
            wish.partition_epoch,
            tuple(IsrMember(*member) for member in wish.isr),
            wish.leader,
        )

        def answer(result: Any) -> None:
            refusal = result if isinstance(result, Refusal) else result[0].result
            if isinstance(refusal, Refusal):
                code: ErrorCode = refusal.error_code
                self._host.send(sender, Altered(message.number, wish, code))

        self.decide(
            lambda: alter_partitions(
                self.image, sender, message.broker_epoch, [proposal], self._rules
            ),
            answer,
            is_proposal=True,
        )

    def _may_stop(self, sender: int, message: MayStop) -> None:
        def answer(result: ShutdownProgress | Refusal) -> None:
            if isinstance(result, ShutdownProgress) and result.may_stop:
                self._host.send(sender, Stop(message.broker_epoch))

        self.decide(
            lambda: controlled_shutdown(
                self.image,
                message.broker_id,
                message.broker_epoch,
                self._rules,
                is_forced=message.is_forced,
            ),
            answer,
        )

    def elect_preferred(self) -> None:
        self.decide(lambda: elect_leaders(self.image, ElectionKind.PREFERRED, None, self._rules))

    def reassign(self, number: int, replicas: Sequence[int] | None) -> None:
        """An operator reassigns a partition; None cancels that."""
        wish = Reassignment(TOPIC, number, replicas)
        self.decide(lambda: reassign_partitions(self.image, [wish], self._rules))

    # --- sessions --------------------------------------------------------------------------------

    def lost(self, broker_id: int) -> None:
        """The connection to a broker ended and it refuses another."""
        self.heartbeats.lost(broker_id, self._host.world.now)
        self._set_timer()

    def _set_timer(self) -> None:
        deadline = self.heartbeats.deadline()
        if deadline is not None and (self._timer_at is None or deadline < self._timer_at):
            self._timer_at = max(deadline, self._host.world.now)
            self._host.at(self._timer_at, self._expire, self._timer_at)

    def _expire(self, time: float) -> None:
        if time != self._timer_at:
            return
        self._timer_at = None
        overdue = self.heartbeats.expire(self._host.world.now)
        if overdue:

            def answer(fenced: list[int]) -> None:
                for broker_id in fenced:
                    self.heartbeats.forget(broker_id)

            self.decide(lambda: fence_brokers(self.image, overdue, self._rules), answer)
        self._set_timer()


class SingleController(Controller):
    """A controller that is always there; its decisions are committed at once."""

    def __init__(
        self,
        world: World,
        truth: Truth,
        rules: ReplicationRules,
        broker_ids: Sequence[int],
        send: Callable[[int, int, object], None],
        timing: Timing = DEFAULT,
    ) -> None:
        self.world = world
        self._truth = truth
        self._broker_ids = broker_ids
        self._send = send
        super().__init__(self, rules, timing)

    @property
    def image(self) -> MetadataImage:
        return self._truth.image

    @property
    def committed_index(self) -> int:
        return len(self._truth.decided)

    def entries_from(self, index: int) -> tuple[Decided, ...]:
        return tuple(self._truth.decided[index : index + ENTRIES_MAX])

    def commit(self, decided: Decided, then: Callable[[], None]) -> None:
        index = self.committed_index
        self._truth.decided_at(index, decided)
        for broker_id in self._broker_ids:
            self.send(broker_id, Entries(index, (decided,)))
        then()

    def send(self, receiver: int, message: object) -> None:
        self._send(CONTROLLER, receiver, message)

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        self.world.at(time, action, *arguments)
