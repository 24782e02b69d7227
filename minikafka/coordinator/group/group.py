"""What all kinds of groups have in common: one namespace of ids, offsets, and an end.

A group id belongs to one group of one type at a time. `ShardContext.groups` has them all; a request
looks its group up and checks the type, because a group of another type is as good as none to it::

    request                         a group of another type gives
    JoinGroup                       INCONSISTENT_GROUP_PROTOCOL
    SyncGroup, Heartbeat, Leave     UNKNOWN_MEMBER_ID
    ConsumerGroupHeartbeat,
    ShareGroupHeartbeat,
    StreamsGroupHeartbeat           GROUP_ID_NOT_FOUND
    DescribeGroups and the other
    describing requests             GROUP_ID_NOT_FOUND
    DeleteGroups, OffsetDelete      the type does not matter: the group is asked

Classic and consumer groups turn into each other (KIP-848, `group.consumer.migration.policy`),
classic and streams groups only while they have no members; share groups never turn into anything
else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple

from minikafka.protocol.errors import ErrorCode

from .records import CommittedOffset, Entry


class GroupType(Enum):
    """The type of a group, as ListGroups names it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committer(NamedTuple):
    """Who commits or fetches offsets, as the request says."""

    member_id: str
    group_instance_id: str | None
    epoch: int
    """Its generation in a classic group, its member epoch in another; -1 if it is no member."""


CommittedPartitions = Callable[[], Iterable[tuple[str, int]]]
"""Gives topics and indexes of the partitions of a commit; called if the answer depends on them."""


class Group(ABC):
    """The state of one group.

    Attributes:
        group_id: unique among the groups of all types.
    """

    TYPE: ClassVar[GroupType]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    # --- how it is shown -------------------------------------------------------------------

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Its state in the words of DescribeGroups and ListGroups."""

    @property
    @abstractmethod
    def protocol_type_name(self) -> str:
        """The protocol type that ListGroups shows; empty if it has none."""

    # --- offsets ---------------------------------------------------------------------------

    @abstractmethod
    def check_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        """Whether OffsetCommit may store offsets.

        Args:
            by: who commits.
            api_version: of that request.
            partitions: gives those whose offsets it commits.
        """

    @abstractmethod
    def check_transactional_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        """Whether TxnOffsetCommit may; unlike a plain commit it completes earlier work."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether OffsetFetch may read offsets."""

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode:
        """Whether OffsetDelete may delete offsets of topics that no member reads."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic; assumed if that is unknown."""

    @abstractmethod
    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        """When an offset of a topic that no member reads was last in use; None: still is."""

    # --- its end ---------------------------------------------------------------------------

    @abstractmethod
    def check_delete(self) -> ErrorCode:
        """Whether DeleteGroups may delete it."""

    @property
    @abstractmethod
    def is_unused(self) -> bool:
        """Nothing keeps it but its offsets: it expires with the last of them."""

    @abstractmethod
    def tombstones(self) -> Sequence[Entry]:
        """What removes the group (not its offsets) from the log."""

    @abstractmethod
    def discard(self) -> None:
        """The shard has forgotten this group: it takes no memory."""
