"""A decision about a streams group in the making.

The records are applied to a copy of the group one by one, by the code that applies them when they
are in the log; so each step of a decision sees what the steps before it decided, and nothing has
happened if the records cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records import Entry
from .assignor import MemberSpec, assign
from .internal_topics import Configured
from .member import Identity, StreamsMember, current_value, identity_value
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    GroupValue,
    KeyValue,
    MemberEntry,
    TargetEntry,
    TargetEpochEntry,
    TargetMemberValue,
    TargetValue,
    TopologyEntry,
    TopologyValue,
    to_structs,
)
from .streams_group import StreamsGroup
from .tasks import NOTHING, Assignment

STANDBYS = "num.standby.replicas"
TAGS = "rack.aware.assignment.tags"
"""The names, in stored records, of the settings that assignments depend on."""


class Draft:
    """What the group will be, and the records that make it so.

    Attributes:
        group: the group with the changes so far.
        entries: the records so far.
    """

    def __init__(self, group: StreamsGroup, before: Sequence[Entry] = ()) -> None:
        """``before`` are the tombstones of a group of another type that this one replaces."""
        self.group = group
        self.entries: list[Entry] = list(before)
        self._is_copy = False

    def add(self, entry: Entry) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.entries.append(entry)
        self.group.apply(entry)

    # --- members ---------------------------------------------------------------------------

    def identify(self, member_id: str, identity: Identity) -> bool:
        """Store who a member is; whether the assignment depends on what changed."""
        before = self.group.members.get(member_id)
        if before is not None and before.identity == identity:
            return False
        self.add(MemberEntry(self.group.group_id, member_id, identity_value(identity)))
        if before is None:
            return True
        old = before.identity
        return (old.topology_epoch, old.rack_id, old.tags, old.process_id) != (
            identity.topology_epoch,
            identity.rack_id,
            identity.tags,
            identity.process_id,
        )

    def put(self, member: StreamsMember) -> None:
        """Store what a member has now, if that changed."""
        if self.group.members[member.member_id] != member:
            value = current_value(member)
            self.add(CurrentEntry(self.group.group_id, member.member_id, value))

    def remove(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.add(CurrentEntry(group_id, member_id, None))
        if member_id in self.group.targets:
            self.add(TargetEntry(group_id, member_id, None))
        self.add(MemberEntry(group_id, member_id, None))

    def replace(self, old: StreamsMember, new_id: str) -> None:
        """A static member is back under another id: it keeps what it had."""
        group_id, target = self.group.group_id, self.group.target(old.member_id)
        self.remove(old.member_id)
        self.identify(new_id, old.identity)
        self.add(TargetEntry(group_id, new_id, _target_value(target)))
        back = StreamsMember(
            new_id, old.identity, 0, 0, old.state, old.assigned, old.revoking, old.since
        )
        self.add(CurrentEntry(group_id, new_id, current_value(back)))

    # --- the group -------------------------------------------------------------------------

    def set_topology(self, value: TopologyValue) -> None:
        self.add(TopologyEntry(self.group.group_id, value))

    def raise_epoch(
        self,
        configs: Mapping[str, str],
        metadata_hash: int | None = None,
        validated_topology_epoch: int | None = None,
    ) -> None:
        """Raise the group epoch; what is not given stays as it was."""
        group = self.group
        value = GroupValue(
            epoch=group.epoch + 1,
            metadata_hash=group.metadata_hash if metadata_hash is None else metadata_hash,
            validated_topology_epoch=group.validated_topology_epoch
            if validated_topology_epoch is None
            else validated_topology_epoch,
            last_assignment_configs=[
                KeyValue(key=key, value=text) for key, text in sorted(configs.items())
            ],
        )
        self.add(GroupEpochEntry(group.group_id, value))

    def set_assignment_epoch(self, timestamp_ms: int) -> None:
        """The target assignment is up to date."""
        value = TargetValue(assignment_epoch=self.group.epoch, assignment_timestamp_ms=timestamp_ms)
        self.add(TargetEpochEntry(self.group.group_id, value))

    def assign(self, configured: Configured, now_ms: int) -> None:
        """Bring the target assignment to the group epoch; nobody gets a task that cannot run."""
        group = self.group
        targets: Mapping[str, Assignment] = dict.fromkeys(group.members, NOTHING)
        if configured.is_ready and group.topology is not None:
            specs = {
                member_id: MemberSpec(member.identity.process_id, group.target(member_id))
                for member_id, member in group.members.items()
            }
            standbys = int(group.configs.get(STANDBYS, "0"))
            targets = assign(specs, configured.task_counts, group.topology.stateful, standbys)
        for member_id, target in targets.items():
            if member_id not in group.targets or group.targets[member_id] != target:
                self.add(TargetEntry(group.group_id, member_id, _target_value(target)))
        for member_id in group.targets:
            if member_id not in targets:
                self.add(TargetEntry(group.group_id, member_id, None))
        self.set_assignment_epoch(now_ms if configured.is_ready else 0)


def _target_value(target: Assignment) -> TargetMemberValue:
    return TargetMemberValue(
        active_tasks=to_structs(target.active),
        standby_tasks=to_structs(target.standby),
        warmup_tasks=to_structs(target.warmup),
    )
