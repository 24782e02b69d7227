"""Brokers in this process, and clients that talk Kafka's protocol to them over socket pairs.

    async with running_broker(tmp_path) as under_test:
        await under_test.connect().create_topic("t")

    async with running_cluster(tmp_path) as cluster:
        await cluster.nodes[1].connect().create_topic("t")
        await cluster.kill(2)             # as kill -9: nothing is flushed
        await cluster.until(lambda: 2 not in cluster.nodes[1].live())
        await cluster.start(2)

Nodes of a cluster have their own directories and a quorum, and speak to each other over loopback.
`tests.broker.replicated` has brokers under a controller of plain calls, for races that a test plays
by hand.
"""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio
import trio.testing

from minikafka.broker.broker import Broker
from minikafka.broker.handlers.cluster_view import live_brokers
from minikafka.broker.net.connection import Connection
from minikafka.broker.net.server import Server
from minikafka.broker.opening import BrokerOptions
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node import Endpoint
from minikafka.broker.system.turns import TURN_SECONDS_MAX, TurnWatch
from minikafka.broker.transport.transport import SocketTransport
from minikafka.metadata.records import PartitionRecord
from minikafka.security.principal import ANONYMOUS, Principal
from minikafka.testing.in_process import LocalNode
from tests.kit.wire import WireClient

SETTINGS = (
    "controller.quorum.election.timeout.ms=2000",
    "broker.heartbeat.interval.ms=50",
    "offsets.topic.num.partitions=3",
)
"""Of the nodes of a cluster."""
_TRACED_TURN_SECONDS_MAX = 0.5
_SLOW_MACHINE = 2.5
_TURN_SECONDS = 0.002


def options(data_dir: Path, *assignments: str) -> BrokerOptions:
    """Options of a broker in which a new group does not wait for further members."""
    config = load_config(None, ["group.initial.rebalance.delay.ms=0", *assignments], {})
    return BrokerOptions(config=config, data_dir=data_dir)


class BrokerUnderTest:
    """A running broker and a way to connect to it."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.server = Server(broker)
        self.connections: list[Connection] = []
        self._nursery = nursery
        self._sockets: list[trio.socket.SocketType] = []

    def hang_up(self) -> None:
        for one in self._sockets:
            one.close()

    def connect(self, who: Principal | Listener = ANONYMOUS) -> WireClient:
        """A client that is somebody without having to say so, or one on a listener.

        Raises:
            RuntimeError: the broker has stopped.
        """
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection = Connection(self.broker, SocketTransport(theirs, "/test"))
        if isinstance(who, Listener):
            connection.client.listener = who
        else:
            connection.client.principal = who
        try:
            self._nursery.start_soon(self._serve, connection)
        except RuntimeError:  # it has stopped
            ours.close()
            theirs.close()
            raise
        client = trio.socket.from_stdlib_socket(ours)
        self._sockets.append(client)
        return WireClient(trio.SocketStream(client))

    async def _serve(self, connection: Connection) -> None:
        self.connections.append(connection)
        await connection.run()
        self.connections.remove(connection)


class Node(LocalNode):
    """A broker without a listener; clients speak to it over socket pairs.

    Args:
        data_dir: where its files are.
        host: the name it advertises.
        close_seconds: how long it may take to close its files when its task is cancelled; 0 is a
            crash.

    Attributes:
        under_test: connects to it while it runs.
    """

    def __init__(self, data_dir: Path, host: str, close_seconds: float) -> None:
        super().__init__(close_seconds)
        self.data_dir = data_dir
        self.under_test: BrokerUnderTest
        self._host = host

    async def run(
        self,
        settings: Sequence[str],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Open the directory and run until `end`, or until the task is cancelled."""
        endpoint = Endpoint(self._host, 9092)
        await self.run_node(options(self.data_dir, *settings), endpoint, task_status=task_status)

    def on_opened(self, nursery: trio.Nursery) -> None:
        self.under_test = BrokerUnderTest(self.broker, nursery)

    def on_ending(self) -> None:
        self.under_test.hang_up()

    def connect(self, principal: Principal = ANONYMOUS) -> WireClient:
        return self.under_test.connect(principal)


@contextmanager
def short_turns() -> Generator[TurnWatch]:
    """Watch that no task of a broker keeps the others waiting, whatever a test asks of it.

    With coverage, which traces every line, the bound is generous.
    """
    with TurnWatch("minikafka.broker") as watch:
        yield watch
    limit = _SLOW_MACHINE * TURN_SECONDS_MAX
    if sys.gettrace() is not None:
        limit = _TRACED_TURN_SECONDS_MAX
    assert watch.longest.seconds <= limit, str(watch.longest)


@asynccontextmanager
async def running_broker(data_dir: Path, *assignments: str) -> AsyncGenerator[BrokerUnderTest]:
    """Open a broker on a directory, run it, and close it cleanly."""
    node = Node(data_dir, "broker.test", math.inf)
    with short_turns():
        async with trio.open_nursery() as nursery:
            await nursery.start(node.run, assignments)
            try:
                yield node.under_test
            finally:
                nursery.cancel_scope.cancel()


class ClusterNode(Node):
    """One node of a cluster.

    Attributes:
        node_id: its number.
        settings: its own, in addition to the cluster's.
    """

    def __init__(self, node_id: int, data_dir: Path, settings: Sequence[str]) -> None:
        super().__init__(data_dir, f"broker{node_id}.test", 0.0)
        self.node_id = node_id
        self.settings = tuple(settings)

    async def run(
        self,
        settings: Sequence[str],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Open the directory and run until `end`."""
        chosen = [*SETTINGS, *settings, f"node.id={self.node_id}", *self.settings]
        await super().run(chosen, task_status=task_status)

    @property
    def is_active_controller(self) -> bool:
        return self.is_running and self.broker.controller.is_active

    def partition(self, topic: str, number: int = 0) -> PartitionRecord:
        """A partition in this node's metadata image."""
        return self.broker.image.topics[topic].partitions[number]

    def live(self) -> list[int]:
        """The brokers in service, according to this node's metadata image."""
        return [one.broker_id for one in live_brokers(self.broker)]


class ClusterUnderTest:
    """Nodes by number."""

    def __init__(self, nursery: trio.Nursery, tmp_path: Path, voters: int, *settings: str) -> None:
        self.nodes: dict[int, ClusterNode] = {}
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

    def node(self, node_id: int, *settings: str) -> ClusterNode:
        """A node, running or not; settings are its own."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = ClusterNode(
                node_id, self._tmp_path / f"node{node_id}", settings
            )
        return node

    async def start(self, *node_ids: int) -> None:
        """Start nodes together; returns when all are in service and every running node knows."""
        async with trio.open_nursery() as starting:
            for node_id in node_ids:
                starting.start_soon(self._nursery.start, self.node(node_id).run, self.settings)
        started = {one for one in node_ids if self.nodes[one].broker.node.topology.is_broker}
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
        if node.broker.node.topology.is_broker:
            await node.broker.lifecycle.leave(1.0)
        await node.broker.quorum.transfer_leadership()
        await node.end(10.0)

    @property
    def running(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.is_running]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds; only the test's time limit ends it otherwise."""
        while not condition():
            await trio.testing.wait_all_tasks_blocked(_TURN_SECONDS)

    async def controller(self) -> ClusterNode:
        """Wait for an active controller that all running nodes know, and return it."""

        def known() -> list[ClusterNode]:
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
    with short_turns():
        async with trio.open_nursery() as nursery:
            cluster = ClusterUnderTest(nursery, tmp_path, voters, *settings)
            try:
                if start:
                    await cluster.start(*range(1, voters + 1))
                yield cluster
            finally:
                nursery.cancel_scope.cancel()
                cluster.close()
