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

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio
import trio.testing

from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.run import Outcome, traced
from minikafka.storage.log import Log
from minikafka.testing.simulation.machines import (
    ELECTION_SECONDS,
    NODES,
    SESSION_SECONDS,
    SETTINGS,
    Machines,
    content_of,
    records_in,
)
from minikafka.testing.simulation.network import HOST, Sockets, pass_time
from minikafka.testing.simulation.node import SimulatedNode
from minikafka.testing.simulation.trace import Trace, seeded
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
from tests.simulation.brokers.observation import Observer

MODULE: Final = "tests.simulation.brokers"
FAULT_SECONDS: Final = 30.0
DEPOSED_SECONDS_MAX: Final = SESSION_SECONDS + ELECTION_SECONDS
"""A broker that nobody tells that it was deposed goes on for its session, which a controller that
does not know that it was deposed confirms for as long as an election takes otherwise.
"""
START_SECONDS_MAX: Final = 60.0
HEAL_SECONDS_MAX: Final = 120.0
_LOOK_SECONDS: Final = 0.1
KINDS: Final = ("kill", "power", "start", "start", "cut", "isolate", "reject", "heal", "heal")
"""What goes wrong."""


class Simulation:
    settings: Sequence[str] = SETTINGS
    module = MODULE

    def __init__(self, seed: int, fault_seconds: float) -> None:
        self.seed = seed
        self.trace = Trace()
        self.dice = random.Random(f"faults {seed}")
        self.faults: Counter[str] = Counter()
        note = self.trace.note
        self.machines = Machines(seed, note, self.settings)
        network = self.network = self.machines.network
        self.nodes = self.machines.nodes
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
            self.machines.start_all(nursery)
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
        if self.machines.are_all_in_sync():
            self._damaged = None
        up = [one for one in self.nodes if one.is_running]
        stopped = [one for one in self.nodes if not one.is_running]
        kind = dice.choice(KINDS)
        if kind == "kill" and up and self._may_kill():
            await self._kill(dice.choice(up), power_loss=False)
        elif kind == "power" and self.machines.are_all_in_sync():
            self._damaged = dice.choice(up)
            await self._kill(self._damaged, power_loss=True)
        elif kind == "start" and stopped:
            self.machines.start(dice.choice(stopped))
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
        return self._damaged is None or not self.machines.counts_as_in_sync(self._damaged)

    def _cut(self, source: str, target: str) -> None:
        self.trace.note(f"cut {source} -> {target}")
        self.network.cut(source, target)

    async def _kill(self, node: SimulatedNode, *, power_loss: bool) -> None:
        if power_loss:
            self.observer.lost_power(node.node_id)
        await self.machines.kill(node, power_loss=power_loss)

    # --- the end -------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Everything works again: writers make progress, and all replicas become equal."""
        self.trace.note("everything is healed")
        self.network.heal()
        self.machines.start_missing()
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
        await self._until("all replicas are in sync", self.machines.are_all_in_sync)
        await self._until("all replicas are equally long", self.machines.are_equally_long)
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

    def _is_all_read(self) -> bool:
        return all(
            one.read[-1:] == writer.acknowledged[-1:]
            for one, writer in zip(self.readers, self.writers, strict=True)
        )

    def _compared(self) -> Iterable[tuple[str, list[Log]]]:
        """Replicas that have to be equal, batch by batch."""
        return self.machines.logs()

    def _judge(self) -> None:
        for name, logs in self._compared():
            contents = [content_of(one) for one in logs]
            if contents.count(contents[0]) != len(contents):
                raise InvariantViolated(
                    "equal replicas", f"those of {name} are equally long, and differ"
                )
        for writer, reader in zip(self.writers, self.readers, strict=True):
            partition = self.nodes[0].broker.partitions[TOPIC, writer.partition]
            found = [
                (one.offset, one.value or b"") for one in records_in(content_of(partition.log))
            ]
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


def _difference(expected: list[tuple[int, bytes]], found: list[tuple[int, bytes]]) -> str:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"{other} found where {one} was expected"
    return f"{len(found)} records found where {len(expected)} were expected"


def play(simulation: Simulation) -> float:
    """Play a simulation; returns the simulated seconds.

    Raises:
        SimulationFailed: a promise was broken.
    """
    seed, trace = simulation.seed, simulation.trace
    with (
        traced(simulation.module, seed, trace.text),
        seeded(seed, trace),
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
