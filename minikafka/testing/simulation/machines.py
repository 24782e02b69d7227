"""The machines of a cluster: each has a broker, which starts, is killed, and starts again."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Sequence
from typing import Final

import trio

from ...protocol.records import Record, decode_records, iter_batches
from ...storage.log import Log
from .network import Network, Note
from .node import INTERNAL_PORT, SimulatedNode, host_of

NODES: Final = 3
VOTERS: Final = ",".join(f"{one}@{host_of(one)}:{INTERNAL_PORT}" for one in range(1, NODES + 1))
SESSION_SECONDS: Final = 3
ELECTION_SECONDS: Final = 1
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


class Machines:
    """Three machines, and the network between them.

    Attributes:
        network: connects them, and clients.
        nodes: the machines, in the order of their numbers.
    """

    def __init__(self, seed: int, note: Note, settings: Sequence[str] = SETTINGS) -> None:
        self.network = Network(random.Random(f"network {seed}"))
        self.nodes = [SimulatedNode(one, seed, self.network, note) for one in range(1, NODES + 1)]
        self._note = note
        self._settings = settings
        self._nursery: trio.Nursery

    def start_all(self, nursery: trio.Nursery) -> None:
        """Let all processes begin, now and later, in this nursery."""
        self._nursery = nursery
        for node in self.nodes:
            self.start(node)

    def start(self, node: SimulatedNode) -> None:
        """The machine has power, and its process begins."""
        self._note(f"start {node.host}")
        node.is_running = True
        node.power_up()
        self._nursery.start_soon(node.run, self._settings)

    async def kill(self, node: SimulatedNode, *, power_loss: bool) -> None:
        """End a process, or its machine's power."""
        self._note(f"{'power loss' if power_loss else 'kill'} of {node.host}")
        await node.kill(power_loss=power_loss)

    def start_missing(self) -> None:
        """Start every process that does not run."""
        for node in self.nodes:
            if not node.is_running:
                self.start(node)

    # --- what the brokers know -------------------------------------------------------------------

    def are_all_in_sync(self) -> bool:
        """All brokers are up, and all of them say that all replicas are in sync."""
        return all(
            node.is_serving
            and len(node.live()) == NODES
            and all(
                len(partition.in_sync_replicas) == len(partition.replicas)
                for topic in node.broker.image.topics.values()
                for partition in topic.partitions
            )
            for node in self.nodes
        )

    def counts_as_in_sync(self, node: SimulatedNode) -> bool:
        """Some other broker that runs counts this one's replicas as in sync."""
        return any(
            node.node_id in partition.in_sync_replicas
            for other in self.nodes
            if other.is_serving and other is not node
            for topic in other.broker.image.topics.values()
            for partition in topic.partitions
        )

    def logs(self) -> Generator[tuple[str, list[Log]]]:
        """For each partition its name and its replicas; while all brokers serve."""
        image = self.nodes[0].broker.image
        for name, topic in image.topics.items():
            for number, partition in enumerate(topic.partitions):
                logs = [
                    node.broker.partitions[name, number].log
                    for node in self.nodes
                    if node.node_id in partition.replicas
                ]
                yield f"{name}-{number}", logs

    def are_equally_long(self) -> bool:
        """All replicas have everything, and know that it is committed."""
        return all(
            len({one.log_end_offset for one in logs} | {one.high_watermark for one in logs}) == 1
            for _, logs in self.logs()
        )


def content_of(log: Log) -> bytes:
    """All batches of a log."""
    content = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, size_bytes_max=10**6, upper_bound_offset=log.log_end_offset)
        assert found.records is not None
        content += found.records.read()
        offset = found.next_offset
    return content


def records_in(content: bytes) -> Iterable[Record]:
    """All records of some batches."""
    for position, _ in iter_batches(content):
        yield from decode_records(content, position)
