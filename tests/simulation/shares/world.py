"""Brokers that lead partitions, their network, and the records; members are in `members`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import trio

from minikafka.broker.control.request_context import ClientConnection, RequestContext
from minikafka.broker.replicas.partition import PartitionError
from minikafka.broker.shares import partitions as shares
from minikafka.broker.shares.partitions import RunningShare, SharePartitionService
from minikafka.broker.shares.reading import Found
from minikafka.broker.shares.sessions import ShareSession
from minikafka.coordinator.share.records import SharePartitionKey
from minikafka.coordinator.share.share_partition import (
    TERMINAL,
    DeadLetter,
    LogBatch,
    RecordState,
)
from minikafka.lab.simulation.kit.invariants import require
from minikafka.protocol.errors import ErrorCode
from minikafka.storage.disk import FileSlice
from minikafka.testing.simulation.network import pass_time
from tests.simulation.shares.coordinator import Asker, Coordinator
from tests.simulation.shares.truth import (
    BATCH_MAX,
    LIMIT,
    LOCK_S,
    PARTITIONS,
    RECORD_LOCKS_MAX,
    PartitionTruth,
    Truth,
)

GROUP = "bakers"
TOPIC = "orders"
TOPIC_ID = b"orders topic id."
NODES = (1, 2, 3)
LOSS = 0.04
_BYTES_PER_RECORD = 10
_START_MS = 1_700_000_000_000


class NodeLog:
    """A partition's log as one broker has it: a new leader does not know the end at once."""

    def __init__(self, truth: PartitionTruth) -> None:
        self.truth = truth
        self.high_watermark = 0

    @property
    def log_start_offset(self) -> int:
        return self.truth.log_start

    @property
    def log_end_offset(self) -> int:
        return self.truth.end

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark


def read_batches(
    log: Any, offset: int, *, size_bytes_max: int, records_max: int, is_committed: bool
) -> Found | None:
    """What `reading.read_batches` finds, without files."""
    del size_bytes_max, is_committed
    if offset >= log.high_watermark:
        return None
    found: list[LogBatch] = []
    positions = [0]
    count = 0
    for first, last, has_records in log.truth.batches:
        if last < offset or last >= log.high_watermark:
            continue
        found.append(LogBatch(first, last, has_records))
        positions.append(positions[-1] + (last - first + 1) * _BYTES_PER_RECORD)
        count += last - max(first, offset) + 1
        if count >= records_max:
            break
    if not found:
        last = log.high_watermark - 1
        return Found(None, (LogBatch(offset, last, has_records=False),), (0, 0))
    return Found(FileSlice(log, 0, positions[-1]), tuple(found), tuple(positions))


class NodePartition:
    """A partition as one broker has it."""

    def __init__(self, truth: PartitionTruth) -> None:
        self.index = truth.index
        self.topic = SimpleNamespace(name=TOPIC, topic_id=TOPIC_ID)
        self.log = NodeLog(truth)
        self.is_leader = False
        self.leader_epoch = -1
        self.waiters: dict[Any, None] = {}

    def lead(self, epoch: int) -> None:
        if epoch > self.leader_epoch:
            self.is_leader, self.leader_epoch = True, epoch

    def follow(self, epoch: int) -> None:
        if epoch > self.leader_epoch:
            self.is_leader, self.leader_epoch = False, epoch

    def committed(self, offset: int) -> None:
        if offset > self.log.high_watermark:
            self.log.high_watermark = offset
            for waiter in list(self.waiters):
                waiter.notify(self)


class ObservedShares(SharePartitionService):
    """The real service; what has to be true of its machines is checked here."""

    truth: Truth

    def running(self, index: int) -> RunningShare | None:
        return self._running.get(SharePartitionKey(GROUP, TOPIC_ID, index))

    def all_running(self) -> list[RunningShare]:
        return list(self._running.values())

    def release(self, session: ShareSession) -> None:
        runnings = [
            one for one in self.all_running() if (TOPIC_ID, one.key.partition) in session.partitions
        ]
        member = session.key.member_id
        self.truth.gave_back(member, runnings)
        super().release(session)
        if self._nursery is None:
            return  # the broker was killed
        for running in runnings:
            if not running.is_loaded:
                continue
            held = [
                run.first
                for run in running.machine._runs
                if run.state is RecordState.ACQUIRED
                and run.member_id == member
                and run.target is None
            ]
            require(not held, "sessions release", f"{member} still has {held}")

    def acquire(self, running: RunningShare, member_id: str, wanted: Any) -> Any:
        taken = super().acquire(running, member_id, wanted)
        open_count = sum(
            one.last_offset - one.first_offset + 1
            for one in running.machine.states()
            if one.state not in TERMINAL
        )
        require(
            open_count < RECORD_LOCKS_MAX + BATCH_MAX, "record locks", f"{open_count} in flight"
        )
        return taken


class Node:
    """A broker with the real handlers, share-partitions and sessions.

    Attributes:
        is_up: it runs.
        broker: what handlers see of it.
    """

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self.node_id = node_id
        self.partitions = [NodePartition(one) for one in world.truth.partitions]
        self.is_up = False
        self.broker: Any
        self.service: ObservedShares
        self.nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run until it is killed; whatever it had in memory is gone then."""
        world = self._world
        topic = SimpleNamespace(name=TOPIC, partitions=[None] * PARTITIONS)
        image = SimpleNamespace(topics_by_id={TOPIC_ID: topic}, topics={}, brokers={})
        self.partitions = [NodePartition(one) for one in world.truth.partitions]
        replicas = SimpleNamespace(index=self, topic_removed=[])
        metadata = SimpleNamespace(image=image)
        self.service = ObservedShares(
            cast("Any", world.settings),
            metadata=cast("Any", metadata),
            replicas=cast("Any", replicas),
            share_state=Asker(world),
            dead_letters=Letters(world, self),
            clock=world,
        )
        self.service.truth = world.truth
        self.broker = SimpleNamespace(
            authorization=None,
            clock=world,
            config=SimpleNamespace(fetch_max_bytes=1 << 20),
            node=SimpleNamespace(is_stopping=False),
            lifecycle=SimpleNamespace(is_cut_off=True),
            image=image,
            shares=self.service,
        )
        async with trio.open_nursery() as self.nursery:
            self.service.start(self.nursery)
            self.is_up = True
            task_status.started()

    def kill(self) -> None:
        self.is_up = False
        self.nursery.cancel_scope.cancel()

    def find(self, topic: str, index: int) -> NodePartition:
        """As `PartitionIndex.find`."""
        assert topic == TOPIC
        partition = self.partitions[index]
        if not partition.is_leader:
            raise PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition


class Letters:
    """Takes dead letters, after a while."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def topic_of(self, group_id: str) -> str:
        return f"dlq.{group_id}"

    async def write(self, group_id: str, partition: Any, letters: Sequence[DeadLetter]) -> None:
        del group_id
        world = self._world
        truth = world.truth.partitions[partition.index]
        running = self._node.service.running(partition.index)
        epoch = None if running is None else running.state_epoch
        await pass_time(world.dice.uniform(0.001, 1.0))
        if epoch != truth.state_epoch or truth.is_uncertain:
            return
        for one in letters:
            for offset in range(one.first_offset, one.last_offset + 1):
                world.truth.letter(partition.index, offset)


class World:
    """Time, dice, brokers and the network.

    Attributes:
        is_calm: nothing is lost any longer.
    """

    def __init__(self, seed: int, note: Callable[[str], None]) -> None:
        self.dice = Random(seed)
        self.note = note
        self.is_calm = False
        self.truth = Truth(note)
        self.settings = SimpleNamespace(
            config=SimpleNamespace(group_share_max_share_sessions=100),
            group_integer=self._integer,
            group_value=self._value,
        )
        self.nodes = {node_id: Node(self, node_id) for node_id in NODES}
        self.coordinator: Coordinator
        self.nursery: trio.Nursery

    @staticmethod
    def _integer(group_id: str, name: str) -> int:
        del group_id
        return {
            "share.partition.max.record.locks": RECORD_LOCKS_MAX,
            "share.delivery.count.limit": LIMIT,
            "share.record.lock.duration.ms": round(LOCK_S * 1000),
        }[name]

    @staticmethod
    def _value(group_id: str, name: str) -> object:
        del group_id
        return {"share.auto.offset.reset": "earliest", "share.renew.acknowledge.enable": True}.get(
            name
        )

    # --- time ------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_ms(self) -> int:
        return _START_MS + round(trio.current_time() * 1000)

    def after(self, delay_s: float, action: Callable[..., None], *arguments: object) -> None:
        async def wait() -> None:
            await pass_time(delay_s)
            action(*arguments)

        self.nursery.start_soon(wait)

    # --- the network -----------------------------------------------------------------------------

    def is_lost(self) -> bool:
        return not self.is_calm and self.dice.random() < LOSS

    async def ask(
        self,
        node: Node,
        handle: Callable[[Any, RequestContext, Any], Any],
        connection: ClientConnection,
        request: Any,
        serve: Callable[..., Any],
    ) -> Any:
        """Have a broker handle a request; None when no answer comes."""
        await pass_time(self.dice.uniform(0.0005, 0.05))
        if not node.is_up or self.is_lost():
            await pass_time(self.dice.uniform(0.1, 2.0))
            return None
        answers: list[Any] = []
        is_there = trio.Event()

        async def work() -> None:
            context = RequestContext(request.API_KEY, 2, None, "", connection)
            answers.append(await serve(node, handle, context, request))
            is_there.set()

        node.nursery.start_soon(work)
        with trio.move_on_after(3.0):
            await is_there.wait()
            if not self.is_lost():
                await pass_time(self.dice.uniform(0.0005, 0.05))
                return answers[0]
            await trio.sleep_forever()
        return None

    # --- leaders ---------------------------------------------------------------------------------

    def make_leader(self, index: int, node_id: int) -> None:
        """A broker leads a partition from now on; each hears of it in its own time."""
        truth = self.truth.partitions[index]
        truth.leader, truth.leader_epoch = node_id, truth.leader_epoch + 1
        self.note(f"{node_id} leads {index} in epoch {truth.leader_epoch}")
        for node in self.nodes.values():
            late_s = 0.0 if self.is_calm else self.dice.choice((0.0, 0.05, 0.5, 4.0))
            self.after(late_s, self._hear, node, index, node_id, truth.leader_epoch)

    def _hear(self, node: Node, index: int, leader: int, epoch: int) -> None:
        partition = node.partitions[index]
        if leader != node.node_id:
            partition.follow(epoch)
        elif node.is_up:
            partition.lead(epoch)
            self.after(self.dice.uniform(0, 0.5), self._catch_up, partition)

    @staticmethod
    def _catch_up(partition: NodePartition) -> None:
        partition.committed(partition.log.truth.end)

    def append(self, index: int) -> None:
        """A producer, or the end of a transaction."""
        truth, dice = self.truth.partitions[index], self.dice
        hole = dice.randint(1, 3) if dice.random() < 0.1 else 0
        truth.append(dice.randint(1, BATCH_MAX), has_records=dice.random() < 0.9, hole=hole)
        for node in self.nodes.values():
            partition = node.partitions[index]
            if partition.is_leader and partition.leader_epoch == truth.leader_epoch:
                self.after(dice.uniform(0, 0.1), partition.committed, truth.end)

    def installed(self) -> Any:
        """Logs without files, while a simulation runs."""
        return patch.object(shares, "read_batches", read_batches)
