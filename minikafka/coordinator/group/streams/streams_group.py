"""The state of a streams group (KIP-1071), as its records add up to.

Three epochs say how far a change has come::

    something the assignment depends on changes    -> the group epoch goes up by one
    the assignor has assigned for that epoch       -> the assignment epoch follows
    a member has reconciled with that assignment   -> the member's epoch follows

so a member's epoch is never above the assignment epoch, nor that above the group epoch. The state
that is shown to administrators follows from them::

    Empty         no members
    NotReady      a topic of the topology is missing or has the wrong number of partitions
    Assigning     the assignment is behind the group
    Reconciling   a member is behind the assignment
    Stable        otherwise
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode

from ....data_class import replace
from ..group import CommittedPartitions, Committer, Group, GroupType
from ..member_memory import MEMBER_OVERHEAD_BYTES, MemberShare
from ..records import CommittedOffset, Entry
from ..topics import Topics
from .internal_topics import Configured, configure, hash_of_topics
from .member import LEAVES_FOR_NOW, Identity, StreamsMember, stored_identity, with_current
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    MemberEntry,
    TargetEntry,
    TargetEpochEntry,
    TopologyEntry,
    TopologyValue,
    from_structs,
)
from .tasks import NOTHING, Assignment, Role, TaskId
from .topology import Topology, stored

# First version of OffsetCommit that has a member epoch.
_MEMBER_EPOCH_VERSION = 9


class StreamsGroup(Group):
    """One streams group.

    Attributes:
        epoch: the group epoch.
        metadata_hash: of the topology's topics when the group epoch was last raised.
        validated_topology_epoch: the epoch of the topology if it could run then; else -1.
        configs: the settings that the last assignment depends on.
        assignment_epoch: the group epoch that ``targets`` are for.
        assigned_at_ms: when they were computed; 0 if that does not hold up the next time.
        members: by member id.
        targets: the target assignment, by member id.
        topology_value: the topology as it is stored; None before a member has brought it.
        topology: the same.
        shutdown_requested_by: the member that wants the whole application to end; forgotten with
            the coordinator, and when the group is empty.
        endpoint_epoch: grows when what interactive queries ask for changes; forgotten as well.
    """

    TYPE = GroupType.STREAMS

    def __init__(self, group_id: str, share: MemberShare | None = None) -> None:
        super().__init__(group_id)
        self._share = share
        self._size_bytes = 0
        self.epoch = 0
        self.metadata_hash = 0
        self.validated_topology_epoch = -1
        self.configs: dict[str, str] = {}
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.topology_value: TopologyValue | None = None
        self.topology: Topology | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        self._configured: tuple[int, Configured] | None = None
        self._holders: dict[tuple[Role, TaskId], frozenset[str]] = {}
        self._static_ids: dict[str, str] = {}

    def copy(self) -> StreamsGroup:
        """A group to try changes on; members and assignments are never changed in place."""
        copied = StreamsGroup(self.group_id)
        copied.epoch = self.epoch
        copied.metadata_hash = self.metadata_hash
        copied.validated_topology_epoch = self.validated_topology_epoch
        copied.configs = self.configs
        copied.assignment_epoch = self.assignment_epoch
        copied.assigned_at_ms = self.assigned_at_ms
        copied.members = dict(self.members)
        copied.targets = dict(self.targets)
        copied.topology_value = self.topology_value
        copied.topology = self.topology
        copied._configured = self._configured
        copied._holders = dict(self._holders)
        copied._static_ids = dict(self._static_ids)
        return copied

    # --- members ---------------------------------------------------------------------------

    def static_member(self, instance_id: str) -> StreamsMember | None:
        member_id = self._static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def holders(self, role: Role, task: TaskId) -> frozenset[str]:
        """The members that have a task in a role, or have not given it up yet."""
        return self._holders.get((role, task), frozenset())

    def is_free_for(self, member: StreamsMember, role: Role, task: TaskId) -> bool:
        """Whether others leave a task to this member in a role."""
        if role is Role.ACTIVE and self.holders(role, task) - {member.member_id}:
            return False
        process_id = member.identity.process_id
        return not any(
            self.members[other].identity.process_id == process_id
            for each in Role
            for other in self.holders(each, task)
            if other != member.member_id
        )

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    # --- topics ----------------------------------------------------------------------------

    def configured(self, topics: Topics) -> tuple[int, Configured]:
        """A hash of the topics that the topology needs, and what it comes to on these.

        Raises:
            InvalidTopologyError: the topology could not run on any topics.
        """
        assert self.topology is not None
        metadata_hash = hash_of_topics(self.topology, topics)
        if self._configured is None or self._configured[0] != metadata_hash:
            self._configured = metadata_hash, configure(self.topology, topics)
        return self._configured

    # --- replaying -------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Apply one record; the tombstone of the group itself is up to the shard."""
        match entry:
            case MemberEntry(_, member_id, value):
                self._apply_member(member_id, None if value is None else stored_identity(value))
            case CurrentEntry(_, member_id, value):
                member = self.members.get(member_id)
                if member is not None:
                    self._put(with_current(member, value))
            case TargetEntry(_, member_id, None):
                self.targets.pop(member_id, None)
            case TargetEntry(_, member_id, value):
                assert value is not None
                self.targets[member_id] = Assignment(
                    from_structs(value.active_tasks),
                    from_structs(value.standby_tasks),
                    from_structs(value.warmup_tasks),
                )
            case TargetEpochEntry(_, value) if value is not None:
                self.assignment_epoch = value.assignment_epoch
                self.assigned_at_ms = value.assignment_timestamp_ms
            case GroupEpochEntry(_, value) if value is not None:
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
                self.validated_topology_epoch = value.validated_topology_epoch
                self.configs = {one.key: one.value for one in value.last_assignment_configs or ()}
            case TopologyEntry(_, value):
                if self.topology_value is not None:
                    self._count(-_topology_size_bytes(self.topology_value))
                self.topology_value = value
                self.topology = None if value is None else stored(value)
                self._configured = None
                if value is not None:
                    self._count(_topology_size_bytes(value))
            case _:
                pass

    def _apply_member(self, member_id: str, identity: Identity | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(-_size_bytes(before))
            instance_id = before.identity.instance_id or ""
            if self._static_ids.get(instance_id) == member_id:
                del self._static_ids[instance_id]
        if identity is None:
            if before is not None:
                self._release(before)
                del self.members[member_id]
                self.endpoint_epoch += before.identity.endpoint is not None
            if not self.members:
                self.shutdown_requested_by = None
            return
        member = (
            StreamsMember(member_id, identity)
            if before is None
            else replace(before, identity=identity)
        )
        self.members[member_id] = member
        self._count(_size_bytes(member))
        if identity.instance_id is not None:
            self._static_ids[identity.instance_id] = member_id

    def _put(self, member: StreamsMember) -> None:
        self._release(self.members[member.member_id])
        self.members[member.member_id] = member
        for assignment in (member.assigned, member.revoking):
            for role, tasks in assignment.by_role():
                for task in tasks:
                    held = self.holders(role, task)
                    self._holders[role, task] = held | {member.member_id}

    def _release(self, member: StreamsMember) -> None:
        for assignment in (member.assigned, member.revoking):
            for role, tasks in assignment.by_role():
                for task in tasks:
                    left = self.holders(role, task) - {member.member_id}
                    if left:
                        self._holders[role, task] = left
                    else:
                        self._holders.pop((role, task), None)

    def _count(self, size_bytes: int) -> None:
        if self._share is not None:
            self._size_bytes += size_bytes
            self._share.used_bytes += size_bytes

    # --- what is asked of any group --------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.validated_topology_epoch < 0:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    @property
    def protocol_type_name(self) -> str:
        return "streams"

    def check_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        if by.epoch < 0 and not self.members:
            return ErrorCode.NONE  # an administrator who resets offsets
        if by.member_id in self.members and api_version < _MEMBER_EPOCH_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return self._check_epoch(by, partitions)

    def check_transactional_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        del api_version
        if by.epoch < 0 and not self.members:
            return ErrorCode.NONE
        error = self._check_epoch(by, partitions)
        # What TxnOffsetCommit says to a client of an older epoch, whatever its protocol.
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    def _check_epoch(self, by: Committer, partitions: CommittedPartitions) -> ErrorCode:
        """An older epoch will do for tasks that the member has had ever since that epoch.

        The member's epoch goes up with an answer to a heartbeat, while a commit of tasks that it
        keeps may be on its way (KIP-1251).
        """
        member = self.members.get(by.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if by.epoch == member.epoch:
            return ErrorCode.NONE
        if by.epoch > member.epoch or by.epoch < 0:
            return ErrorCode.STALE_MEMBER_EPOCH
        readers = {} if self.topology is None else self.topology.readers
        for topic, index in partitions():
            since = member.since.get(TaskId(readers.get(topic, ""), index))
            if since is None or by.epoch < since:
                return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE  # an administrator, or a client before OffsetFetch v9
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_current = member_epoch == member.epoch
        return ErrorCode.NONE if is_current else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

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
        tombstones.append(TopologyEntry(self.group_id, None))
        tombstones.append(GroupEpochEntry(self.group_id, None))
        return tombstones

    def discard(self) -> None:
        self._count(-self._size_bytes)


def is_away(member: StreamsMember) -> bool:
    """A static member that has left and may come back until its session ends."""
    return member.epoch == LEAVES_FOR_NOW


def _topology_size_bytes(value: TopologyValue) -> int:
    """About the memory that a topology takes: twice, because it is kept in both forms."""
    return 2 * sum(map(len, value.encode(0)))


def _size_bytes(member: StreamsMember) -> int:
    """About the memory that a member takes."""
    identity = member.identity
    texts = len(member.member_id) + len(identity.client_id) + len(identity.process_id)
    texts += sum(len(key) + len(value) for key, value in identity.tags)
    return MEMBER_OVERHEAD_BYTES + texts
