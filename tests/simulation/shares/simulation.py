"""One run of the share-group simulation, and what has to be true of it."""

from __future__ import annotations

from collections import Counter
from typing import Final

import trio
import trio.testing

from minikafka.coordinator.share.commands import Initialize, Read, Summarize
from minikafka.coordinator.share.records import SharePartitionKey
from minikafka.lab.simulation.kit.invariants import require
from minikafka.lab.simulation.kit.run import Outcome, traced
from minikafka.protocol.errors import ErrorCode
from minikafka.testing.simulation.network import pass_time
from minikafka.testing.simulation.trace import Trace, seeded
from tests.simulation.shares.coordinator import Asker, Coordinator
from tests.simulation.shares.members import Member
from tests.simulation.shares.truth import PARTITIONS
from tests.simulation.shares.world import GROUP, NODES, TOPIC_ID, Node, World

MODULE: Final = "tests.simulation.shares"
STORM_S: Final = 30.0
CALM_S: Final = 60.0
MEMBERS_MAX: Final = 4
_EPOCH_MAX: Final = 2**31 - 1


def key_of(index: int) -> SharePartitionKey:
    return SharePartitionKey(GROUP, TOPIC_ID, index)


class Simulation:
    """One share group, its members, brokers and coordinators, and a nemesis."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.trace = Trace()
        self.world = World(seed, self.trace.note)
        self.faults: Counter[str] = Counter()
        self.members: list[Member] = []
        self._made = 0
        self._first = [0] * PARTITIONS  # where the group last began

    async def run(self) -> float:
        """A storm, then calm, then every record has to be finished."""
        world = self.world
        async with trio.open_nursery() as nursery:
            world.nursery = nursery
            world.coordinator = Coordinator(world, self._check_loaded)
            for node in world.nodes.values():
                await self._start(node)
            for index in range(PARTITIONS):
                await self._initialize(index, 0, -1)
                world.make_leader(index, world.dice.choice(NODES))
            for _ in range(3):
                self._join()
            nursery.start_soon(self._produce)
            with trio.move_on_after(STORM_S):
                while True:
                    await pass_time(world.dice.uniform(0.1, 1.5))
                    await self._trouble()
            await self._calm_down()
            await self._check_end()
            nursery.cancel_scope.cancel()
        return trio.current_time()

    # --- what happens ----------------------------------------------------------------------------

    async def _start(self, node: Node) -> None:
        await self.world.nursery.start(node.run)

    def _join(self) -> None:
        self._made += 1
        member = Member(self.world, f"m{self._made}")
        self.members.append(member)
        self.world.nursery.start_soon(member.run)

    async def _produce(self) -> None:
        world = self.world
        while not world.is_calm:
            await pass_time(world.dice.uniform(0.02, 0.6))
            world.append(world.dice.randrange(PARTITIONS))

    async def _trouble(self) -> None:
        world, dice = self.world, self.world.dice
        match dice.randrange(12):
            case 0 | 1:
                self.faults["failovers"] += 1
                world.coordinator.fail_over()
            case 2 | 3 | 4:
                self.faults["leader changes"] += 1
                up = [one.node_id for one in world.nodes.values() if one.is_up]
                world.make_leader(dice.randrange(PARTITIONS), dice.choice(up))
            case 5:
                await self._kill(world.nodes[dice.choice(NODES)])
            case 6 | 7 if len(self.members) < MEMBERS_MAX:
                self._join()
            case 8 if self.members:
                self.faults["deaths"] += 1
                self.members.pop(dice.randrange(len(self.members))).die()
            case 9 if self.members:
                world.nursery.start_soon(self.members.pop(dice.randrange(len(self.members))).leave)
            case 10:
                world.coordinator.prune()
                truth = dice.choice(world.truth.partitions)
                if dice.random() < 0.3:
                    truth.log_start = dice.randint(truth.log_start, truth.end)
            case 11 if dice.random() < 0.4:
                await self._reset(dice.randrange(PARTITIONS))
            case _:
                pass

    async def _kill(self, node: Node) -> None:
        """Others lead what it led; later it runs again, with nothing in memory."""
        others = [one.node_id for one in self.world.nodes.values() if one.is_up and one is not node]
        if not node.is_up or not others:
            return
        self.faults["kills"] += 1
        self.trace.note(f"{node.node_id} is killed")
        node.kill()
        for truth in self.world.truth.partitions:
            if truth.leader == node.node_id:
                self.world.make_leader(truth.index, self.world.dice.choice(others))
        await pass_time(self.world.dice.uniform(0.1, 3.0))
        await self._start(node)

    async def _reset(self, index: int) -> None:
        """Everybody leaves, and an administrator lets the group begin elsewhere."""
        self.faults["resets"] += 1
        truth = self.world.truth.partitions[index]
        members, self.members = self.members, []
        with trio.move_on_after(10):
            for member in members:
                await member.leave()
        for member in members:
            member.die()
        truth.is_uncertain = True
        start = self.world.dice.randint(truth.log_start, truth.end)
        self.trace.note(f"{index} begins again at {start}")
        with trio.CancelScope(shield=True):
            await self._initialize(index, truth.state_epoch + 1, start)
        truth.begin_again(start)
        self._first[index] = start
        for _ in members or range(2):
            self._join()

    async def _initialize(self, index: int, state_epoch: int, start: int) -> None:
        asker = Asker(self.world)
        while True:
            reply = await asker.ask(Initialize(key_of(index), state_epoch, start))
            if reply.error_code is ErrorCode.NONE:
                return

    # --- the end ---------------------------------------------------------------------------------

    async def _calm_down(self) -> None:
        world = self.world
        world.is_calm = True
        self.trace.note("calm")
        for node in world.nodes.values():
            if not node.is_up:
                await self._start(node)
        await pass_time(5.0)  # news of leaders that are still on their way
        for index in range(PARTITIONS):
            world.make_leader(index, world.dice.choice(NODES))
        while len(self.members) < 2:
            self._join()
        await pass_time(CALM_S)

    def _check_loaded(self) -> None:
        for truth in self.world.truth.partitions:
            if truth.leader_epoch:
                state = self.world.coordinator.state_of(key_of(truth.index))
                self.world.truth.look_at_loaded(truth.index, state)

    async def _check_end(self) -> None:
        """The group has finished everything, and so its next leader will find."""
        world, asker = self.world, Asker(self.world)
        for member in self.members:
            await member.leave()
        for index, first in enumerate(self._first):
            summary = await asker.ask(Summarize(key_of(index)))
            require(
                summary.delivery_complete_count == 0,
                "everything is finished",
                f"{index} has {summary.delivery_complete_count} finished offsets behind its start",
            )
            state = world.coordinator.state_of(key_of(index))
            assert state is not None
            world.truth.check_end(index, state, first)
            read = await asker.ask(Read(key_of(index), _EPOCH_MAX))
            require(not read.batches, "everything is finished", f"{index} has {read.batches}")


def run_seed(seed: int) -> Outcome:
    """Play a seed; raises SimulationFailed."""
    simulation = Simulation(seed)
    trace = simulation.trace
    with traced(MODULE, seed, trace.text), seeded(seed, trace), simulation.world.installed():
        simulated_s = trio.run(simulation.run, clock=trio.testing.MockClock(autojump_threshold=0))
    counts = simulation.world.truth.counts
    return Outcome(seed, simulated_s, counts, trace.text, simulation.faults, trace.fingerprint)
