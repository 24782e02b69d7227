"""One simulated broker: its disk, its replicas, its picture of the cluster, and its life."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from minikafka.broker.replicas.partition import Partition
from minikafka.broker.replicas.topic_state import TopicState
from minikafka.lab.simulation.cluster.controller import CONTROLLER, TOPIC, TOPIC_ID
from minikafka.lab.simulation.cluster.messages import (
    Alter,
    Altered,
    Entries,
    Fetch,
    Fetched,
    Heartbeat,
    HeartbeatRefused,
    MayStop,
    Produce,
    Read,
    Register,
    Registered,
    Stop,
)
from minikafka.lab.simulation.cluster.replica import NOW_MS, SimulatedReplica
from minikafka.lab.simulation.cluster.timing import DEFAULT, Timing
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.partition import Replicas
from minikafka.lab.simulation.kit.truth import Decided, Entry
from minikafka.lab.simulation.kit.world import World
from minikafka.metadata.brokers import Registration
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import (
    BrokerChangeRecord,
    BrokerRecord,
    PartitionRecord,
    UnregisterBrokerRecord,
)
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.replication import EligibleBrokers, ProposeIsr
from minikafka.storage.log_directory import LogDirectory
from minikafka.storage.memory_disk import MemoryDisk

INBOX_MAX = 300

_BROKER_RECORDS = (BrokerRecord, BrokerChangeRecord, UnregisterBrokerRecord)

Send = Callable[[int, int, object], None]


def _topic_id_for(*_: object) -> bytes:
    return TOPIC_ID


class SimulatedNode:
    """See the module's text.

    Attributes:
        node_id: Its broker id.
        boot: Counts its lives.
        is_up: The process runs (or is paused).
        is_retiring: It wants to stop in good order.
        replicas: By partition number, while it is up.
        broker_epoch: From its registration, -1 before.
        image: The cluster as it knows it.
        brokers: For the leaders here.
    """

    replica_class = SimulatedReplica

    def __init__(
        self,
        world: World,
        node_id: int,
        all_replicas: Replicas,
        rules: ReplicationRules,
        topic: TopicState,
        send: Send,
        timing: Timing = DEFAULT,
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.all_replicas = all_replicas
        self.truth = all_replicas.truth
        self.topic = topic
        self.is_rack_aware = True  # followers get high watermarks immediately
        self.timing = timing
        self.lag_time_max_s = timing.lag_time_max_s
        self.frozen: dict[Partition, None] = {}
        self.rules = rules
        self._send = send
        self.disk = MemoryDisk(Random(world.dice.getrandbits(32)))
        self.boot = 0
        self.is_up = False
        self.is_paused = False
        self.is_retiring = False
        self.replicas: dict[int, SimulatedReplica] = {}
        self.image = MetadataImage()
        self.brokers = EligibleBrokers({})
        self.applied_index = 0
        self.broker_epoch = -1
        self.incarnation_id = b""
        self._previous_broker_epoch = -1
        self._directory: LogDirectory
        self._correlations = 0
        self._held: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()

    def __format__(self, _: str) -> str:
        return f"node {self.node_id}"

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.is_up:
            return
        self.boot += 1
        self.is_up = True
        self.is_paused = self.is_retiring = False
        self._held.clear()
        self.image = MetadataImage()
        self.brokers = EligibleBrokers({})
        self.applied_index = 0
        self.broker_epoch = -1
        self.incarnation_id = bytes((self.node_id, *self.boot.to_bytes(4, "big"))).rjust(16, b"i")
        self._directory = LogDirectory.open(
            self.disk, "logs", node_id=self.node_id, new_cluster_id="simulated"
        )
        self._directory.open_all(
            lambda _: self.topic.log_config, now_ms=NOW_MS, topic_id_for=_topic_id_for
        )
        if self._directory.offline:
            raise InvariantViolated(
                "readable logs", f"node {self.node_id} cannot open {self._directory.offline}"
            )
        self.replicas = {
            number: self.replica_class(self, number, log)
            for (_, number), log in self._directory.logs.items()
        }
        self.world.note(
            "{} starts with {}",
            self,
            {number: one.log.log_end_offset for number, one in self.replicas.items()},
        )
        self.truth.started(self.node_id, self.incarnation_id)
        self._register(self._previous_broker_epoch)
        self._previous_broker_epoch = -1
        self._heartbeat()
        self.after(self.world.dice.uniform(*self.timing.flush_s), self._flush)

    def entries(self, number: int) -> list[Entry]:
        """What is in a replica's log, also of a node that is down."""
        return self.all_replicas.entries_of(self.node_id, number)

    def crash(self, *, power_loss: bool) -> None:
        self.world.note("{} {}", self, "loses power" if power_loss else "is killed")
        self.is_up = False
        self.disk.crash(power_loss=power_loss)
        if power_loss:
            self.all_replicas.lost_power(self.node_id)

    def pause(self) -> None:
        """Stop it (SIGSTOP); the clock goes on."""
        if self.is_up:
            self.world.note("{} is paused", self)
            self.is_paused = True

    def resume(self) -> None:
        """Let it go on with everything that came meanwhile."""
        if self.is_up and self.is_paused:
            self.world.note("{} goes on", self)
            self.is_paused = False
            while self._held and self.is_up:
                action, arguments = self._held.popleft()
                action(*arguments)

    def begin_stop(self) -> None:
        if self.is_up and not self.is_retiring:
            self.world.note("{} wants to stop", self)
            self.is_retiring = True
            for replica in self.replicas.values():
                replica.partition.retire()
                replica.set_timer()
            self._ask_to_stop(self.world.now + self.timing.stop_time_max_s)

    def _ask_to_stop(self, until: float) -> None:
        message = MayStop(self.node_id, self.broker_epoch, self.world.now >= until)
        self.send(CONTROLLER, message)
        self.after(self.timing.stop_again_s, self._ask_to_stop, until)

    def _stop(self) -> None:
        self.world.note("{} stops", self)
        for replica in self.replicas.values():
            replica.rest(replica.partition.leader_epoch)
        self._directory.close()
        self.stopped()
        self._previous_broker_epoch = self.broker_epoch
        self.is_up = False
        self.disk.crash()

    def stopped(self) -> None:
        """It has let go of its logs."""

    def forget(self) -> None:
        """Let go of replicas, which refer to it; nothing is simulated any longer."""
        self.replicas.clear()

    # --- time ------------------------------------------------------------------------------------

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, in this life; a paused node does it when it goes on."""
        self.world.at(time, self._run, self.boot, action, arguments)

    def after(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, as `at`."""
        self.world.at(self.world.now + delay_s, self._run, self.boot, action, arguments)

    def _run(self, boot: int, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if boot == self.boot and self.is_up:
            if self.is_paused:
                self._held.append((action, arguments))
            else:
                action(*arguments)

    def _flush(self) -> None:
        for replica in self.replicas.values():
            replica.log.flush()
        self._directory.write_checkpoint()
        self.after(self.world.dice.uniform(*self.timing.flush_s), self._flush)

    # --- messages --------------------------------------------------------------------------------

    def send(self, receiver: int, message: object) -> None:
        self._send(self.node_id, receiver, message)

    def hold(self, action: Callable[..., None], *arguments: object) -> None:
        """A message comes while it is paused; the socket holds some."""
        if len(self._held) < INBOX_MAX:
            self._held.append((action, arguments))

    def next_correlation(self) -> int:
        self._correlations += 1
        return self._correlations

    def receive(self, sender: int, message: object) -> None:
        if not self.is_up:
            return
        if self.is_paused:
            self.hold(self.receive, sender, message)
            return
        match message:
            case Entries():
                self._take_entries(message)
            case Registered():
                self._registered(message)
            case HeartbeatRefused() | Stop() if message.broker_epoch != self.broker_epoch:
                pass  # about an earlier registration
            case HeartbeatRefused():
                self.world.note("{} registers again", self)
                self.broker_epoch = -1
                self._register(-1)
            case Stop():
                self._stop()
            case Fetch() | Fetched() | Produce() | Read() | Altered():
                replica = self.replicas.get(message.number)
                if replica is not None:
                    replica.receive(sender, message)
            case _:
                raise AssertionError(f"a broker got {message}")

    # --- the controller --------------------------------------------------------------------------

    def _register(self, previous_broker_epoch: int) -> None:
        if self.broker_epoch < 0:
            registration = Registration(
                self.node_id,
                self.incarnation_id,
                "host",
                9092,
                "host",
                9093,
                previous_broker_epoch=previous_broker_epoch,
            )
            self.send(CONTROLLER, Register(registration))
            self.after(self.timing.register_again_s, self._register, previous_broker_epoch)

    def _registered(self, message: Registered) -> None:
        if message.incarnation_id == self.incarnation_id and self.broker_epoch < 0:
            self.broker_epoch = message.broker_epoch
            self.send(CONTROLLER, self._heartbeat_message())

    def _heartbeat_message(self) -> Heartbeat:
        return Heartbeat(self.node_id, self.broker_epoch, self.applied_index)

    def _heartbeat(self) -> None:
        if self.broker_epoch >= 0:
            self.send(CONTROLLER, self._heartbeat_message())
        self.after(self.timing.heartbeat_s, self._heartbeat)

    def now(self) -> float:
        """Monotonic seconds (`PartitionHost`)."""
        return self.world.now

    def now_ms(self) -> int:
        """The time of day here."""
        return NOW_MS

    def watch(self, partition: Partition) -> None:
        """A leader's deadline may have come nearer (`PartitionHost`)."""
        replica = self.replicas.get(partition.index)
        if replica is not None:
            replica.set_timer()

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """A leader wants another ISR, or another leader (`PartitionHost`)."""
        self.world.note("{} proposes {}", self, proposal)
        self.send(CONTROLLER, Alter(self.node_id, self.broker_epoch, partition.index, proposal))

    # --- the metadata log ------------------------------------------------------------------------

    def _take_entries(self, message: Entries) -> None:
        for index, decided in enumerate(message.entries, message.first_index):
            if index == self.applied_index:
                self.apply(index, decided)

    def apply(self, index: int, decided: Decided) -> None:
        image = self.image
        self.applied_index = index + 1
        was_registered = self._is_registered
        numbers: dict[int, None] = {}
        is_about_brokers = False
        for record in decided.records:
            image.replay(record)
            if isinstance(record, PartitionRecord):
                numbers[record.partition] = None
            elif isinstance(record, _BROKER_RECORDS):
                is_about_brokers = True
        if is_about_brokers:
            unfenced = [one for one in image.brokers.values() if not one.is_fenced]
            self.brokers.epochs = {one.broker_id: one.broker_epoch for one in unfenced}
            self.brokers.shutting_down = {one.broker_id for one in unfenced if one.is_shutting_down}
        if not self._is_registered:
            return  # what was decided about an earlier life is not for this one to act on
        if not was_registered:
            topic = image.topics.get(TOPIC)
            numbers = {} if topic is None else dict.fromkeys(range(len(topic.partitions)))
        for number in numbers:
            self._settle(number)
        if is_about_brokers:
            for number, replica in self.replicas.items():
                if number not in numbers:
                    replica.partition.eligibility_changed()
                    replica.set_timer()

    @property
    def _is_registered(self) -> bool:
        broker = self.image.brokers.get(self.node_id)
        return broker is not None and broker.incarnation_id == self.incarnation_id

    def _settle(self, number: int) -> None:
        partition = self.image.partition(TOPIC_ID, number)
        assert partition is not None
        replica = self.replicas.get(number)
        if self.node_id not in partition.replicas:
            if replica is not None:
                self.world.note("{} removes {}", self, number)
                replica.rest(partition.leader_epoch)
                del self.replicas[number]
                self.all_replicas.removed(self.node_id, number)
                self._directory.delete_log(
                    TOPIC, number, unique_suffix=f"{self.next_correlation()}"
                )
            return
        if replica is None:
            log = self._directory.create_log(
                TOPIC, TOPIC_ID, number, self.topic.log_config, now_ms=NOW_MS
            )
            replica = self.replicas[number] = self.replica_class(self, number, log)
        replica.settle(partition)
