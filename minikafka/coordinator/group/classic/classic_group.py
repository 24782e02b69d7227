"""One classic consumer group: its members, their votes for a protocol, and its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

from ..group import CommittedPartitions, Committer, Group, GroupType
from ..member_memory import MEMBER_OVERHEAD_BYTES, MemberShare
from ..records import CommittedOffset
from .records import GroupEntry, GroupMetadataMember, GroupMetadataValue
from .states import TRANSITIONS, GroupState
from .subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics


class Waiter(NamedTuple):
    token: object
    api_version: int


@dataclass(slots=True)
class Member:
    """One member, as its last JoinGroup described it.

    Attributes:
        group_instance_id: the name that a static member keeps over restarts (KIP-345).
        protocols: supported assignors with their metadata, the preferred one first.
        rebalance_timeout_ms: how long a rebalance may wait for this member.
        generation: the latest generation that was sent to the member; -1 before its first.
        is_new: has not completed a rebalance, and sends no heartbeats yet.
        waiting_join: its JoinGroup that waits for the others.
        waiting_sync: its SyncGroup that waits for the leader's assignment.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    generation: int = -1
    assignment: bytes = b""
    is_new: bool = False
    waiting_join: Waiter | None = None
    waiting_sync: Waiter | None = None

    @property
    def size_bytes(self) -> int:
        """About the memory it takes."""
        texts = len(self.member_id) + len(self.client_id) + len(self.assignment)
        return texts + size_bytes_of(self.protocols)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")


def size_bytes_of(protocols: Iterable[tuple[str, bytes]]) -> int:
    """About the memory that a member with this metadata takes."""
    return MEMBER_OVERHEAD_BYTES + sum(len(name) + len(metadata) for name, metadata in protocols)


class ClassicGroup(Group):
    """The state of a group; `rebalance` and the request handlers decide when it changes.

    Attributes:
        generation: number of the current generation; 0 before the first.
        protocol_type: "consumer" for consumers; None for a group that only stores offsets.
        protocol_name: the assignor that the members agreed on.
        leader_id: the member that computes the assignment.
        members: by member id, in the order in which they joined.
        pending_members: ids handed out with MEMBER_ID_REQUIRED (KIP-394) and not used yet.
        pending_sync: members that have not sent SyncGroup in this generation.
        subscribed_topics: of all members together; None if unknown.
        current_state_timestamp_ms: when the stored state was entered; None in old records.
        is_first_rebalance: PreparingRebalance was entered from Empty, so it ends by time alone.
        has_grown: a member was added since the delay of a first rebalance began or was extended.
        first_rebalance_remaining_ms: how much longer a first rebalance may be extended.
        is_join_closing: the number of the next generation is being stored.
        is_assignment_stored: the leader's assignment is in the log or on its way.
    """

    TYPE = GroupType.CLASSIC

    def __init__(self, group_id: str, share: MemberShare | None = None) -> None:
        super().__init__(group_id)
        self._share = share or MemberShare()
        self._size_bytes = 0
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.pending_members: set[str] = set()
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        self.current_state_timestamp_ms: int | None = None
        self.is_first_rebalance = False
        self.has_grown = False
        self.first_rebalance_remaining_ms = 0
        self.is_join_closing = False
        self.is_assignment_stored = False
        self._member_id_of_instance: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self._joined = 0

    # --- stored state ----------------------------------------------------------------------

    @classmethod
    def restored(cls, group_id: str, value: GroupMetadataValue, share: MemberShare) -> ClassicGroup:
        group = cls(group_id, share)
        # A damaged record could name a member twice.
        for stored in {member.member_id: member for member in value.members}.values():
            group.add(
                Member(
                    member_id=stored.member_id,
                    group_instance_id=stored.group_instance_id,
                    client_id=stored.client_id,
                    client_host=stored.client_host,
                    rebalance_timeout_ms=stored.rebalance_timeout_ms
                    if stored.rebalance_timeout_ms >= 0
                    else stored.session_timeout_ms,
                    session_timeout_ms=stored.session_timeout_ms,
                    protocols=((value.protocol or "", stored.subscription),),
                    generation=value.generation,
                )
            )
        if value.leader in group.members:
            group.leader_id = value.leader
        group.protocol_name = value.protocol
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.apply(value)
        group.compute_subscribed_topics()
        return group

    def apply(self, value: GroupMetadataValue) -> None:
        """Take over from a record the state that changes only when it is stored."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        timestamp_ms = value.current_state_timestamp_ms
        self.current_state_timestamp_ms = timestamp_ms if timestamp_ms >= 0 else None
        for stored in value.members:
            member = self.members.get(stored.member_id)
            if member is not None:
                self._count(len(stored.assignment) - len(member.assignment))
                member.assignment = stored.assignment

    def to_store(self, now_ms: int, assignment_of: Callable[[Member], bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp_ms=now_ms,
            members=[
                GroupMetadataMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata_for(self.protocol_name),
                    assignment=assignment_of(member),
                )
                for member in self.members.values()
            ],
        )

    def next_generation_to_store(self, now_ms: int) -> GroupMetadataValue:
        """The record that reserves the next generation's number before a member learns it."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation + 1,
            protocol=None,
            leader=None,
            current_state_timestamp_ms=now_ms,
            members=[],
        )

    # --- state -----------------------------------------------------------------------------

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    def move_to(self, state: GroupState) -> None:
        """Enter a state; raises `ValueError` if the transition is not allowed."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(
                f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}"
            )
        self.state = state

    # --- memory ----------------------------------------------------------------------------

    def _count(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        self._share.used_bytes += size_bytes

    def discard(self) -> None:
        """The shard has forgotten this group: it takes no memory."""
        self._count(-self._size_bytes)

    # --- what is asked of any group --------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        return self.protocol_type or ""

    def check_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        del api_version, partitions
        if by.epoch < 0 and self.is_in(GroupState.EMPTY):
            return ErrorCode.NONE  # a simple consumer, or an administrator who resets offsets
        error = self.check_generation(by.member_id, by.group_instance_id, by.epoch)
        if error is ErrorCode.NONE and self.is_in(GroupState.COMPLETING_REBALANCE):
            # The partitions may be assigned to another member by now.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def check_transactional_commit(
        self, by: Committer, api_version: int, partitions: CommittedPartitions
    ) -> ErrorCode:
        del api_version, partitions
        return self.check_generation(by.member_id, by.group_instance_id, by.epoch)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        del member_id, member_epoch  # only groups with member epochs fence
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        is_opaque = not self.is_in(GroupState.EMPTY) and not self.uses_consumer_protocol()
        return ErrorCode.NON_EMPTY_GROUP if is_opaque else ErrorCode.NONE

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        """Since the group became empty; in a simple group, or a stable one, since the commit.

        A group in a rebalance keeps everything, because it is not yet known what its members will
        read (KAFKA-13636).
        """
        if self.protocol_type is not None:
            if self.is_in(GroupState.EMPTY):
                if self.current_state_timestamp_ms is not None:
                    return self.current_state_timestamp_ms
            elif not self.is_in(GroupState.STABLE) or not self.uses_consumer_protocol():
                return None
        return committed.commit_timestamp_ms

    def check_delete(self) -> ErrorCode:
        is_empty = self.is_in(GroupState.EMPTY)
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def is_unused(self) -> bool:
        return self.is_in(GroupState.EMPTY) and not self.pending_members

    def tombstones(self) -> list[GroupEntry]:
        return [GroupEntry(self.group_id, None)]

    # --- members ---------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """The first member leads until a generation is complete."""
        self.members[member.member_id] = member
        self._count(member.size_bytes)
        self.drop_pending(member.member_id)
        if member.group_instance_id is not None:
            self._member_id_of_instance[member.group_instance_id] = member.member_id
        self._supporters.update({name for name, _ in member.protocols})
        self._joined += member.waiting_join is not None
        if self.leader_id is None:
            self.leader_id = member.member_id

    def add_pending(self, member_id: str) -> None:
        """An id has been handed out with MEMBER_ID_REQUIRED."""
        self.pending_members.add(member_id)
        self._count(MEMBER_OVERHEAD_BYTES + len(member_id))

    def drop_pending(self, member_id: str) -> None:
        """An id that was handed out has been used, or has expired."""
        if member_id in self.pending_members:
            self.pending_members.remove(member_id)
            self._count(-MEMBER_OVERHEAD_BYTES - len(member_id))

    def remove(self, member_id: str) -> Member:
        """Remove a member; the member that joined first becomes the leader."""
        member = self.members.pop(member_id)
        self._count(-member.size_bytes)
        if member.group_instance_id is not None:
            self._member_id_of_instance.pop(member.group_instance_id, None)
        self._forget_votes(member)
        self._joined -= member.waiting_join is not None
        self.pending_sync.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def rename_static_member(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new id; it keeps its assignment and leadership."""
        member = self.members[old_id]
        was_leader = self.leader_id == old_id
        must_sync = old_id in self.pending_sync
        self.remove(old_id)
        member.member_id = new_id
        self.add(member)
        if was_leader:
            self.leader_id = new_id
        if must_sync:
            self.pending_sync.add(new_id)
        return member

    def update(
        self,
        member: Member,
        *,
        protocols: tuple[tuple[str, bytes], ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._forget_votes(member)
        self._count(size_bytes_of(protocols) - size_bytes_of(member.protocols))
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._supporters.update({name for name, _ in protocols})

    def static_member_id(self, group_instance_id: str) -> str | None:
        """The current member id of a static member; None if there is none."""
        return self._member_id_of_instance.get(group_instance_id)

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID or NONE for a request of this member."""
        if group_instance_id is not None:
            current_id = self.static_member_id(group_instance_id)
            if current_id is not None and current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """As `check_member`, and ILLEGAL_GENERATION unless the member is of this generation.

        Unlike in Kafka, a member that joins during a rebalance does not belong to the generation
        that is ending, even if it names that.
        """
        error = self.check_member(member_id, group_instance_id)
        if error is ErrorCode.NONE and not (
            generation == self.generation == self.members[member_id].generation
        ):
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- joining ---------------------------------------------------------------------------

    def hold_join(self, member: Member, waiter: Waiter) -> Waiter | None:
        """Let a JoinGroup wait; returns the one of the same member that it replaces, if any."""
        replaced = member.waiting_join
        self._joined += replaced is None
        member.waiting_join = waiter
        return replaced

    def release_join(self, member: Member) -> Waiter | None:
        waiter = member.waiting_join
        self._joined -= waiter is not None
        member.waiting_join = None
        return waiter

    def joined_count(self) -> int:
        return self._joined

    def have_all_joined(self) -> bool:
        """Whether every member waits in JoinGroup, and no handed-out member id is unused."""
        return self._joined == len(self.members) and not self.pending_members

    def elect_joined_leader(self) -> bool:
        """Make sure that a member that has joined leads; False if none has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.waiting_join is not None:
            return True
        for member in self.members.values():
            if member.waiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    # --- protocol --------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocol_names: Collection[str]) -> bool:
        if not self.members:
            return bool(protocol_type) and bool(protocol_names)
        return self.protocol_type == protocol_type and any(
            self._supporters[name] == len(self.members) for name in protocol_names
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes; each member votes for its first that all support."""
        member_count = len(self.members)
        votes: Counter[str] = Counter(
            next((n for n, _ in member.protocols if self._supporters[n] == member_count), "")
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def compute_subscribed_topics(self) -> None:
        self.subscribed_topics = (
            subscribed_topics(m.metadata_for(self.protocol_name) for m in self.members.values())
            if self.uses_consumer_protocol()
            else None
        )

    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic; assumed if a subscription could not be decoded."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol()
        return topic in self.subscribed_topics

    def _forget_votes(self, member: Member) -> None:
        names: Iterable[str] = {name for name, _ in member.protocols}
        self._supporters.subtract(names)
        for name in names:
            if not self._supporters[name]:
                del self._supporters[name]
