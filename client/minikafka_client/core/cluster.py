"""The metadata cache: brokers, topics, and the leaders of partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import metadata
from minikafka_client.log_events import LogEvent
from minikafka_client.types import BrokerDescription, TopicPartition

logger = logging.getLogger(__name__)

ANY_BROKER: Final = -1
"""Instead of a node id: any broker that answers."""

CONTROLLER: Final = -2
"""Instead of a node id: the broker that the metadata names as controller."""

NO_LEADER: Final = -1

FINAL_TOPIC_ERRORS: Final = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors of a topic in metadata that do not pass with time."""

DEFAULT_PORT: Final = 9092

Address = tuple[str, int]


class PartitionMetadata(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """Metadata of a topic; ``error_code`` says why there is none."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    error_code: int = 0


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[Address, ...]:
    """Read ``"host:port,[::1]:9092,host"`` or a sequence of such; the port may be missing (9092).

    Raises:
        ValueError: an address is empty, or a port is not a number from 1 to 65535.
    """
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    addresses = tuple(_parse_address(text.strip()) for text in texts)
    if not addresses:
        raise ValueError("no bootstrap server; give at least one as 'host:port'")
    return addresses


def _parse_address(text: str) -> Address:
    host, colon, port_text = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port_text = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"bootstrap server {text!r}: write an IPv6 address as '[::1]:9092'")
    if not host or not port_text.isdecimal() or not 0 < int(port_text) < 65536:
        raise ValueError(f"bootstrap server {text!r} is not 'host:port'")
    return host, int(port_text)


class Cluster:
    """The cached metadata.

    Attributes:
        bootstrap: the addresses to start with, and to return to when no broker answers.
        topics: every topic that was asked about, its errors included.
        update_count: how many responses were processed; it shows whether anything changed.
        updated_at: `now` of the last one.
    """

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self.bootstrap = tuple(bootstrap)
        self.brokers: dict[int, BrokerDescription] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.topics: dict[str, TopicMetadata] = {}
        self.names_by_id: dict[bytes, str] = {}
        self.update_count = 0
        self.updated_at = float("-inf")

    def update(self, response: metadata.Response, now: float, *, is_complete: bool = False) -> None:
        """Process a response; ``is_complete``: it covers all topics, so others do not exist."""
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            # These brokers are another cluster's now (KIP-1102): back to the bootstrap servers.
            self.brokers = {}
            self.controller_id = -1
            return
        if response.brokers:
            self.brokers = {
                broker.node_id: BrokerDescription(
                    broker.node_id, broker.host, broker.port, broker.rack
                )
                for broker in response.brokers
            }
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        fresh = {topic.name: self._merged(topic) for topic in response.topics if topic.name}
        if is_complete:
            self.forget(self.topics.keys() - fresh.keys())
        for name, topic in fresh.items():
            before = self.topics.get(name)
            # Replaced in one step: another thread may be reading.
            self.topics[name] = topic
            if before is not None and before.topic_id != topic.topic_id:
                self.names_by_id.pop(before.topic_id, None)
            if topic.topic_id != ZERO_UUID:
                self.names_by_id[topic.topic_id] = name
        self.update_count += 1
        self.updated_at = now

    def forget(self, names: Iterable[str]) -> None:
        for name in list(names):
            topic = self.topics.pop(name, None)
            if topic is not None:
                self.names_by_id.pop(topic.topic_id, None)

    def _merged(self, topic: metadata.ResponseTopic) -> TopicMetadata:
        assert topic.name is not None
        before = self.topics.get(topic.name)
        same = before is not None and before.topic_id == topic.topic_id
        partitions: dict[int, PartitionMetadata] = {}
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            known = before.partitions.get(partition.partition_index) if before and same else None
            fresh = partitions[partition.partition_index] = _newer(known, partition)
            if known is not None and known.leader != fresh.leader:
                index = partition.partition_index
                _log_leader(topic.name, index, fresh.leader, fresh.leader_epoch)
        return TopicMetadata(
            topic.name, topic.topic_id, topic.is_internal, partitions, topic.error_code
        )

    def learn_broker(self, broker: BrokerDescription) -> None:
        """Note where a broker listens that a response named (a coordinator, a new leader)."""
        if broker.node_id >= 0:
            self.brokers[broker.node_id] = broker

    def lead_moved(self, partition: TopicPartition, leader: int, leader_epoch: int) -> bool:
        """Take a partition's new leader from a response (KIP-951); False if it is not newer."""
        topic = self.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic else None
        if topic is None or known is None or leader_epoch <= known.leader_epoch:
            return False
        if leader not in self.brokers:
            return False
        topic.partitions[partition.partition] = known._replace(
            leader=leader, leader_epoch=leader_epoch
        )
        _log_leader(partition.topic, partition.partition, leader, leader_epoch)
        return True

    def resolve(self, node: int) -> int:
        """A node id for `CONTROLLER` (any broker will do while it is unknown); others as given."""
        if node != CONTROLLER:
            return node
        return self.controller_id if self.controller_id in self.brokers else ANY_BROKER

    def leader(self, topic: str, partition: int) -> int:
        """`NO_LEADER` too when its broker is not known."""
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known else None
        return found.leader if found is not None and found.leader in self.brokers else NO_LEADER

    def leader_epoch(self, topic: str, partition: int) -> int:
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known else None
        return -1 if found is None else found.leader_epoch

    def partition_count(self, topic: str) -> int:
        known = self.topics.get(topic)
        return len(known.partitions) if known is not None else 0


def _log_leader(topic: str, partition: int, leader: int, leader_epoch: int) -> None:
    logger.info(
        "partition %d of topic %r has %s in epoch %d",
        partition,
        topic,
        "no leader" if leader == NO_LEADER else f"leader {leader}",
        leader_epoch,
        extra=LogEvent.LEADER_CHANGED.about(
            topic=topic, partition=partition, leader=leader, leader_epoch=leader_epoch
        ),
    )


def _newer(known: PartitionMetadata | None, partition: metadata.Partition) -> PartitionMetadata:
    """A broker that lags behind may report an older leader epoch: keep the newer (KIP-320)."""
    if known is not None and 0 <= partition.leader_epoch < known.leader_epoch:
        return known
    has_leader = partition.error_code != ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionMetadata(
        partition.leader_id if has_leader else NO_LEADER,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
    )
