"""A share group: members that read the same partitions, each record by one of them (KIP-932).

============  ====================  ================================================================
state         means                 leaves it
============  ====================  ================================================================
Empty         no members            a member joins ──► Stable; DeleteGroups ──► gone
Stable        members               the last one leaves, or its session ends ──► Empty
============  ====================  ================================================================

Three numbers tell old from new. The *group epoch* grows when members, their subscriptions or their
topics change; the *assignment epoch* is the group epoch that the target assignment was computed
for, in the same write; a *member's epoch* is the assignment epoch of what it has, and it gets
there with its next heartbeat. Nobody has to give partitions up first, because members share them:
the leader of a partition sees to it that each record goes to one of them
(`minikafka.coordinator.share`).

A partition is assigned once its share state is *initialised*: then leaders may read and write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import ClassVar, NamedTuple

from minikafka.protocol.errors import ErrorCode

from ..group import CommittedPartitions, Committer, Group, GroupType
from ..records import CommittedOffset, Entry
from ..topics import Topic, Topics
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    MemberEntry,
    Partitions,
    StateEntry,
    TargetEntry,
    TargetMemberEntry,
)

NOTHING: Partitions = {}


class ShareMember(NamedTuple):
    """A member as it is stored."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = NOTHING


class ShareGroup(Group):
    """One share group.

    Attributes:
        epoch: the group epoch.
        metadata_hash: of the topics and the share state that ``epoch`` is about.
        assignment_epoch: the group epoch of ``targets``.
        members: by member id.
        targets: what each member is to have.
        initialized: the partitions whose share state exists, and their topics' names.
        initializing: those for which that was asked for; forgotten with the coordinator.
    """

    TYPE: ClassVar[GroupType] = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.initialized: dict[bytes, tuple[str, frozenset[int]]] = {}
        self.initializing: set[tuple[bytes, int]] = set()

    # --- what all groups have --------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def protocol_type_name(self) -> str:
        return "share"

    def check_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        """Its offsets are in the share state."""
        del by, api_version, partitions
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        del by, api_version, partitions
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        del member_id, member_epoch
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        del committed
        return None

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def is_unused(self) -> bool:
        return False  # as in Kafka it stays until somebody deletes it

    def tombstones(self) -> Sequence[Entry]:
        group_id = self.group_id
        entries: list[Entry] = []
        for member_id in self.members:
            entries += member_tombstones(group_id, member_id)
        return [
            *entries,
            TargetEntry(group_id, None),
            StateEntry(group_id, None),
            GroupEpochEntry(group_id, None),
        ]

    def discard(self) -> None:
        """It takes no memory of the kind that is accounted for."""

    # --- its topics ------------------------------------------------------------------------

    def subscribed(self, members: Mapping[str, ShareMember], topics: Topics) -> list[Topic]:
        """The topics that exist and that one of these members reads, by name."""
        names = {name for member in members.values() for name in member.topics}
        found = (topics.by_name(name) for name in sorted(names))
        return [topic for topic in found if topic is not None]

    def uninitialized(self, topic: Topic) -> frozenset[int]:
        """The partitions whose share state does not exist, and was not asked for."""
        _, known = self.initialized.get(topic.topic_id, ("", frozenset[int]()))
        return frozenset(
            index
            for index in range(topic.partition_count)
            if index not in known and (topic.topic_id, index) not in self.initializing
        )

    def assignable(self, topic: Topic) -> frozenset[int]:
        _, known = self.initialized.get(topic.topic_id, ("", frozenset[int]()))
        return frozenset(index for index in known if index < topic.partition_count)

    def hash_of(self, topics: Sequence[Topic]) -> int:
        """Changes when these topics or their share state do."""
        digest = blake2b(digest_size=8)
        for topic in topics:
            described = (topic.name, topic.topic_id, sorted(self.assignable(topic)))
            digest.update(repr(described).encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    def assign(
        self, members: Mapping[str, ShareMember], topics: Sequence[Topic]
    ) -> dict[str, Partitions]:
        """What each member is to have: every partition has a member, every member a partition.

        The simple assignor of KIP-932. With as many partitions as members or more, a partition has
        one member; with fewer, members share them evenly.
        """
        chosen: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
        by_name = {topic.name: topic for topic in topics}
        subscriptions = {frozenset(member.topics) for member in members.values()}
        sets = list(subscriptions) if len(subscriptions) == 1 else [{name} for name in by_name]
        for names in sets:
            readers = sorted(one.member_id for one in members.values() if names <= {*one.topics})
            places = [
                (by_name[name].topic_id, index)
                for name in sorted(names)
                if name in by_name
                for index in sorted(self.assignable(by_name[name]))
            ]
            if not readers or not places:
                continue
            for number in range(max(len(readers), len(places))):
                topic_id, index = places[number % len(places)]
                of_member = chosen[readers[number % len(readers)]]
                of_member.setdefault(topic_id, set()).add(index)
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
            for member_id, found in chosen.items()
        }


def member_tombstones(group_id: str, member_id: str) -> list[Entry]:
    """What removes a member from the log."""
    return [
        CurrentEntry(group_id, member_id, None),
        TargetMemberEntry(group_id, member_id, None),
        MemberEntry(group_id, member_id, None),
    ]
