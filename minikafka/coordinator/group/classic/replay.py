"""How the records of classic groups change the stored state."""

from __future__ import annotations

from ..context import Replay, ShardContext, Timer, TimerKind
from ..records import Entry
from .classic_group import ClassicGroup
from .records import GroupEntry
from .states import GroupState


def new_simple_group(context: ShardContext, group_id: str) -> ClassicGroup:
    return ClassicGroup(group_id, context.members)


def replay_group(context: ShardContext, entry: GroupEntry) -> None:
    group_id = entry.group_id
    found = context.groups.get(group_id)
    group = found if isinstance(found, ClassicGroup) else None
    if entry.value is None:
        if group is not None:
            _forget(context, group)
    elif group is None or context.is_loading:
        if group is not None:
            group.discard()
        context.groups[group_id] = ClassicGroup.restored(group_id, entry.value, context.members)
    else:
        group.apply(entry.value)


def _forget(context: ShardContext, group: ClassicGroup) -> None:
    del context.groups[group.group_id]
    group.discard()
    group.move_to(GroupState.DEAD)
    for member_id in (*group.members, *group.pending_members):
        context.timers.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))
    for kind in (TimerKind.JOIN, TimerKind.SYNC):
        context.timers.cancel(Timer(kind, group.group_id))


CLASSIC_REPLAY: dict[type[Entry], Replay] = {GroupEntry: replay_group}
