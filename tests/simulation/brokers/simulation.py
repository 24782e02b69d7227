"""Three whole brokers and their clients in one trio run on a clock of its own, under attack.

Everything that happens follows from the seed: trio's schedule, the clock, the network, the disks,
what goes wrong and when. Nothing waits for real time, and nothing runs in a thread.

A machine loses its power only while all replicas of all partitions are in sync, and not again
before they are: acknowledged records may be in page caches only, and two power failures may lose
them. Nor is a process killed while the running brokers count the machine that lost its power as in
sync: if all brokers were down before its loss is decided, it would be unknown which has everything
(a killed process loses nothing, but its broker cannot know).
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import random
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, Final

import trio
import trio.testing

from minikafka.protocol.records import decode_records, iter_batches
from minikafka.storage.log import Log
from tests.simulation.brokers.clients import (
    HASTY_TOPIC,
    PARTITIONS,
    TOPIC,
    Client,
    Committer,
    HastyWriter,
    Reader,
    Writer,
)
from tests.simulation.brokers.network import HOST, Network, Sockets, pass_time
from tests.simulation.brokers.node import INTERNAL_PORT, SimulatedNode, host_of
from tests.simulation.brokers.observation import Observer
from tests.simulation.kit.invariants import InvariantViolated
from tests.simulation.kit.run import Outcome, traced

MODULE: Final = "tests.simulation.brokers"
FAULT_SECONDS: Final = 30.0
NODES: Final = 3
VOTERS: Final = ",".join(f"{one}@{host_of(one)}:{INTERNAL_PORT}" for one in range(1, NODES + 1))
SESSION_SECONDS: Final = 3
ELECTION_SECONDS: Final = 1
DEPOSED_SECONDS_MAX: Final = SESSION_SECONDS + ELECTION_SECONDS
"""A broker that nobody tells that it was deposed goes on for its session, which a controller that
does not know that it was deposed confirms for as long as an election takes otherwise.
"""
SETTINGS: Final = (
    f"controller.quorum.voters={VOTERS}",
    f"controller.quorum.election.timeout.ms={ELECTION_SECONDS * 1000}",
    f"broker.session.timeout.ms={SESSION_SECONDS * 1000}",
    "broker.heartbeat.interval.ms=500",
    "replica.lag.time.max.ms=2000",
    "min.insync.replicas=2",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.num.partitions=1",
    "minikafka.log.reopen.interval.ms=5000",
)
START_SECONDS_MAX: Final = 60.0
HEAL_SECONDS_MAX: Final = 120.0
_TRACE_LINES_MAX: Final = 400
_LOOK_SECONDS: Final = 0.1
KINDS: Final = ("kill", "power", "start", "start", "cut", "isolate", "reject", "heal", "heal")
"""What goes wrong."""


class _Trace(logging.Handler, trio.abc.Instrument):
    """Events as people read them, and a hash of everything that runs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=_TRACE_LINES_MAX)
        self._hash = hashlib.sha256()

    def note(self, text: str) -> None:
        line = f"{_now():9.4f}  {text}"
        self.lines.append(line)
        self._hash.update(line.encode())

    def emit(self, record: logging.LogRecord) -> None:
        self.note(f"[{HOST.get('')}] {record.getMessage()}")

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._hash.update(f"{_now()!r} {task.name}\n".encode())

    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()


def _now() -> float:
    with suppress(RuntimeError):
        return trio.current_time()
    return 0.0


class Simulation:
    settings: tuple[str, ...] = SETTINGS
    module = MODULE

    def __init__(self, seed: int, fault_seconds: float) -> None:
        self.seed = seed
        self.trace = _Trace()
        self.dice = random.Random(f"faults {seed}")
        self.faults: Counter[str] = Counter()
        note = self.trace.note
        network = self.network = Network(random.Random(f"network {seed}"))
        self.nodes = [SimulatedNode(one, seed, network, note) for one in range(1, NODES + 1)]
        self.writers = [Writer(one, seed, network, note, NODES) for one in range(PARTITIONS)]
        self.readers = [Reader(one, seed, network, note, NODES) for one in range(PARTITIONS)]
        self.hasty_writers = [
            HastyWriter(one, seed, network, note, NODES, DEPOSED_SECONDS_MAX)
            for one in range(PARTITIONS)
        ]
        self.committer = Committer(seed, network, note, NODES)
        self.admin = Client("admin", seed, network, note, NODES)
        self.clients = (*self.writers, *self.hasty_writers, *self.readers, self.committer)
        self.observer = Observer(note)
        for node in self.nodes:
            node.opened = self.observer.opened
        for writer in self.writers:
            writer.observer = self.observer
        for hasty in self.hasty_writers:
            hasty.observer = self.observer
        for reader in self.readers:
            reader.observer = self.observer
        self.hosts = [*(one.host for one in self.nodes), *(one.host for one in self.clients)]
        self._fault_seconds = fault_seconds
        self._damaged: SimulatedNode | None = None  # it lost its power
        self._nursery: trio.Nursery

    async def run(self) -> float:
        """Play it; returns the simulated seconds."""
        Sockets(self.network).install()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for node in self.nodes:
                self._start(node)
            with trio.fail_after(START_SECONDS_MAX):
                HOST.set("admin")
                await self._create_topics()
            for client in self.clients:
                nursery.start_soon(client.run)
            ends = trio.current_time() + self._fault_seconds
            while trio.current_time() < ends:
                await pass_time(self.dice.uniform(0.0, 2.5))
                await self._go_wrong()
            await self._heal()
            self._judge()
            nursery.cancel_scope.cancel()
        return trio.current_time()

    async def _create_topics(self) -> None:
        await self.admin.create_topic(TOPIC)
        await self.admin.create_topic(HASTY_TOPIC)

    # --- what goes wrong -----------------------------------------------------------------------

    async def _go_wrong(self) -> None:
        dice = self.dice
        if self._are_all_in_sync():
            self._damaged = None
        up = [one for one in self.nodes if one.is_running]
        stopped = [one for one in self.nodes if not one.is_running]
        kind = dice.choice(KINDS)
        if kind == "kill" and up and self._may_kill():
            await self._kill(dice.choice(up), power_loss=False)
        elif kind == "power" and self._are_all_in_sync():
            self._damaged = dice.choice(up)
            await self._kill(self._damaged, power_loss=True)
        elif kind == "start" and stopped:
            self._start(dice.choice(stopped))
        elif kind == "cut":
            self._cut(*dice.sample(self.hosts, 2))
        elif kind == "isolate":
            node = dice.choice(self.nodes)
            for other in self.nodes:
                if other is not node:
                    self._cut(node.host, other.host)
                    if dice.random() < 0.7:
                        self._cut(other.host, node.host)
        elif kind == "reject":
            node = dice.choice(self.nodes)
            self.trace.note(f"{node.host} and the others refuse each other")
            for other in self.nodes:
                if other is not node:
                    self.network.reject(node.host, other.host)
                    self.network.reject(other.host, node.host)
        elif kind == "heal" and self.network.cuts:
            self.trace.note("links are healed")
            self.network.heal()
        else:
            return
        self.faults[kind] += 1

    def _may_kill(self) -> bool:
        damaged = self._damaged
        return damaged is None or not any(
            damaged.node_id in partition.in_sync_replicas
            for node in self.nodes
            if node.is_serving and node is not damaged
            for topic in node.broker.image.topics.values()
            for partition in topic.partitions
        )

    def _cut(self, source: str, target: str) -> None:
        self.trace.note(f"cut {source} -> {target}")
        self.network.cut(source, target)

    async def _kill(self, node: SimulatedNode, *, power_loss: bool) -> None:
        self.trace.note(f"{'power loss' if power_loss else 'kill'} of {node.host}")
        if power_loss:
            self.observer.lost_power(node.node_id)
        await node.kill(power_loss=power_loss)

    def _start(self, node: SimulatedNode) -> None:
        self.trace.note(f"start {node.host}")
        node.is_running = True
        node.power_up()
        self._nursery.start_soon(node.run, self.settings)

    def _are_all_in_sync(self) -> bool:
        return all(
            node.is_serving
            and len(node.live()) == NODES
            and all(
                len(partition.in_sync_replicas) == NODES
                for topic in node.broker.image.topics.values()
                for partition in topic.partitions
            )
            for node in self.nodes
        )

    # --- the end -------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Everything works again: writers make progress, and all replicas become equal."""
        self.trace.note("everything is healed")
        self.network.heal()
        for node in self.nodes:
            if not node.is_running:
                self._start(node)
        before = [len(one.acknowledged) for one in self.writers]
        committed = self.committer.committed
        await self._until(
            "writers and the committer get on",
            lambda: (
                all(
                    len(one.acknowledged) > was
                    for one, was in zip(self.writers, before, strict=True)
                )
                and self.committer.committed > committed
            ),
        )
        for client in (*self.writers, *self.hasty_writers, self.committer):
            client.is_done = True
        await self._until(
            "the last batches are taken", lambda: not any(one.pending for one in self.writers)
        )
        await self._until("all replicas are in sync", self._are_all_in_sync)
        await self._until("all replicas are equally long", self._are_equally_long)
        await self._until("readers read to the end", self._is_all_read)
        for reader in self.readers:
            reader.is_done = True

    async def _until(self, wanted: str, condition: Callable[[], bool]) -> None:
        with trio.move_on_after(HEAL_SECONDS_MAX):
            while not condition():
                await pass_time(_LOOK_SECONDS)
            self.trace.note(wanted)
            return
        for node in self.nodes:
            self.trace.note(node.describe())
        raise InvariantViolated("liveness", f"{HEAL_SECONDS_MAX:g} s after the end: not {wanted}")

    def _logs(self) -> Generator[tuple[str, list[Log]]]:
        image = self.nodes[0].broker.image
        for name, topic in image.topics.items():
            for number in range(len(topic.partitions)):
                logs = [one.broker.partitions[name, number].log for one in self.nodes]
                yield f"{name}-{number}", logs

    def _are_equally_long(self) -> bool:
        return all(
            len({one.log_end_offset for one in logs} | {one.high_watermark for one in logs}) == 1
            for _, logs in self._logs()
        )

    def _is_all_read(self) -> bool:
        return all(
            one.read[-1:] == writer.acknowledged[-1:]
            for one, writer in zip(self.readers, self.writers, strict=True)
        )

    def _compared(self) -> Iterable[tuple[str, list[Log]]]:
        """Replicas that have to be equal, batch by batch."""
        return self._logs()

    def _judge(self) -> None:
        for name, logs in self._compared():
            contents = [_content(one) for one in logs]
            if contents.count(contents[0]) != len(contents):
                raise InvariantViolated(
                    "equal replicas", f"those of {name} are equally long, and differ"
                )
        for writer, reader in zip(self.writers, self.readers, strict=True):
            partition = self.nodes[0].broker.partitions[TOPIC, writer.partition]
            found = _records(_content(partition.log))
            if found != writer.acknowledged:
                raise InvariantViolated(
                    "acknowledged is kept",
                    f"{_difference(writer.acknowledged, found)} in the log of "
                    f"{TOPIC}-{writer.partition}",
                )
            if found != reader.read:
                raise InvariantViolated(
                    "read is kept", f"{_difference(found, reader.read)} by {reader.host}"
                )


def _content(log: Log) -> bytes:
    content = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, size_bytes_max=10**6, upper_bound_offset=log.log_end_offset)
        assert found.records is not None
        content += found.records.read()
        offset = found.next_offset
    return content


def _records(content: bytes) -> list[tuple[int, bytes]]:
    return [
        (record.offset, record.value or b"")
        for position, _ in iter_batches(content)
        for record in decode_records(content, position)
    ]


def _difference(expected: list[tuple[int, bytes]], found: list[tuple[int, bytes]]) -> str:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"{other} found where {one} was expected"
    return f"{len(found)} records found where {len(expected)} were expected"


@contextmanager
def _seeded(seed: int, trace: _Trace) -> Generator[None]:
    """Trio's schedule follows from the seed, and minikafka's log goes into the trace."""
    core: Any = importlib.import_module("trio._core._run")
    before = core._ALLOW_DETERMINISTIC_SCHEDULING
    core._ALLOW_DETERMINISTIC_SCHEDULING = True
    core._r.seed(seed)
    logger = logging.getLogger("minikafka")
    level, disabled, propagates = logger.level, logging.root.manager.disable, logger.propagate
    logger.addHandler(trace)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        core._ALLOW_DETERMINISTIC_SCHEDULING = before
        core._r.seed()
        logger.removeHandler(trace)
        logger.setLevel(level)
        logger.propagate = propagates
        logging.disable(disabled)


def play(simulation: Simulation) -> float:
    """Play a simulation; returns the simulated seconds.

    Raises:
        SimulationFailed: a promise was broken.
    """
    seed, trace = simulation.seed, simulation.trace
    with (
        traced(simulation.module, seed, trace.text),
        _seeded(seed, trace),
        simulation.observer.installed(),
    ):
        return trio.run(
            simulation.run,
            clock=trio.testing.MockClock(autojump_threshold=0),
            instruments=[trace],
        )


def run_seed(seed: int, fault_seconds: float = FAULT_SECONDS) -> Outcome:
    """Play a seed; raises SimulationFailed."""
    simulation = Simulation(seed, fault_seconds)
    simulated_s = play(simulation)
    counts = Counter(
        acknowledged=sum(len(one.acknowledged) for one in simulation.writers),
        read=sum(len(one.read) for one in simulation.readers),
        offset=simulation.committer.committed,
        taken=sum(one.taken for one in simulation.hasty_writers),
    )
    trace = simulation.trace
    return Outcome(seed, simulated_s, counts, trace.text, simulation.faults, trace.fingerprint)
