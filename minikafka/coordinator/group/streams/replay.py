"""How the records of streams groups change the stored state."""

from __future__ import annotations

from ..context import Replay, ShardContext
from ..records import Entry
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    MemberEntry,
    TargetEntry,
    TargetEpochEntry,
    TopologyEntry,
)
from .streams_group import StreamsGroup

_Stored = (
    MemberEntry | CurrentEntry | TargetEntry | TargetEpochEntry | GroupEpochEntry | TopologyEntry
)


def replay_part(context: ShardContext, entry: _Stored) -> None:
    """A record about a group; the first that is no tombstone makes it a streams group.

    Before it there may have been the classic group that holds offsets which were read before.
    """
    group_id = entry.group_id
    found = context.groups.get(group_id)
    group = found if isinstance(found, StreamsGroup) else None
    if isinstance(entry, GroupEpochEntry) and entry.value is None:
        if group is not None:
            group.discard()
            del context.groups[group_id]
        return
    if group is None:
        if entry.value is None:
            return
        if found is not None:
            found.discard()
        group = context.groups[group_id] = StreamsGroup(group_id, context.members)
    group.apply(entry)


STREAMS_REPLAY: dict[type[Entry], Replay] = {
    MemberEntry: replay_part,
    CurrentEntry: replay_part,
    TargetEntry: replay_part,
    TargetEpochEntry: replay_part,
    GroupEpochEntry: replay_part,
    TopologyEntry: replay_part,
}
