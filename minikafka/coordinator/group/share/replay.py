"""How the records of share groups change the stored state."""

from __future__ import annotations

from ..context import Replay, ShardContext, Timer, TimerKind
from ..records import Entry
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    MemberEntry,
    StateEntry,
    TargetEntry,
    TargetMemberEntry,
    from_structs,
)
from .share_group import NOTHING, ShareGroup, ShareMember


def _group(context: ShardContext, group_id: str) -> ShareGroup:
    """The group; a record of it makes one."""
    found = context.groups.get(group_id)
    if isinstance(found, ShareGroup):
        return found
    if found is not None:
        found.discard()
    group = context.groups[group_id] = ShareGroup(group_id)
    return group


def _known(context: ShardContext, group_id: str) -> ShareGroup | None:
    found = context.groups.get(group_id)
    return found if isinstance(found, ShareGroup) else None


def _replay_member(context: ShardContext, entry: MemberEntry) -> None:
    if entry.value is None:
        known = _known(context, entry.group_id)
        if known is not None:
            known.members.pop(entry.member_id, None)
            known.targets.pop(entry.member_id, None)
            context.timers.cancel(Timer(TimerKind.SHARE_SESSION, entry.group_id, entry.member_id))
        return
    group, value = _group(context, entry.group_id), entry.value
    before = group.members.get(entry.member_id, ShareMember(entry.member_id))
    group.members[entry.member_id] = before._replace(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
    )


def _replay_group(context: ShardContext, entry: GroupEpochEntry) -> None:
    if entry.value is None:
        if _known(context, entry.group_id) is not None:
            del context.groups[entry.group_id]
        return
    group = _group(context, entry.group_id)
    group.epoch, group.metadata_hash = entry.value.epoch, entry.value.metadata_hash


def _replay_target(context: ShardContext, entry: TargetEntry) -> None:
    if entry.value is not None:
        _group(context, entry.group_id).assignment_epoch = entry.value.assignment_epoch


def _replay_target_member(context: ShardContext, entry: TargetMemberEntry) -> None:
    if entry.value is not None:
        group = _group(context, entry.group_id)
        group.targets[entry.member_id] = from_structs(entry.value.topic_partitions)
        return
    known = _known(context, entry.group_id)
    if known is not None:
        known.targets.pop(entry.member_id, None)


def _replay_current(context: ShardContext, entry: CurrentEntry) -> None:
    value = entry.value
    if value is None:
        known = _known(context, entry.group_id)
        if known is not None and entry.member_id in known.members:
            member = known.members[entry.member_id]
            known.members[entry.member_id] = member._replace(
                epoch=0, previous_epoch=0, assigned=NOTHING
            )
        return
    group = _group(context, entry.group_id)
    member = group.members.get(entry.member_id, ShareMember(entry.member_id))
    group.members[entry.member_id] = member._replace(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=from_structs(value.assigned_partitions),
    )


def _replay_state(context: ShardContext, entry: StateEntry) -> None:
    if entry.value is None:
        known = _known(context, entry.group_id)
        if known is not None:
            known.initialized.clear()
        return
    group = _group(context, entry.group_id)
    group.initialized = {
        one.topic_id: (one.topic_name, frozenset(one.partitions))
        for one in entry.value.initialized_topics
    }
    group.initializing = {
        (topic_id, index)
        for topic_id, index in group.initializing
        if index not in group.initialized.get(topic_id, ("", frozenset[int]()))[1]
    }


SHARE_REPLAY: dict[type[Entry], Replay] = {
    MemberEntry: _replay_member,
    GroupEpochEntry: _replay_group,
    TargetEntry: _replay_target,
    TargetMemberEntry: _replay_target_member,
    CurrentEntry: _replay_current,
    StateEntry: _replay_state,
}
