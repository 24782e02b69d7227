"""Nodes of a quorum in one process, on disks in memory and a network that can be cut."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio

from minikafka.broker.quorum.quorum import Quorum
from minikafka.broker.system.workers import RunInThread, run_inline
from minikafka.consensus import Message, QuorumConfig, join_message, split_message
from minikafka.storage.memory_disk import MemoryDisk

VOTERS = frozenset({1, 2, 3})
DELAY_S = 0.001

Parcel = tuple[float, list[object], bytes]
"""When it arrives, and a message in two parts."""


class Node:
    """A process: its disk stays when it dies."""

    def __init__(self, network: Network, node_id: int) -> None:
        self.network = network
        self.node_id = node_id
        self.disk = MemoryDisk(random.Random(node_id))
        self.disk.make_directory("quorum")
        self.disk.sync_directory("quorum")
        self.quorum: Quorum
        self.applied: list[bytes] = []
        self.indexes: list[int] = []
        self.snapshots_loaded = 0
        self.is_alive = False
        self.may_apply = trio.Event()
        self.may_apply.set()
        self._scope = trio.CancelScope()

    async def on_committed(self, index: int, payload: bytes) -> None:
        await self.may_apply.wait()
        assert self.network.decided.setdefault(index, payload) == payload
        assert index > max(self.indexes, default=0)
        self.applied.append(payload)
        self.indexes.append(index)
        self.network.has_applied()

    def make_snapshot(self) -> list[bytes]:
        return list(self.applied)

    async def load_snapshot(self, index: int, payloads: list[bytes]) -> None:
        self.applied = list(payloads)
        self.snapshots_loaded += 1
        self.network.has_applied()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        config = QuorumConfig(self.node_id, self.network.voters, log_memory_size_bytes_max=300)
        self.quorum = Quorum.open(
            self.disk,
            "quorum",
            config,
            dice=random.Random(self.node_id).uniform,
            new_directory_id=partial(self.network.random.randbytes, 16),
            run_in_thread=self.network.run_in_thread,
            snapshot_size_bytes_min=self.network.snapshot_size_bytes_min,
        )
        stored = self.quorum.stored()
        self.applied = stored.snapshot + [payload for _, payload in stored.entries]
        self.indexes = []
        with trio.CancelScope() as scope:
            self._scope = scope
            self.is_alive = True
            try:
                await self.quorum.run(
                    send=partial(self.network.send, self.node_id),
                    on_committed=self.on_committed,
                    make_snapshot=self.make_snapshot,
                    load_snapshot=self.load_snapshot,
                    on_change=self.network.changed,
                    task_status=task_status,
                )
            finally:
                if self._scope is scope:  # not yet started again
                    self.is_alive = False

    def is_failing(self) -> bool:
        return self.quorum.failure is not None

    def kill(self, *, power_loss: bool = False) -> None:
        """As kill -9 does it, or a power failure; the others notice at once."""
        self.is_alive = False
        self._scope.cancel()
        self.disk.crash(power_loss=power_loss)
        for other in self.network.nodes.values():
            if other.is_alive:
                other.quorum.peer_lost(self.node_id)


class Network:
    """Nodes that reach each other, unless they are cut off.

    Attributes:
        decided: What was applied anywhere, by index; everybody has to apply the same.
    """

    def __init__(self, nursery: trio.Nursery, voters: frozenset[int]) -> None:
        self._nursery = nursery
        self.voters = voters
        self.nodes: dict[int, Node] = {}
        self.cut_off: set[int] = set()
        self.random = random.Random(len(voters))
        self._links: dict[tuple[int, int], trio.MemorySendChannel[Parcel]] = {}
        self.snapshot_size_bytes_min = 10**9
        self.run_in_thread: RunInThread = run_inline
        self.decided: dict[int, bytes] = {}
        self._changed = trio.Event()
        self._applied = trio.Event()

    def changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def has_applied(self) -> None:
        self._applied.set()
        self._applied = trio.Event()

    def send(self, sender: int, receiver: int, message: Message) -> None:
        """As a connection does it: late, but in order."""
        if (sender, receiver) not in self._links:
            outgoing, incoming = trio.open_memory_channel[Parcel](1000)
            self._links[sender, receiver] = outgoing
            self._nursery.start_soon(self._deliver, sender, receiver, incoming)
        arrival = trio.current_time() + DELAY_S
        with suppress(trio.WouldBlock):  # as the real thing drops what is too much
            self._links[sender, receiver].send_nowait((arrival, *split_message(message)))

    async def _deliver(
        self,
        sender: int,
        receiver: int,
        messages: trio.MemoryReceiveChannel[Parcel],
    ) -> None:
        async for arrival, fields, attached in messages:
            await trio.sleep_until(arrival)
            node = self.nodes.get(receiver)
            if node is not None and node.is_alive and not {sender, receiver} & self.cut_off:
                node.quorum.receive(sender, join_message(fields, attached))

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            node = self.nodes.setdefault(node_id, Node(self, node_id))
            await self._nursery.start(node.run)

    async def leader(self, *, after: int = 0, within_s: float = 60.0) -> Node:
        """Wait for a leader of a later epoch that works."""
        with trio.fail_after(within_s):
            while True:
                for node in self.nodes.values():
                    quorum = node.quorum
                    if node.is_alive and quorum.is_leader and quorum.epoch > after:
                        return node
                await self._changed.wait()

    async def all_have(self, payloads: list[bytes]) -> None:
        """Wait until every node that lives has applied this and nothing else."""
        with trio.fail_after(60):
            while any(node.applied != payloads for node in self.living()):
                await self._applied.wait()

    def living(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_alive]

    def followers(self) -> list[Node]:
        return [node for node in self.living() if not node.quorum.is_leader]


@asynccontextmanager
async def network(*node_ids: int) -> AsyncIterator[Network]:
    with trio.fail_after(600):
        async with trio.open_nursery() as nursery:
            one = Network(nursery, VOTERS)
            await one.start(*(node_ids or VOTERS))
            yield one
            nursery.cancel_scope.cancel()
