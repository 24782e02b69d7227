"""What a test makes groups do at once: sessions end and members rebalance without waiting."""

from __future__ import annotations

from .classic.classic_group import ClassicGroup
from .classic.requests import ClassicRequests
from .consumer.consumer_group import ConsumerGroup
from .consumer.requests import ConsumerRequests
from .context import ShardContext, Timer, TimerKind
from .group import Group
from .streams.requests import StreamsRequests
from .streams.streams_group import StreamsGroup

_MEMBERS_NAMED_MAX = 10


class OnCommand:
    def __init__(
        self,
        context: ShardContext,
        classic: ClassicRequests,
        consumer: ConsumerRequests,
        streams: StreamsRequests,
    ) -> None:
        self._context = context
        self._classic = classic
        self._consumer = consumer
        self._streams = streams

    def end_sessions(self, group_id: str, name: str) -> None:
        """Remove members by their member id, or by their instance or client id.

        Raises:
            ValueError: there is no such member.
        """
        group = self._context.groups.get(group_id)
        names = {} if group is None else _names(group)
        found = [member_id for member_id, all_names in names.items() if name in all_names]
        if group is None or not found:
            shown = ", ".join(list(names)[:_MEMBERS_NAMED_MAX]) or "none"
            raise ValueError(f"the group {group_id!r} has no member {name!r}; it has {shown}")
        if isinstance(group, ClassicGroup):
            self._classic.end_sessions(group, found, name)
            return
        for member_id in found:
            if isinstance(group, StreamsGroup):
                self._streams.fire(Timer(TimerKind.STREAMS_SESSION, group_id, member_id))
            else:
                self._consumer.fire(Timer(TimerKind.CONSUMER_SESSION, group_id, member_id))

    def rebalance(self, group_id: str, reason: str) -> None:
        """Have all members of a classic group join again, or those of another assigned again.

        Raises:
            ValueError: the group has no members.
        """
        group = self._context.groups.get(group_id)
        if group is None or not _names(group):
            raise ValueError(f"the group {group_id!r} has no members that could rebalance")
        match group:
            case ClassicGroup():
                self._classic.rebalance(group, reason)
            case ConsumerGroup():
                self._consumer.rebalance(group)
            case StreamsGroup():
                self._streams.rebalance(group)
            case _:
                raise ValueError(f"{group_id!r} is a {group.TYPE.value} group: none rebalances")


def _names(group: Group) -> dict[str, set[str | None]]:
    """Member ids, and all the names by which a test may call the member."""
    match group:
        case ClassicGroup():
            return {
                one.member_id: {one.member_id, one.group_instance_id, one.client_id}
                for one in group.members.values()
            }
        case ConsumerGroup():
            return {
                one.member_id: {
                    one.member_id,
                    one.subscription.instance_id,
                    one.subscription.client_id,
                }
                for one in group.members.values()
            }
        case StreamsGroup():
            return {
                one.member_id: {one.member_id, one.identity.instance_id, one.identity.client_id}
                for one in group.members.values()
            }
        case _:
            return {}
