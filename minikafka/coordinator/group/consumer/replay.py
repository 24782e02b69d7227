"""How the records of consumer groups change the stored state."""

from __future__ import annotations

from ..context import Replay, ShardContext
from ..records import Entry
from .consumer_group import ConsumerGroup
from .records import (
    CurrentEntry,
    GroupEpochEntry,
    MemberEntry,
    RegexEntry,
    SubscribedTopicsEntry,
    TargetEntry,
    TargetEpochEntry,
)

_Stored = MemberEntry | CurrentEntry | TargetEntry | TargetEpochEntry | GroupEpochEntry | RegexEntry


def replay_part(context: ShardContext, entry: _Stored) -> None:
    """A record about a group; the first that is no tombstone makes it a consumer group.

    Before it there may have been a classic group: one that this one replaces, or the one that holds
    offsets which were read before.
    """
    group_id = entry.group_id
    found = context.groups.get(group_id)
    group = found if isinstance(found, ConsumerGroup) else None
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
        group = context.groups[group_id] = ConsumerGroup(group_id, context.members)
    group.apply(entry)


def replay_nothing(_context: ShardContext, _entry: SubscribedTopicsEntry) -> None:
    pass


CONSUMER_REPLAY: dict[type[Entry], Replay] = {
    MemberEntry: replay_part,
    CurrentEntry: replay_part,
    TargetEntry: replay_part,
    TargetEpochEntry: replay_part,
    GroupEpochEntry: replay_part,
    RegexEntry: replay_part,
    SubscribedTopicsEntry: replay_nothing,
}
