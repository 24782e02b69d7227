"""The partitions that this broker has, by topic name or topic id.

Everything that needs a partition finds it here; only `ReplicaManager` adds and removes them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...metadata.records import NO_LEADER
from ...protocol.errors import ErrorCode
from ...storage.log_directory import LogDirectory
from ..settings.effective import MetadataView
from ..settings.node import Node
from .partition import Partition, PartitionError
from .topic_state import TopicState

PartitionKey = tuple[str, int]


class PartitionIndex:
    """This broker's partitions and what is known about those that it cannot open.

    Attributes:
        partitions: by (topic, number).
        topics: state shared by the partitions of a topic, by name.
        unmade: partitions whose log could not be created yet.
        recovered: partitions whose log failed and was recovered, and in which leader epoch.
        is_cut_off: whether this broker must not serve clients as a leader, see `Lifecycle`.
    """

    def __init__(self, node: Node, metadata: MetadataView, directory: LogDirectory) -> None:
        self.topics: dict[str, TopicState] = {}
        self.partitions: dict[PartitionKey, Partition] = {}
        self.unmade: set[PartitionKey] = set()
        self.recovered: dict[PartitionKey, int] = {}
        self.is_cut_off: Callable[[], bool] = bool
        self._node_id = node.node_id
        self._metadata = metadata
        self._directory = directory

    def find(self, topic: str, number: int, leader_epoch: int = -1) -> Partition:
        """The partition that a client names, which this broker must lead.

        Raises:
            PartitionError: it does not exist, is offline, is not led here, or the client's epoch is
                not ours.
        """
        partition = self.partitions.get((topic, number))
        if partition is None or not partition.is_leader or partition.log.is_offline is not None:
            self.find_replica(topic, number, leader_epoch)
            image = self._metadata.image.topics[topic].partitions[number]
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self._node_id} does not lead {topic}-{number}"
                + (f"; broker {image.leader} does" if image.leader != NO_LEADER else ""),
            )
        if leader_epoch != -1:
            partition.check_leader_epoch(leader_epoch)
        return partition

    def find_for_client(self, topic: str, number: int, leader_epoch: int = -1) -> Partition:
        """As `find`, but not while others may have been made leaders.

        Raises:
            PartitionError: see `find`; or no controller has confirmed this broker for too long.
        """
        partition = self.find(topic, number, leader_epoch)
        if self.is_cut_off():
            raise self._cut_off(topic, number)
        return partition

    def _cut_off(self, topic: str, number: int) -> PartitionError:
        return PartitionError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self._node_id} has not heard from a controller for longer than "
            f"broker.session.timeout.ms, so another broker may lead {topic}-{number}",
        )

    def find_replica(self, topic: str, number: int, leader_epoch: int = -1) -> Partition:
        """The partition that a client names, led or followed here.

        Raises:
            PartitionError: it does not exist, is offline, has no replica here, or the client's
                epoch is not ours.
        """
        partition = self.partitions.get((topic, number))
        image = self._metadata.image.topics.get(topic)
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
        """The partition that a consumer reads, from the leader or a follower (KIP-392).

        Raises:
            PartitionError: see `find_replica`.
        """
        partition = self.partitions.get((topic, number))
        if partition is None or not partition.is_leader or partition.log.is_offline is not None:
            return self.find_replica(topic, number, leader_epoch)
        if leader_epoch != -1:
            partition.check_leader_epoch(leader_epoch)
        if self.is_cut_off():  # a consumer would wait here for records that others have
            raise self._cut_off(topic, number)
        return partition

    def topic_name(self, name: str, topic_id: bytes, by_id: bool) -> str:
        """The topic that a request names, or (in newer versions) identifies.

        Raises:
            PartitionError: UNKNOWN_TOPIC_ID for an id that no topic has.
        """
        if not by_id:
            return name
        topic = self._metadata.image.topics_by_id.get(topic_id)
        if topic is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

    def by_id(self, topic_id: bytes, number: int) -> Partition | None:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        partition = None if topic is None else self.partitions.get((topic.name, number))
        return partition if partition is None or partition.topic.topic_id == topic_id else None

    def partitions_of(self, name: str) -> list[Partition]:
        """The open partitions of a topic, in order."""
        topic = self._metadata.image.topics.get(name)
        if topic is None:
            return []
        found = (self.partitions.get((name, one.partition)) for one in topic.partitions)
        return [partition for partition in found if partition is not None]

    def keys_of(self, names: set[str]) -> list[PartitionKey]:
        """Every partition of some topics of which anything is here: open, offline or unmade."""
        known = {**self.partitions, **self._directory.topic_ids, **dict.fromkeys(self.unmade)}
        return [key for key in known if key[0] in names]

    def is_offline(self, topic: str, number: int) -> bool:
        """True when the disk under a partition failed, or the partition could not be opened."""
        key = (topic, number)
        log = self._directory.logs.get(key)
        if log is not None:
            return log.is_offline is not None
        return key in self.unmade or key in self._directory.offline

    def unusable(self) -> set[PartitionKey]:
        """Partitions whose log failed, could not be made, or must not lead as it is."""
        directory = self._directory
        failed = {key for key, log in directory.logs.items() if log.is_offline is not None}
        return failed | self.unmade | directory.offline.keys() | self.recovered.keys()
