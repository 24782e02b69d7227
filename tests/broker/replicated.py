"""Brokers with real logs and real connections between them, under a controller made of plain calls.

The metadata is whatever a test decides, and every broker hears of it when the test says so: that is
how races between the metadata log and replica fetch are played. (`cluster_harness` has whole nodes,
with their quorum.)
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio

from minikafka.broker.broker import Broker, Endpoint
from minikafka.broker.clock import SystemClock
from minikafka.broker.config import load_config
from minikafka.broker.metadata_store import MetadataStore
from minikafka.broker.no_followers import NoFollowers
from minikafka.broker.partition import Partition
from minikafka.broker.replica_sessions import FETCH, FETCH_WAKE
from minikafka.broker.rpc import Identity, Peers, RpcServer
from minikafka.broker.rpc.wire import listen
from minikafka.broker.topology import Topology
from minikafka.metadata.decision import Refusal
from minikafka.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from minikafka.metadata.isr_changes import IsrMember, IsrProposal, alter_partitions
from minikafka.metadata.records import (
    BrokerChangeRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    SettingRecord,
    TopicRecord,
)
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.protocol.errors import ErrorCode
from minikafka.storage.disk import RealDisk
from minikafka.storage.log_directory import LogDirectory
from tests.broker.harness import BrokerUnderTest, WireClient

SETTINGS = ("replica.fetch.wait.max.ms=200", "group.initial.rebalance.delay.ms=0")


class Node:
    """One broker of the cluster.

    Attributes:
        broker: while it runs.
        is_deaf: it does not hear of the metadata.
        stopped: set while it does not run.
    """

    def __init__(self, cluster: ReplicatedCluster, node_id: int, data_dir: Path) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.data_dir = data_dir
        self.broker_epoch = -1
        self.is_deaf = False
        self.heard = 0
        self.address: tuple[str, int] = ("127.0.0.1", 0)
        self.broker: Broker
        self.under_test: BrokerUnderTest
        self.peers: Peers
        self._scope = trio.CancelScope()
        self.stopped = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Be a broker until `stop`."""
        self._scope = trio.CancelScope()
        self.stopped = trio.Event()
        cluster = self.cluster
        texts = [*SETTINGS, *cluster.settings, f"node.id={self.node_id}"]
        config = load_config(None, texts, {})
        directory = LogDirectory.open(
            RealDisk(), str(self.data_dir), node_id=self.node_id, new_cluster_id="cluster"
        )
        nowhere = ("", 0)
        voters = dict.fromkeys([0, self.node_id], nowhere)
        topology = Topology(self.node_id, voters, True, True, True, nowhere)
        quorum: Any = SimpleNamespace(leader_id=None, is_leader=False)
        rng = random.Random(f"{cluster.seed} {self.node_id} {self.broker_epoch}")
        store = MetadataStore("cluster")
        clock = SystemClock()
        broker = self.broker = Broker(config, topology, store, quorum, directory, clock, rng)
        broker.endpoint = Endpoint(f"broker{self.node_id}.test", 9092)
        broker.ask_controller = partial(cluster.ask, self)  # type: ignore[method-assign]  # that is the point
        broker.replicas.open_logs()
        identity = Identity(self.node_id, rng.randbytes(16), "cluster")
        addresses = {
            other.node_id: other.address for other in cluster.nodes.values() if other is not self
        }
        self.peers = Peers(identity, addresses)
        interconnect: Any = SimpleNamespace(peers=self.peers)
        broker.interconnect = interconnect
        server = RpcServer(identity)
        assert not isinstance(broker.replicas.server, NoFollowers)
        server.register_deferred(FETCH, broker.replicas.server.fetch)
        server.register_one_way(FETCH_WAKE, broker.replicas.server.fetch_wake)
        listener = await listen(*self.address)
        self.address = listener.getsockname()[:2]
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self.peers.run)
                    nursery.start_soon(server.serve, listener)
                    await nursery.start(broker.run_partitions)
                    self.under_test = BrokerUnderTest(broker, nursery)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self.under_test.hang_up()
            directory.close(clean=cluster.is_clean_stop)
            self.stopped.set()

    async def stop(self) -> None:
        """End it: a crash, or a clean stop if the cluster says so."""
        self._scope.cancel()
        await self.stopped.wait()

    async def hear(self) -> None:
        """Apply the metadata that it has not heard of yet."""
        log = self.cluster.log
        while self.heard < len(log):
            records = log[self.heard]
            self.heard += 1
            for record in records:
                self.broker.image.replay(record)
            await self.broker.replicas.apply(records)

    def connect(self) -> WireClient:
        """A client's connection."""
        return self.under_test.connect()

    def partition(self, topic: str = "t", number: int = 0) -> Partition:
        """One of its partitions."""
        return self.broker.partitions[topic, number]


class ReplicatedCluster:
    """Brokers, and the metadata that a test decides.

    Attributes:
        image: the metadata as the controller has it.
        log: every decision.
        rules: what holds for topics that have no settings of their own.
        refusal: what leaders are told that propose an ISR, None to do as they ask.
    """

    def __init__(self, nursery: trio.Nursery, tmp_path: Path, *settings: str) -> None:
        self.settings = settings
        self.seed = 1
        self.image = MetadataImage()
        self.log: list[Sequence[MetadataRecord]] = []
        self.nodes: dict[int, Node] = {}
        self.refusal: ErrorCode | None = None
        self.is_clean_stop = False
        self.rules = ReplicationRules()
        self._nursery = nursery
        self._tmp_path = tmp_path
        self._lock = trio.Lock()

    # --- nodes ---------------------------------------------------------------------------------

    async def start(self, node_id: int) -> Node:
        """Start a broker, or start it again, and put it into service."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = Node(self, node_id, self._tmp_path / str(node_id))
        await self.restart(node)
        return node

    async def restart(self, node: Node) -> None:
        """Run a node's process and register it, unfenced."""
        node.broker_epoch = self.image.next_broker_epoch
        await self.run_node(node)
        await self.decide(
            RegisterBrokerRecord(
                node.node_id,
                bytes(16),
                node.broker_epoch,
                f"broker{node.node_id}.test",
                9092,
                *node.address,
                rack=f"rack{node.node_id}",
                is_fenced=False,
            )
        )
        await node.broker.replicas.activate(node.broker_epoch)

    async def run_node(self, node: Node) -> None:
        """Run a node's process; nobody but its peers knows of it."""
        node.heard = 0
        await self._nursery.start(node.run)
        for other in self.nodes.values():
            if other is not node:
                other.peers.set_address(node.node_id, node.address)
                other.peers.kick(node.node_id)

    async def fence(self, node_id: int, *partitions: MetadataRecord) -> None:
        """Take a broker out of service, with what becomes of its partitions."""
        epoch = self.image.brokers[node_id].broker_epoch
        change = BrokerChangeRecord(node_id, epoch, is_fenced=True, is_shutting_down=False)
        await self.decide(change, *partitions)

    # --- metadata ------------------------------------------------------------------------------

    async def decide(self, *records: MetadataRecord) -> None:
        """Change the metadata; every broker that is not deaf hears of it."""
        for record in records:
            self.image.replay(record)
        self.log.append(records)
        for node in self.nodes.values():
            if not node.is_deaf and not node.stopped.is_set():
                await node.hear()

    async def create_topic(
        self, name: str, *replicas: Sequence[int], settings: dict[str, str] | None = None
    ) -> None:
        """Make a topic with one partition for each tuple of replicas; the first one leads."""
        topic_id = random.Random(f"{name} {len(self.log)}").randbytes(16)
        records: list[MetadataRecord] = [TopicRecord(name, topic_id)]
        records += [SettingRecord(2, name, key, value) for key, value in (settings or {}).items()]
        records += [
            PartitionRecord(topic_id, number, tuple(one), tuple(one), one[0], 0, 0)
            for number, one in enumerate(replicas)
        ]
        await self.decide(*records)

    def now(self, topic: str = "t", number: int = 0) -> PartitionImage:
        """A partition as the controller has it."""
        return self.image.topics[topic].partitions[number]

    def changed(self, topic: str = "t", number: int = 0, **fields: Any) -> PartitionRecord:
        """A partition's next state."""
        old = self.now(topic, number)
        is_new_epoch = "leader" in fields and "leader_epoch" not in fields
        new = old._replace(
            partition_epoch=old.partition_epoch + 1,
            leader_epoch=old.leader_epoch + is_new_epoch,
            **{key: value for key, value in fields.items() if key != "leader_epoch"},
        )
        return PartitionRecord(self.image.topics[topic].topic_id, *new)

    async def lead(self, node_id: int, isr: Sequence[int], topic: str = "t") -> None:
        """Make a broker leader, with an ISR."""
        await self.decide(self.changed(topic, leader=node_id, in_sync_replicas=tuple(isr)))

    async def ask(
        self, node: Node, operation: str, fields: Any, *, timeout_s: float
    ) -> tuple[ErrorCode, Any]:
        """What leaders ask the controller."""
        assert operation == "alter-partitions"
        del timeout_s
        if self.refusal is not None:
            return self.refusal, None
        broker_id, broker_epoch, proposals = fields
        assert broker_id == node.node_id
        wanted = [
            IsrProposal(
                one[0], one[1], one[2], one[3], tuple(IsrMember(*item) for item in one[4]), one[5]
            )
            for one in proposals
        ]
        async with self._lock:
            decision = alter_partitions(self.image, broker_id, broker_epoch, wanted, self.rules)
            if isinstance(decision.result, Refusal):
                return decision.result.error_code, decision.result.message
            if decision.records:
                await self.decide(*decision.records)
        return ErrorCode.NONE, [
            (
                one.topic_id,
                one.partition,
                int(one.result.error_code) if isinstance(one.result, Refusal) else 0,
                None,
            )
            for one in decision.result
        ]


@asynccontextmanager
async def replicated(
    tmp_path: Path, nodes: int, *settings: str
) -> AsyncGenerator[ReplicatedCluster]:
    """Brokers 1 to ``nodes``."""
    async with trio.open_nursery() as nursery:
        cluster = ReplicatedCluster(nursery, tmp_path, *settings)
        for node_id in range(1, nodes + 1):
            await cluster.start(node_id)
        try:
            yield cluster
        finally:
            nursery.cancel_scope.cancel()


async def until(condition: Any) -> None:
    """Wait until something holds; the test's time limit is the only other end."""
    while not condition():
        with trio.move_on_after(0.001):  # others may be busy all the time
            await trio.sleep_forever()


__all__ = ["NO_LEADER", "Node", "ReplicatedCluster", "replicated", "until"]
