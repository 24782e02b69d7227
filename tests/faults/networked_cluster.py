"""A cluster whose brokers live in network namespaces; `minikafka serve` for each of them."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from minikafka.cli.cluster_files import Cluster, Node, NodeState
from tests.faults.network import Network
from tests.live_broker import LiveBroker
from tests.live_cluster import BUG_MARKS, LOG_SHOWN_CHARACTERS

_PORT = 9092
_INTERNAL_PORT = 19092


class NetworkedCluster:
    """Three brokers, each behind a link of `network`; it has what a nemesis needs.

    Args:
        directory: gets everything.
        network: where they live.
        settings: Kafka's names and values, for all of them.
    """

    def __init__(self, directory: Path, network: Network, settings: dict[str, str]) -> None:
        voters = ",".join(f"{n}@{network.address(n)}:{_INTERNAL_PORT}" for n in (1, 2, 3))
        quick = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
        }
        self._brokers: dict[int, LiveBroker] = {}
        for node_id in (1, 2, 3):
            broker = LiveBroker(
                directory / f"node-{node_id}",
                {**quick, **settings},
                ["--node-id", str(node_id), "--quorum", voters],
                network.launcher(node_id),
            )
            broker.bootstrap = f"{network.address(node_id)}:{_PORT}"
            self._brokers[node_id] = broker
        self.bootstrap = ",".join(broker.bootstrap for broker in self._brokers.values())

    def start(self) -> None:
        """Start all; one alone never becomes ready, for it has no majority."""
        for broker in self._brokers.values():
            broker.launch()
        for broker in self._brokers.values():
            broker.wait_until_ready()

    def stop(self) -> None:
        """SIGTERM to all that run, then wait for them."""
        running = [broker for broker in self._brokers.values() if broker.is_running]
        for broker in running:
            broker.process.send_signal(signal.SIGTERM)
        for broker in running:
            broker.wait()

    def cluster(self) -> Cluster:
        """The nodes, as `cluster.json` would have them."""
        nodes = [
            Node(
                node_id,
                broker.bootstrap,
                "",
                broker.process.pid if broker.is_running else None,
                NodeState.RUNNING if broker.is_running else NodeState.STOPPED,
            )
            for node_id, broker in self._brokers.items()
        ]
        return Cluster(nodes, [1, 2, 3])

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self._brokers[node_id].kill()

    def start_node(self, node_id: int) -> None:
        """Start a dead node and wait until it serves."""
        self._brokers[node_id].start()

    def log_end(self, node_id: int) -> str:
        """The last part of a node's log."""
        return self._brokers[node_id].log[-LOG_SHOWN_CHARACTERS:]

    def check_logs(self) -> None:
        """Fail if a node's log shows a bug."""
        for node_id, broker in self._brokers.items():
            found = [mark for mark in BUG_MARKS if mark in broker.log]
            assert not found, f"node {node_id}'s log shows {found}:\n{broker.log[-20_000:]}"


@contextmanager
def networked_cluster(
    directory: Path, network: Network, settings: dict[str, str]
) -> Generator[NetworkedCluster]:
    """One for a block."""
    cluster = NetworkedCluster(directory, network, settings)
    try:
        cluster.start()
        yield cluster
    except BaseException as error:
        for node_id in (1, 2, 3):
            error.add_note(f"node {node_id}'s log ends with:\n{cluster.log_end(node_id)}")
        raise
    finally:
        network.heal()
        cluster.stop()
