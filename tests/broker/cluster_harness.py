"""Whole nodes in this process: their own directories, quorum, RPC over loopback; clients in memory.

    async with running_cluster(tmp_path) as cluster:
        await cluster.nodes[1].connect().create_topic("t")
        await cluster.kill(2)             # as kill -9: nothing is said, nothing is flushed
        await cluster.until(lambda: 2 not in cluster.live(1))
        await cluster.start(2)

`tests.broker.replicated` has brokers under a controller of plain calls, for races that a test plays
by hand.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing

from minikafka.broker.broker import Broker, Endpoint
from minikafka.broker.cluster_view import live_brokers
from minikafka.broker.opening import open_broker
from minikafka.metadata.image import PartitionImage
from tests.broker.harness import BrokerUnderTest, WireClient, options

SETTINGS = (
    "controller.quorum.election.timeout.ms=2000",
    "broker.heartbeat.interval.ms=50",
    "offsets.topic.num.partitions=3",
)
_TURN_SECONDS = 0.002


class Node:
    """One node, running or not.

    Attributes:
        node_id: its number.
        data_dir: where its files are.
        settings: its own, in addition to the cluster's.
        broker: while it runs.
        is_running: between `ClusterUnderTest.start` and its end.
    """

    def __init__(self, node_id: int, data_dir: Path, settings: Sequence[str]) -> None:
        self.node_id = node_id
        self.data_dir = data_dir
        self.settings = tuple(settings)
        self.broker: Broker
        self.is_running = False
        self._under_test: BrokerUnderTest
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(
        self,
        settings: Sequence[str],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Open the directory and run until `end`."""
        chosen = [*SETTINGS, *settings, f"node.id={self.node_id}", *self.settings]
        broker = self.broker = open_broker(options(self.data_dir, *chosen))
        broker.endpoint = Endpoint(f"broker{self.node_id}.test", 9092)
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self._close_seconds = 0.0
        self.is_running = True
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._under_test = BrokerUnderTest(broker, nursery)
                    await nursery.start(broker.run)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self._under_test.hang_up()
            broker.close(self._close_seconds)
            self.is_running = False
            self._ended.set()

    async def end(self, close_seconds: float) -> None:
        """End the process: with 0 seconds nothing is closed well."""
        self._close_seconds = close_seconds
        self._scope.cancel()
        await self._ended.wait()

    def connect(self) -> WireClient:
        """A client's connection."""
        return self._under_test.connect()

    @property
    def is_active_controller(self) -> bool:
        """It decides."""
        return self.is_running and self.broker.controller.is_active

    def partition(self, topic: str, number: int = 0) -> PartitionImage:
        """A partition as this node knows it."""
        return self.broker.image.topics[topic].partitions[number]

    def live(self) -> list[int]:
        """The brokers that are in service, as this node knows."""
        return [one.broker_id for one in live_brokers(self.broker)]


class ClusterUnderTest:
    """Nodes by number."""

    def __init__(self, nursery: trio.Nursery, tmp_path: Path, voters: int, *settings: str) -> None:
        self.nodes: dict[int, Node] = {}
        self._nursery = nursery
        self._tmp_path = tmp_path
        # Bound and not listening: the ports stay ours while nodes come and go.
        self._ports = {number: _bound_socket() for number in range(1, voters + 1)}
        addresses = [
            f"{number}@127.0.0.1:{held.getsockname()[1]}" for number, held in self._ports.items()
        ]
        self.quorum = ",".join(addresses)
        self.settings = (f"controller.quorum.voters={self.quorum}", *settings)

    def close(self) -> None:
        """Give the ports back."""
        for held in self._ports.values():
            held.close()

    def node(self, node_id: int, *settings: str) -> Node:
        """A node, running or not; settings are its own."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = Node(node_id, self._tmp_path / f"node{node_id}", settings)
        return node

    async def start(self, *node_ids: int) -> None:
        """Start nodes together; returns when all are in service and every running node knows."""
        async with trio.open_nursery() as starting:
            for node_id in node_ids:
                starting.start_soon(self._nursery.start, self.node(node_id).run, self.settings)
        started = {one for one in node_ids if self.nodes[one].broker.topology.is_broker}
        await self.until(lambda: all(started.issubset(one.live()) for one in self.running))

    def begin(self, node_id: int) -> None:
        """Start a node without waiting for anything."""
        self._nursery.start_soon(self.node(node_id).run, self.settings)

    async def kill(self, *node_ids: int) -> None:
        """End processes as kill -9 does."""
        for node_id in node_ids:
            await self.nodes[node_id].end(0.0)

    async def stop(self, node_id: int) -> None:
        """Stop a node in good order, as SIGTERM does."""
        node = self.nodes[node_id]
        if node.broker.topology.is_broker:
            await node.broker.lifecycle.leave(1.0)
        await node.broker.quorum.transfer_leadership()
        await node.end(10.0)

    @property
    def running(self) -> list[Node]:
        """The nodes that run."""
        return [node for node in self.nodes.values() if node.is_running]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds; the test's time limit is the only other end."""
        while not condition():
            await trio.testing.wait_all_tasks_blocked(_TURN_SECONDS)

    async def controller(self) -> Node:
        """Wait for an active controller that all running nodes know, and return it."""

        def known() -> list[Node]:
            return [
                node
                for node in self.running
                if node.is_active_controller
                and all(one.broker.quorum.leader_id == node.node_id for one in self.running)
            ]

        await self.until(known)
        return known()[0]


def _bound_socket() -> socket.socket:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


@asynccontextmanager
async def running_cluster(
    tmp_path: Path, *settings: str, voters: int = 3, start: bool = True
) -> AsyncGenerator[ClusterUnderTest]:
    """Run a cluster; at the end all nodes are killed."""
    async with trio.open_nursery() as nursery:
        cluster = ClusterUnderTest(nursery, tmp_path, voters, *settings)
        try:
            if start:
                await cluster.start(*range(1, voters + 1))
            yield cluster
        finally:
            nursery.cancel_scope.cancel()
            cluster.close()
