"""Several drivers under random kills, power failures, cuts and failing disks, from a seed."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

from minikafka.broker.quorum.change_error import ChangeError
from minikafka.storage.errors import StorageError
from tests.broker.quorum_network import Network, Node, network

T = TypeVar("T")

CHAOS_S = 12.0

simulated_pause = trio.sleep
"""On the clock that jumps: it takes no time."""


class Chaos:
    """The faults, and the proposals made during them."""

    def __init__(self, cluster: Network, dice: Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.acknowledged: list[bytes] = []
        self.proposed = 0
        self.faults = 0
        cluster.run_in_thread = self.slow_thread

    async def slow_thread(
        self, function: Callable[[], T], /, *, abandon_on_cancel: bool = False
    ) -> T:
        """A process may die before, while or after its thread writes."""
        del abandon_on_cancel
        await simulated_pause(self.dice.random() * 0.02)
        result = function()
        await simulated_pause(self.dice.random() * 0.02)
        return result

    async def propose_for_ever(self, nursery: trio.Nursery) -> None:
        while True:
            await simulated_pause(self.dice.expovariate(20))
            for node in self.cluster.living():
                if node.quorum.is_leader:
                    self.proposed += 1
                    nursery.start_soon(self.propose, node, b"%d" % self.proposed)

    async def propose(self, node: Node, payload: bytes) -> None:
        with suppress(ChangeError, StorageError):
            index = await node.quorum.propose(payload)
            assert self.cluster.decided[index] == payload
            self.acknowledged.append(payload)

    async def break_things(self, nursery: trio.Nursery) -> None:
        faults = [self.kill, self.lose_power, self.cut_off, self.fail_disk, self.stall]
        while True:
            await simulated_pause(self.dice.expovariate(2))
            nodes = self.cluster.living()
            if nodes:
                self.faults += 1
                nursery.start_soon(self.dice.choice(faults), self.dice.choice(nodes))

    async def kill(self, node: Node, *, power_loss: bool = False) -> None:
        if node.is_alive:
            node.kill(power_loss=power_loss)
            await simulated_pause(self.dice.random())
            await self.cluster.start(node.node_id)

    async def lose_power(self, node: Node) -> None:
        await self.kill(node, power_loss=True)

    async def cut_off(self, node: Node) -> None:
        self.cluster.cut_off.add(node.node_id)
        await simulated_pause(self.dice.random() * 4)
        self.cluster.cut_off.discard(node.node_id)

    async def fail_disk(self, node: Node) -> None:
        operation = self.dice.choice(("pwritev", "pread", "rename", "fsync"))
        node.disk.fail(operation, code=self.dice.choice((errno.EIO, errno.ENOSPC)))
        await simulated_pause(self.dice.random())
        node.disk.heal()

    async def stall(self, node: Node) -> None:
        if node.may_apply.is_set():
            node.may_apply = trio.Event()
        await simulated_pause(self.dice.random() * 3)
        node.may_apply.set()

    async def calm_down(self) -> None:
        """Everything works again; a node that must not reopen its files is replaced."""
        self.cluster.cut_off.clear()
        for node in self.cluster.nodes.values():
            node.disk.heal()
            node.may_apply.set()
            if node.is_alive and node.is_failing():
                node.kill()
            if not node.is_alive:
                await self.cluster.start(node.node_id)


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this trio runs tasks in an order that no seed repeats."""
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    trio._core._run._r.seed(0)


@pytest.mark.parametrize("seed", range(8))
async def test_nothing_acknowledged_is_lost_and_all_nodes_apply_the_same(
    autojump_clock: MockClock, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "minikafka")
    dice = Random(seed)
    async with network(1, 2, 3, 7) as cluster:
        cluster.snapshot_size_bytes_min = dice.choice((1500, 10**9))
        chaos = Chaos(cluster, dice)
        for node in cluster.living():
            node.kill()
        await cluster.start(1, 2, 3, 7)
        async with trio.open_nursery() as proposers:
            with trio.move_on_after(CHAOS_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(chaos.propose_for_ever, proposers)
                    nursery.start_soon(chaos.break_things, nursery)
            await chaos.calm_down()
        leader = await cluster.leader()
        await leader.quorum.propose(b"the end")
        final = list(leader.applied)
        await cluster.all_have(final)
        assert chaos.faults > 10
        assert len(chaos.acknowledged) > 20
        assert set(chaos.acknowledged) < set(final)
        assert max(Counter(final).values()) == 1
