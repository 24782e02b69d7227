"""The state of a consumer group (KIP-848), as its records add up to.

Three epochs say how far a change has come::

    something the assignment depends on changes    -> the group epoch goes up by one
    the assignor has assigned for that epoch       -> the assignment epoch follows
    a member has reconciled with that assignment   -> the member's epoch follows

so a member's epoch is never above the assignment epoch, nor that above the group epoch. The state
that is shown to administrators follows from them: Empty without members, Assigning while the
assignment is behind the group, Reconciling while a member is behind the assignment, else Stable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

from ....data_class import replace
from ..group import CommittedPartitions, Committer, Group, GroupType
from ..member_memory import MEMBER_OVERHEAD_BYTES, MemberShare
from ..records import CommittedOffset, Entry
from .member import (
    LEAVES_FOR_NOW,
    ConsumerMember,
    Subscription,
    stored_subscription,
    with_current,
)
from .partitions import NOTHING, Partitions
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    MemberEntry,
    RegexEntry,
    TargetEntry,
    TargetEpochEntry,
    from_structs,
)

# First version of OffsetCommit that has a member epoch.
_MEMBER_EPOCH_VERSION = 9


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches."""

    topics: frozenset[str]
    timestamp_ms: int


class ConsumerGroup(Group):
    """One consumer group.

    Attributes:
        epoch: the group epoch.
        metadata_hash: of the subscribed topics when the group epoch was last raised.
        assignment_epoch: the group epoch that ``targets`` are for.
        members: by member id.
        targets: the target assignment, by member id.
        regexes: the topics of each regular expression that a member subscribes to.
        must_look_at_topics: topics have changed, and that could not be stored.
    """

    TYPE = GroupType.CONSUMER

    def __init__(self, group_id: str, share: MemberShare | None = None) -> None:
        super().__init__(group_id)
        self._share = share
        self._size_bytes = 0
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.must_look_at_topics = False
        self._owners: dict[tuple[bytes, int], str] = {}
        self._static_ids: dict[str, str] = {}
        self._topics: frozenset[str] | None = None

    def copy(self) -> ConsumerGroup:
        """A group to try changes on; members and assignments are never changed in place."""
        copied = ConsumerGroup(self.group_id)
        copied.epoch = self.epoch
        copied.metadata_hash = self.metadata_hash
        copied.assignment_epoch = self.assignment_epoch
        copied.members = dict(self.members)
        copied.targets = dict(self.targets)
        copied.regexes = dict(self.regexes)
        copied._owners = dict(self._owners)
        copied._static_ids = dict(self._static_ids)
        copied._topics = self._topics
        return copied

    # --- members ---------------------------------------------------------------------------

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self._static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owner(self, topic_id: bytes, index: int) -> str | None:
        """The member that has a partition, or has not given it up yet."""
        return self._owners.get((topic_id, index))

    def is_free(self, topic_id: bytes, index: int) -> bool:
        return (topic_id, index) not in self._owners

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NOTHING)

    def has_only_classic_members_without(self, member_id: str) -> bool:
        return all(one.is_classic for one in self.members.values() if one.member_id != member_id)

    def uses_regex(self, regex: str) -> bool:
        return any(member.subscription.regex == regex for member in self.members.values())

    # --- subscriptions ---------------------------------------------------------------------

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        resolved = self.regexes.get(subscription.regex or "")
        if resolved is None:
            return subscription.topics
        return subscription.topics | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that a member reads."""
        if self._topics is None:
            self._topics = frozenset().union(
                *{member.subscription.topics for member in self.members.values()},
                *(resolved.topics for resolved in self.regexes.values()),
            )
        return self._topics

    def preferred_assignor(self, is_known: Callable[[str], bool], default: str) -> str:
        """The assignor that most members ask for."""
        votes = Counter(
            name
            for member in self.members.values()
            if (name := member.subscription.assignor) and is_known(name)
        )
        return max(sorted(votes), key=votes.__getitem__, default=default)

    # --- replaying -------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Apply one record; the tombstone of the group itself is up to the shard."""
        match entry:
            case MemberEntry(_, member_id, value):
                self._apply_member(member_id, None if value is None else stored_subscription(value))
            case CurrentEntry(_, member_id, value):
                member = self.members.get(member_id)
                if member is not None:
                    self._put(with_current(member, value))
            case TargetEntry(_, member_id, None):
                self.targets.pop(member_id, None)
            case TargetEntry(_, member_id, value):
                assert value is not None
                self.targets[member_id] = from_structs(value.topic_partitions)
            case TargetEpochEntry(_, value) if value is not None:
                self.assignment_epoch = value.assignment_epoch
            case GroupEpochEntry(_, value) if value is not None:
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
            case RegexEntry(_, regex, value):
                self._topics = None
                if value is None:
                    self.regexes.pop(regex, None)
                else:
                    topics = frozenset(value.topics)
                    self.regexes[regex] = ResolvedRegex(topics, value.timestamp_ms)
            case _:
                pass

    def _apply_member(self, member_id: str, subscription: Subscription | None) -> None:
        self._topics = None
        before = self.members.get(member_id)
        if before is not None:
            self._count(-_size_bytes(before))
            instance_id = before.subscription.instance_id or ""
            if self._static_ids.get(instance_id) == member_id:
                del self._static_ids[instance_id]
        if subscription is None:
            if before is not None:
                self._disown(before)
                del self.members[member_id]
            return
        member = (
            ConsumerMember(member_id, subscription)
            if before is None
            else replace(before, subscription=subscription)
        )
        self.members[member_id] = member
        self._count(_size_bytes(member))
        if subscription.instance_id is not None:
            self._static_ids[subscription.instance_id] = member_id

    def _put(self, member: ConsumerMember) -> None:
        self._disown(self.members[member.member_id])
        self.members[member.member_id] = member
        for partitions in (member.assigned, member.revoking):
            for topic_id, indexes in partitions.items():
                for index in indexes:
                    self._owners[topic_id, index] = member.member_id

    def _disown(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.revoking):
            for topic_id, indexes in partitions.items():
                for index in indexes:
                    if self._owners.get((topic_id, index)) == member.member_id:
                        del self._owners[topic_id, index]

    def _count(self, size_bytes: int) -> None:
        if self._share is not None:
            self._size_bytes += size_bytes
            self._share.used_bytes += size_bytes

    # --- what is asked of any group --------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    @property
    def protocol_type_name(self) -> str:
        return "consumer"

    def check_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        del partitions
        if by.epoch < 0 and not self.members:
            return ErrorCode.NONE  # a simple consumer, or an administrator who resets offsets
        member = self.members.get(by.member_id)
        if member is not None and not member.is_classic and api_version < _MEMBER_EPOCH_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return self._check_epoch(member, by.epoch)

    def check_transactional_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        del api_version, partitions
        if by.epoch < 0 and not self.members:
            return ErrorCode.NONE
        error = self._check_epoch(self.members.get(by.member_id), by.epoch)
        # What TxnOffsetCommit says to a client of an older epoch, whatever its protocol.
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE  # an administrator, or a client before OffsetFetch v9
        return self._check_epoch(self.members.get(member_id or ""), member_epoch)

    def _check_epoch(self, member: ConsumerMember | None, epoch: int) -> ErrorCode:
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        if member.is_classic:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        return committed.commit_timestamp_ms

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def is_unused(self) -> bool:
        return not self.members

    def tombstones(self) -> list[Entry]:
        """Everything of the group; its epoch goes last, because that ends it."""
        tombstones: list[Entry] = [CurrentEntry(self.group_id, one, None) for one in self.members]
        tombstones += [TargetEntry(self.group_id, one, None) for one in self.targets]
        tombstones.append(TargetEpochEntry(self.group_id, None))
        tombstones += [MemberEntry(self.group_id, one, None) for one in self.members]
        tombstones += [RegexEntry(self.group_id, one, None) for one in self.regexes]
        tombstones.append(GroupEpochEntry(self.group_id, None))
        return tombstones

    def discard(self) -> None:
        self._count(-self._size_bytes)


def is_away(member: ConsumerMember) -> bool:
    """A static member that has left and may come back until its session ends."""
    return member.epoch == LEAVES_FOR_NOW


def _size_bytes(member: ConsumerMember) -> int:
    """About the memory that a member takes."""
    subscription = member.subscription
    texts = len(member.member_id) + len(subscription.client_id) + len(subscription.regex or "")
    if subscription.classic is not None:
        texts += sum(len(n) + len(m) for n, m in subscription.classic.protocols)
    return MEMBER_OVERHEAD_BYTES + texts + sum(map(len, subscription.topics))
