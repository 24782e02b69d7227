"""Brokers with real logs and real connections, under a controller made of plain calls.

The metadata is whatever a test decides, and every broker applies it when the test says so. That is
how tests provoke races between the metadata log and replica fetch. (For whole nodes, with their
quorum, see `tests.kit.in_process`.)
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from minikafka.broker import lifetime
from minikafka.broker.broker import Broker
from minikafka.broker.control.metadata_store import MetadataStore
from minikafka.broker.quorum.change_error import ChangeError
from minikafka.broker.quorum.quorum import Quorum
from minikafka.broker.replicas.partition import Partition
from minikafka.broker.rpc import operations
from minikafka.broker.rpc.peers import Peers
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.node import Endpoint
from minikafka.broker.settings.topology import Topology
from minikafka.broker.system.clock import SystemClock
from minikafka.consensus.config import QuorumConfig
from minikafka.metadata.alter_partition import IsrProposal, alter_partitions
from minikafka.metadata.decision import Refusal
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import (
    NO_LEADER,
    BrokerChangeRecord,
    BrokerRecord,
    MetadataRecord,
    PartitionRecord,
    SettingRecord,
    TopicRecord,
)
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import IsrMember
from minikafka.storage.disk import RealDisk
from minikafka.storage.log_directory import LogDirectory
from tests.kit.in_process import BrokerUnderTest
from tests.kit.wire import WireClient

SETTINGS = ("replica.fetch.wait.max.ms=200", "group.initial.rebalance.delay.ms=0")


CONTROLLER = 0


class Node:
    """One broker of the cluster.

    Attributes:
        broker: while it runs.
        gets_no_metadata: new decisions wait for `catch_up`.
        stopped: set while it does not run.
    """

    def __init__(self, cluster: ReplicatedCluster, node_id: int, data_dir: Path) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.data_dir = data_dir
        self.broker_epoch = -1
        self.gets_no_metadata = False
        self.applied = 0
        self.address: tuple[str, int] = ("127.0.0.1", 0)
        self.broker: Broker
        self.under_test: BrokerUnderTest
        self.peers: Peers
        self._scope = trio.CancelScope()
        self.stopped = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the broker until `stop`."""
        self._scope = trio.CancelScope()
        self.stopped = trio.Event()
        cluster = self.cluster
        texts = [*SETTINGS, *cluster.settings, f"node.id={self.node_id}"]
        config = load_config(None, texts, {})
        disk, path = RealDisk(), str(self.data_dir)
        directory = LogDirectory.open(disk, path, node_id=self.node_id, new_cluster_id="cluster")
        # Node 0 would be the controller; neither it nor this node's quorum ever runs.
        voters = {CONTROLLER: ("", 0)}
        topology = Topology(self.node_id, voters, True, False, True, self.address)
        rng = random.Random(f"{cluster.seed} {self.node_id} {self.broker_epoch}")
        quorum = Quorum.open(
            disk,
            path,
            QuorumConfig(self.node_id, frozenset(voters)),
            dice=rng.uniform,
            new_directory_id=partial(rng.randbytes, 16),
            sync=False,
        )
        store = MetadataStore("cluster")
        clock = SystemClock()
        broker = self.broker = Broker(config, topology, store, quorum, directory, clock, rng)
        broker.node.endpoint = Endpoint(f"broker{self.node_id}.test", 9092)
        forwarder: Any = broker.forwarder
        forwarder.ask = partial(cluster.ask, self)  # stands in for the controller
        broker.replicas.open_logs()
        interconnect = broker.interconnect
        assert interconnect is not None
        self.peers = interconnect.peers
        for other in cluster.nodes.values():
            if other is not self:
                self.peers.set_address(other.node_id, other.address)
        self.address = await interconnect.listen()
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(interconnect.run)
                    await nursery.start(lifetime.run_partitions, broker)
                    self.under_test = BrokerUnderTest(broker, nursery)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self.under_test.hang_up()
            lifetime.close(broker, float("inf") if cluster.is_clean_stop else 0)
            self.stopped.set()

    async def stop(self) -> None:
        """End it: a crash, or a clean stop if the cluster says so."""
        self._scope.cancel()
        await self.stopped.wait()

    async def catch_up(self) -> None:
        """Apply the decisions that it has not applied yet."""
        log = self.cluster.log
        while self.applied < len(log):
            records = log[self.applied]
            self.applied += 1
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
        refusal: the answer to leaders that propose an ISR, None to accept proposals.
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
        """Start a broker for the first time, or again, and put it into service."""
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
            BrokerRecord(
                node.node_id,
                node.broker.node.incarnation,
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
        """Run a node's process; only its peers know of it."""
        node.applied = 0
        await self._nursery.start(node.run)
        for other in self.nodes.values():
            if other is not node:
                other.peers.set_address(node.node_id, node.address)
                other.peers.kick(node.node_id)

    async def fence(self, node_id: int, *partitions: MetadataRecord) -> None:
        """Take a broker out of service; ``partitions`` are what changes with it."""
        epoch = self.image.brokers[node_id].broker_epoch
        change = BrokerChangeRecord(node_id, epoch, is_fenced=True, is_shutting_down=False)
        await self.decide(change, *partitions)

    # --- metadata ------------------------------------------------------------------------------

    async def decide(self, *records: MetadataRecord) -> None:
        """Change the metadata; every broker applies it, except those with `gets_no_metadata`."""
        for record in records:
            self.image.replay(record)
        self.log.append(records)
        for node in self.nodes.values():
            if not node.gets_no_metadata and not node.stopped.is_set():
                await node.catch_up()

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

    def now(self, topic: str = "t", number: int = 0) -> PartitionRecord:
        """A partition as the controller has it."""
        return self.image.topics[topic].partitions[number]

    def changed(self, topic: str = "t", number: int = 0, **fields: Any) -> PartitionRecord:
        """A partition's next state."""
        old = self.now(topic, number)
        is_new_epoch = "leader" in fields and "leader_epoch" not in fields
        return old._replace(
            partition_epoch=old.partition_epoch + 1,
            leader_epoch=old.leader_epoch + is_new_epoch,
            **{key: value for key, value in fields.items() if key != "leader_epoch"},
        )

    async def lead(self, node_id: int, isr: Sequence[int], topic: str = "t") -> None:
        """Make a broker leader, with an ISR."""
        await self.decide(self.changed(topic, leader=node_id, in_sync_replicas=tuple(isr)))

    async def ask(
        self,
        node: Node,
        operation: object,
        request: operations.AlterPartitions,
        *,
        timeout_s: float,
    ) -> operations.AlterPartitionsResult:
        """Answer a leader that asks the controller."""
        assert operation is operations.ALTER_PARTITIONS
        del timeout_s
        if self.refusal is not None:
            raise ChangeError(self.refusal, "refused by the test")
        broker_id, broker_epoch, proposals = request
        assert broker_id == node.node_id
        wanted = [
            IsrProposal(
                one.topic_id,
                one.partition,
                one.leader_epoch,
                one.partition_epoch,
                tuple(IsrMember(*replica) for replica in one.in_sync_replicas),
                one.leader,
            )
            for one in proposals
        ]
        async with self._lock:
            decision = alter_partitions(self.image, broker_id, broker_epoch, wanted, self.rules)
            if isinstance(decision.result, Refusal):
                raise ChangeError(*decision.result)
            if decision.records:
                await self.decide(*decision.records)
        return operations.AlterPartitionsResult(
            tuple(
                operations.AlteredPartition(
                    one.topic_id,
                    one.partition,
                    one.result.error_code if isinstance(one.result, Refusal) else ErrorCode.NONE,
                    None,
                )
                for one in decision.result
            )
        )


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
    """Wait until a condition holds; only the test's time limit ends the wait otherwise."""
    while not condition():
        with trio.move_on_after(0.001):  # other tasks may always be busy
            await trio.sleep_forever()


__all__ = ["NO_LEADER", "Node", "ReplicatedCluster", "replicated", "until"]
