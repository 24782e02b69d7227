"""One replica of a simulated node: a broker's real `Partition`, and who talks to it.

Followers fetch here one partition at a time; brokers do it in sessions (`FetchServer` and
`ReplicaFetcher`), which `tests.simulation.brokers` runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Protocol

from minikafka.broker.replicas.partition import Partition, PartitionError, PartitionHost
from minikafka.broker.replicas.topic_state import TopicState
from minikafka.lab.simulation.cluster.messages import (
    Altered,
    Fetch,
    Fetched,
    Produce,
    Produced,
    Read,
    ReadAnswer,
)
from minikafka.lab.simulation.cluster.timing import Timing
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.partition import ObservedPartition, Replicas, batches_of
from minikafka.lab.simulation.kit.truth import Entry, Truth
from minikafka.lab.simulation.kit.world import World
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import (
    FetchAnswer,
    FetchPosition,
    FollowerReplica,
    LeaderReplica,
    ProposeIsr,
    ReplicaFetchRefused,
    find_divergence,
)
from minikafka.storage.errors import LogError, OffsetOutOfRange
from minikafka.storage.leader_epochs import EpochEndOffset
from minikafka.storage.log import Log

READ_SIZE_BYTES_MAX = 600
NOW_MS = 1_700_000_000_000
PRODUCE_VERSION = 9

_last_offset_of = attrgetter("last_offset")
_base_offset_of = attrgetter("base_offset")


class ReplicaHost(PartitionHost, Protocol):
    """The node of a replica, as far as it needs one; `SimulatedNode` is one.

    Attributes:
        boot: counts the node's lives.
        broker_epoch: from its registration.
        topic: of all partitions.
        timing: of the cluster.
        all_replicas: what every replica of the cluster holds.
    """

    boot: int
    broker_epoch: int
    topic: TopicState
    timing: Timing
    all_replicas: Replicas
    truth: Truth
    world: World

    @property
    def replicas(self) -> Mapping[int, SimulatedReplica]:
        """By partition number."""
        ...

    def send(self, receiver: int, message: object) -> None: ...

    def now_ms(self) -> int:
        """The time of day there."""
        ...

    def next_correlation(self) -> int: ...

    def at(self, time: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, in this life."""
        ...

    def after(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        """Call later, as `at`."""
        ...


class Acknowledgement:
    """A producer waits for acks=all."""

    def __init__(
        self, replica: SimulatedReplica, client: int, answer: Produced, value: str
    ) -> None:
        self._replica = replica
        self._client = client
        self._answer = answer
        self._value = value

    def settle(self, error_code: ErrorCode) -> None:
        """Answer: the batch is committed, or its outcome is unknown."""
        replica, answer = self._replica, self._answer._replace(error_code=error_code)
        if error_code is ErrorCode.NONE:
            replica.node.truth.acknowledged(replica.number, answer.base_offset, self._value)
        replica.node.send(self._client, answer)


class SimulatedReplica:
    """See the module's text.

    Attributes:
        node: where it is.
        number: of the partition.
        partition: the real one.
    """

    def __init__(self, node: ReplicaHost, number: int, log: Log) -> None:
        self.node = node
        self.number = number
        self.partition = ObservedPartition(
            node.all_replicas, number, node.boot, node, node.topic, number, log
        )
        self.partition.fetchers[self] = None
        self._parked: dict[int, Fetch] = {}
        self._asked: tuple[int, FetchPosition] | None = None  # correlation, and what was asked
        self._timer_at: float | None = None
        self._unsynced: list[tuple[int, Produced]] = []
        self._is_sync_due = False

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def entries(self) -> list[Entry]:
        return self.partition.entries

    @property
    def leader(self) -> LeaderReplica | None:
        return self.partition.leader

    @property
    def follower(self) -> FollowerReplica | None:
        return self.partition.follower

    # --- roles -----------------------------------------------------------------------------------

    def settle(self, image: PartitionRecord) -> None:
        """Take the role that the metadata log gives."""
        partition = self.partition
        if image.leader == self.node.node_id:
            self._asked = None
            partition.lead(image, self.node.now_ms())
            self._sync_soon()
            if self.node.is_retiring:
                partition.retire()
        elif image.leader == NO_LEADER:
            self.rest(image.leader_epoch)
        else:
            before = None if self.follower is None else self.follower.leader_epoch
            partition.follow(image, self.node.now_ms())
            if before != image.leader_epoch:
                self._ask()
        self.set_timer()

    def rest(self, leader_epoch: int) -> None:
        self._asked = None
        self.partition.rest(leader_epoch)

    def receive(self, sender: int, message: Fetch | Fetched | Produce | Read | Altered) -> None:
        match message:
            case Fetch():
                self._fetched_by(sender, message)
            case Fetched():
                self._fetched(message)
            case Produce():
                self._produce(sender, message)
            case Read():
                self._read(sender, message)
            case Altered(proposal=proposal, error_code=error_code):
                self._refused(proposal, error_code)
        if self.log.is_offline is not None:
            raise InvariantViolated(
                "readable logs",
                f"node {self.node.node_id} cannot read {self.number}: {self.log.is_offline}",
            )

    def _refused(self, proposal: ProposeIsr, error_code: ErrorCode) -> None:
        self.partition.isr_refused(proposal, error_code)
        self.set_timer()

    # --- time ------------------------------------------------------------------------------------

    def set_timer(self) -> None:
        """Come back when a machine wants to."""
        machine = self.leader or self.follower
        deadline = machine.deadline() if machine is not None else None
        if deadline is not None and (self._timer_at is None or deadline < self._timer_at):
            self._timer_at = max(deadline, self.node.now())
            self.node.at(self._timer_at, self._on_timer, self._timer_at)

    def _on_timer(self, time: float) -> None:
        if time == self._timer_at:
            self._timer_at = None
            if self.follower is not None:
                self.follower.expire(self.node.now())
                if self._asked is None:
                    self._ask()
            else:
                self.partition.expire()
            self.set_timer()

    def _sync_soon(self) -> None:
        """Sync what counts only on the disk (flush.messages=1), with what is appended meanwhile."""
        if self.partition.topic.is_fsync_acked and not self._is_sync_due:
            self._is_sync_due = True
            dice = self.node.world.dice
            slowest_s = dice.choice(self.node.timing.sync_s)
            self.node.after(dice.uniform(0.001, slowest_s), self._sync)

    def _sync(self) -> None:
        self._is_sync_due = False
        if self.node.replicas.get(self.number) is self:
            self.log.flush()
            self.partition.synced()
            unsynced, self._unsynced = self._unsynced, []
            for client, answer in unsynced:
                self.node.send(client, answer)

    # --- clients ---------------------------------------------------------------------------------

    def _produce(self, client: int, request: Produce) -> None:
        answer = Produced(self.number, request.correlation, ErrorCode.NONE, -1)
        try:
            if request.acks == -1:
                self.partition.check_in_sync()
            result = self.partition.append(
                request.batch, now_ms=self.node.now_ms(), version=PRODUCE_VERSION
            )
        except (PartitionError, LogError) as refusal:
            if request.acks:
                code = ErrorCode(refusal.error_code)
                self.node.send(client, answer._replace(error_code=code))
            return
        answer = answer._replace(base_offset=result.base_offset)
        self._sync_soon()
        if request.acks == -1:
            waiter = Acknowledgement(self, client, answer, request.value)
            if result.last_offset < self.log.high_watermark:
                waiter.settle(ErrorCode.NONE)
            else:
                self.partition.wait_for_commit(waiter, result.last_offset + 1)
        elif request.acks and self._is_sync_due:
            self._unsynced.append((client, answer))
        elif request.acks:
            self.node.send(client, answer)
        self.set_timer()

    def _read(self, client: int, request: Read) -> None:
        """A consumer reads, from the leader or (KIP-392) from a follower."""
        log = self.log
        error = ErrorCode.NONE
        entries: tuple[Entry, ...] = ()
        if self.leader is None and self.follower is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif request.offset > log.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            read = log.read(
                request.offset,
                size_bytes_max=READ_SIZE_BYTES_MAX,
                upper_bound_offset=log.high_watermark,
            )
            if read.records is not None:
                entries = tuple(batches_of(read.records.read()))
                self.node.truth.read(self.number, entries)
        self.node.send(client, ReadAnswer(self.number, request.correlation, error, entries))

    # --- followers fetch from here ---------------------------------------------------------------

    def _fetched_by(self, sender: int, fetch: Fetch) -> None:
        partition, position = self.partition, fetch.position
        try:
            if partition.leader is None:
                raise PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.check_leader_epoch(position.leader_epoch)
            partition.leader.check_follower(sender, fetch.broker_epoch)
            diverging = self._divergence(position)
        except (PartitionError, ReplicaFetchRefused) as refusal:
            self._answer(sender, fetch, FetchAnswer(refusal.error_code))
            return
        except OffsetOutOfRange:
            self._answer(sender, fetch, self._state_of_log(ErrorCode.OFFSET_OUT_OF_RANGE))
            return
        if diverging is not None:
            answer = self._state_of_log(ErrorCode.NONE)._replace(diverging=diverging)
            self._answer(sender, fetch, answer)
            return
        self._parked.pop(sender, None)
        partition.follower_fetched(
            sender, fetch.broker_epoch, position.fetch_offset, position.log_start_offset
        )
        self.set_timer()
        if self._has_news(fetch):
            self._serve(sender, fetch)
        else:
            self._parked[sender] = fetch
            self.node.after(self.node.timing.fetch_wait_max_s, self._end_wait, sender, fetch)

    def _divergence(self, position: FetchPosition) -> EpochEndOffset | None:
        latest_epoch = self.log.leader_epochs.latest_epoch
        asked_about = position.last_fetched_epoch
        if asked_about > latest_epoch and self.node.truth.was_led(self.number, asked_about):
            raise InvariantViolated(
                "known epochs",
                f"leader {self.node.node_id} is asked about epoch {asked_about}, "
                f"and knows none after {latest_epoch}",
            )
        return find_divergence(
            self.log,
            fetch_offset=position.fetch_offset,
            last_fetched_epoch=position.last_fetched_epoch,
        )

    def _has_news(self, fetch: Fetch) -> bool:
        return (
            fetch.position.fetch_offset < self.log.log_end_offset
            or fetch.high_watermark < self.log.high_watermark
        )

    def notify(self, partition: Partition) -> None:
        """There are records, another high watermark, or another role (`Waiter`)."""
        for sender, fetch in list(self._parked.items()):
            if not partition.is_leader:
                self._answer(sender, fetch, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            elif self._has_news(fetch):
                self._serve(sender, fetch)
            else:
                continue
            del self._parked[sender]

    def _end_wait(self, sender: int, fetch: Fetch) -> None:
        if self._parked.get(sender) is fetch:
            del self._parked[sender]
            self._serve(sender, fetch)

    def _serve(self, sender: int, fetch: Fetch) -> None:
        offset, log = fetch.position.fetch_offset, self.log
        answer = self._state_of_log(ErrorCode.NONE)
        read = log.read(
            offset, size_bytes_max=READ_SIZE_BYTES_MAX, upper_bound_offset=log.log_end_offset
        )
        entries: tuple[Entry, ...] = ()
        if read.records is not None:
            answer = answer._replace(records=read.records.read())
            first = bisect_left(self.entries, offset, key=_last_offset_of)
            end = bisect_left(self.entries, read.next_offset, key=_base_offset_of)
            entries = tuple(self.entries[first:end])
        self._answer(sender, fetch, answer, entries)

    def _state_of_log(self, error_code: ErrorCode) -> FetchAnswer:
        log = self.log
        return FetchAnswer(error_code, log.high_watermark, log.log_start_offset, log.log_end_offset)

    def _answer(
        self, sender: int, fetch: Fetch, answer: FetchAnswer, entries: tuple[Entry, ...] = ()
    ) -> None:
        self.node.send(sender, Fetched(self.number, fetch.correlation, answer, entries))

    # --- this follower fetches -------------------------------------------------------------------

    def _ask(self) -> None:
        follower = self.follower
        position = None if follower is None else follower.position()
        if follower is None or position is None:
            return
        if self.partition.topic.is_fsync_acked:
            self.log.flush()
        correlation = self.node.next_correlation()
        self._asked = (correlation, position)
        fetch = Fetch(
            self.number, correlation, self.node.broker_epoch, position, self.log.high_watermark
        )
        self.node.send(follower.leader_id, fetch)
        self.node.after(self.node.timing.fetch_answer_max_s, self._not_answered, correlation)

    def _not_answered(self, correlation: int) -> None:
        if self._asked is not None and self._asked[0] == correlation and self.follower is not None:
            self._asked = None
            self.follower.not_answered(self.node.now())
            self.set_timer()

    def _fetched(self, fetched: Fetched) -> None:
        follower = self.follower
        if follower is None or self._asked is None or self._asked[0] != fetched.correlation:
            return
        _, position = self._asked
        self._asked = None
        now = self.node.now()
        effects = follower.answered(position, fetched.answer, now)
        try:
            self.partition.carry_out(effects, self.node.now_ms())
        except LogError as refusal:
            self.node.world.note("node {} refuses records: {}", self.node.node_id, refusal)
            follower.append_failed(now)
        self._ask()
        self.set_timer()
