"""The partitions of a broker by name: who is here, who leads, who is offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..metadata.image import NO_LEADER
from ..protocol.errors import ErrorCode
from .partition import Partition, PartitionError
from .shard_runtime import ShardRuntime
from .topic_state import TopicState

if TYPE_CHECKING:
    from .broker import Broker

PartitionKey = tuple[str, int]


class PartitionTable:
    """Looks partitions up.

    Attributes:
        partitions: by (topic, number).
        topics: state shared by the partitions of a topic, by name.
        node_id: this broker.
    """

    def __init__(self, broker: Broker) -> None:
        self.topics: dict[str, TopicState] = {}
        self.partitions: dict[PartitionKey, Partition] = {}
        self.node_id = broker.config.node_id
        self._broker = broker
        self._directory = broker.directory
        self._unmade: set[PartitionKey] = set()
        self._recovered: dict[PartitionKey, int] = {}
        """Logs that failed and were recovered, and in which leader epoch that was."""

    def find(self, topic: str, number: int, leader_epoch: int = -1) -> Partition:
        """The partition that a client names, of which this broker must be the leader.

        Raises:
            PartitionError: it does not exist, is offline, is not led here, or the client's epoch is
                not ours.
        """
        partition = self.partitions.get((topic, number))
        if partition is None or not partition.is_leader or partition.log.is_offline is not None:
            self.find_replica(topic, number, leader_epoch)
            image = self._broker.image.topics[topic].partitions[number]
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.node_id} does not lead {topic}-{number}"
                + (f"; broker {image.leader} does" if image.leader != NO_LEADER else ""),
            )
        if leader_epoch != -1:
            partition.check_leader_epoch(leader_epoch)
        return partition

    def find_replica(self, topic: str, number: int, leader_epoch: int = -1) -> Partition:
        """The partition that a client names, whether this broker leads or follows.

        Raises:
            PartitionError: it does not exist, is offline, has no replica here, or the client's
                epoch is not ours.
        """
        partition = self.partitions.get((topic, number))
        image = self._broker.image.topics.get(topic)
        if image is None or not 0 <= number < len(image.partitions):
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition is None:
            if self.is_offline(topic, number):
                raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, "the partition is offline")
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{number} is not here, or not yet"
            )
        failure = partition.log.is_offline
        if failure is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
        if leader_epoch != -1:
            partition.check_leader_epoch(leader_epoch)
        return partition

    def find_readable(self, topic: str, number: int, leader_epoch: int = -1) -> Partition:
        """The partition that a consumer reads: led here, or followed (KIP-392).

        Raises:
            PartitionError: see `find_replica`.
        """
        partition = self.partitions.get((topic, number))
        if partition is None or not partition.is_leader or partition.log.is_offline is not None:
            return self.find_replica(topic, number, leader_epoch)
        if leader_epoch != -1:
            partition.check_leader_epoch(leader_epoch)
        return partition

    def by_id(self, topic_id: bytes, number: int) -> Partition | None:
        """A partition here by topic id."""
        topic = self._broker.image.topics_by_id.get(topic_id)
        partition = None if topic is None else self.partitions.get((topic.name, number))
        return partition if partition is None or partition.topic.topic_id == topic_id else None

    def partitions_of(self, name: str) -> list[Partition]:
        """The open partitions of a topic, in order."""
        topic = self._broker.image.topics.get(name)
        if topic is None:
            return []
        found = (self.partitions.get((name, one.partition)) for one in topic.partitions)
        return [partition for partition in found if partition is not None]

    def is_offline(self, topic: str, number: int) -> bool:
        """True when the disk under a partition failed, or the partition could not be opened."""
        key = (topic, number)
        log = self._directory.logs.get(key)
        if log is not None:
            return log.is_offline is not None
        return key in self._unmade or key in self._directory.offline

    def unusable(self) -> set[PartitionKey]:
        """Partitions whose log failed, could not be made, or must not lead as it is."""
        directory = self._directory
        failed = {key for key, log in directory.logs.items() if log.is_offline is not None}
        return failed | self._unmade | directory.offline.keys() | self._recovered.keys()

    def _topic_id_for(self, name: str, number: int) -> bytes | None:
        topic = self._broker.image.topics.get(name)
        return topic.topic_id if topic is not None and number < len(topic.partitions) else None

    def _coordinator_in(self, topic: str) -> ShardRuntime[Any] | None:
        """The coordinator that keeps its state in a topic."""
        broker = self._broker
        for runtime in (broker.groups.runtime, broker.transactions.runtime):
            if runtime.topic.name == topic:
                return runtime
        return None
