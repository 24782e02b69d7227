"""Requests to share groups.

API 76 (ShareGroupHeartbeat), version 1: members join with epoch 0, live, and leave with -1. API 77
(ShareGroupDescribe), version 1.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import share_group_describe, share_group_heartbeat

from ..context import ShardContext, Timer, TimerKind
from ..effects import Ask, ShareState
from ..group import Group
from ..records import Entry
from ..topics import Topic
from ..write_errors import write_error
from .records import (
    CurrentEntry,
    CurrentValue,
    GroupEpochEntry,
    GroupValue,
    MemberEntry,
    MemberValue,
    NamedPartitions,
    Partitions,
    StateEntry,
    StateValue,
    TargetEntry,
    TargetMemberEntry,
    TargetMemberValue,
    TargetValue,
    to_structs,
)
from .share_group import NOTHING, ShareGroup, ShareMember, member_tombstones

_log = logging.getLogger(__name__)

_LEAVE, _JOIN = -1, 0
_TOPICS_MAX = 10_000
ASSIGNOR_NAME = "simple"


class _Refused(Exception):
    """A heartbeat is refused."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class _Changes(NamedTuple):
    """What a change of a group's members comes to."""

    entries: list[Entry]
    epoch: int
    targets: Mapping[str, Partitions]


class ShareRequests:
    """What a shard does for share groups."""

    TIMERS: ClassVar[frozenset[TimerKind]] = frozenset({TimerKind.SHARE_SESSION})

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    # --- heartbeats ------------------------------------------------------------------------

    def handle_heartbeat(self, ask: Ask, request: share_group_heartbeat.Request) -> None:
        try:
            _check(request)
            if request.member_epoch == _LEAVE:
                self._leave(ask, request)
            else:
                self._live(ask, request)
        except _Refused as refused:
            self._context.reply(
                ask.token,
                share_group_heartbeat.Response(
                    error_code=refused.error_code, error_message=str(refused)
                ),
            )

    def _group(self, request: share_group_heartbeat.Request) -> ShareGroup:
        group_id, is_join = request.group_id, request.member_epoch == _JOIN
        found: Group | None = self._context.groups.get(group_id)
        if found is None and is_join:
            return ShareGroup(group_id)
        if isinstance(found, ShareGroup):
            return found
        if found is not None and is_join:
            raise _Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group_id} is not a share group."
            )
        raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    def _member(
        self, group: ShareGroup, request: share_group_heartbeat.Request
    ) -> ShareMember | None:
        member, epoch = group.members.get(request.member_id), request.member_epoch
        if epoch == _JOIN:
            size_max = self._context.config.share_group_max_size
            if member is None and len(group.members) >= size_max:
                raise _Refused(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"Group {group.group_id} has {len(group.members)} members; "
                    f"group.share.max.size allows {size_max}.",
                )
            return member
        if member is None:
            raise _Refused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {request.member_id} is not a member of group {group.group_id}.",
            )
        if epoch not in (member.epoch, member.previous_epoch, _LEAVE):
            raise _Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"Member {member.member_id} has epoch {member.epoch} and not {epoch}; "
                "it has to join the group again.",
            )
        return member

    def _live(self, ask: Ask, request: share_group_heartbeat.Request) -> None:
        """A member joins or is alive: store what is new, and answer with what it has."""
        group = self._group(request)
        before = self._member(group, request)
        after = _updated(before, ask, request)
        members = {**group.members, after.member_id: after}
        self._initialize_state(group, group.subscribed(members, self._context.topics))
        entries: list[Entry] = []
        if before is None or _subscription(before) != _subscription(after):
            entries.append(_member_entry(group.group_id, after))
        changes = self._changes(
            group, members, has_changed=before is None or before.topics != after.topics
        )
        entries += changes.entries
        assigned = changes.targets.get(after.member_id, NOTHING)
        if before is None or (after.epoch, after.assigned) != (changes.epoch, assigned):
            current = CurrentValue(
                member_epoch=changes.epoch,
                previous_member_epoch=after.epoch,
                assigned_partitions=to_structs(assigned),
            )
            entries.append(CurrentEntry(group.group_id, after.member_id, current))
        is_news = request.member_epoch != changes.epoch or after.assigned != assigned
        answer = share_group_heartbeat.Response(
            member_id=after.member_id,
            member_epoch=changes.epoch,
            heartbeat_interval_ms=self._context.settings_of(
                group.group_id
            ).share_heartbeat_interval_ms,
            assignment=_assignment(assigned) if is_news else None,
        )
        self._store(ask, entries, answer)
        self._restart_session(group.group_id, after.member_id)

    def _leave(self, ask: Ask, request: share_group_heartbeat.Request) -> None:
        group = self._group(request)
        self._member(group, request)
        answer = share_group_heartbeat.Response(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        self._store(ask, self._without(group, request.member_id), answer)

    def _without(self, group: ShareGroup, member_id: str) -> list[Entry]:
        """What removes a member and gives its partitions to others."""
        members = {key: member for key, member in group.members.items() if key != member_id}
        entries = member_tombstones(group.group_id, member_id)
        return [*entries, *self._changes(group, members, has_changed=True).entries]

    def _changes(
        self, group: ShareGroup, members: Mapping[str, ShareMember], *, has_changed: bool
    ) -> _Changes:
        """The next group epoch and target assignment, if anything has changed."""
        topics: Sequence[Topic] = group.subscribed(members, self._context.topics)
        metadata_hash = group.hash_of(topics)
        if not has_changed and metadata_hash == group.metadata_hash:
            return _Changes([], group.assignment_epoch, group.targets)
        group_id, epoch = group.group_id, group.epoch + 1
        entries: list[Entry] = [
            GroupEpochEntry(group_id, GroupValue(epoch=epoch, metadata_hash=metadata_hash))
        ]
        targets = group.assign(members, topics)
        entries += [
            TargetMemberEntry(
                group_id, member_id, TargetMemberValue(topic_partitions=to_structs(target))
            )
            for member_id, target in targets.items()
            if group.targets.get(member_id) != target
        ]
        now_ms = self._context.now.wall_ms
        target = TargetValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        entries.append(TargetEntry(group_id, target))
        return _Changes(entries, epoch, targets)

    def _store(
        self, ask: Ask, entries: list[Entry], answer: share_group_heartbeat.Response
    ) -> None:
        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._context.reply(ask.token, answer)
            else:
                refusal = share_group_heartbeat.Response(error_code=write_error(error))
                self._context.reply(ask.token, refusal)

        if entries:
            self._context.append(entries, stored)
        else:
            self._context.when_stored(stored)

    # --- share state -----------------------------------------------------------------------

    def _initialize_state(self, group: ShareGroup, topics: Sequence[Topic]) -> None:
        """Have the state of partitions initialised that members are going to read."""
        wanted = {topic.topic_id: group.uninitialized(topic) for topic in topics}
        wanted = {topic_id: indexes for topic_id, indexes in wanted.items() if indexes}
        if wanted:
            group.initializing |= {(one, index) for one in wanted for index in wanted[one]}
            self._context.initialize_share_state(group.group_id, wanted)

    def initialized(self, group_id: str, topics: Mapping[bytes, frozenset[int]]) -> None:
        """The state of these partitions exists; whatever else was asked for failed."""
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return
        group.initializing.clear()
        known = dict(group.initialized)
        for topic_id, indexes in topics.items():
            topic = self._context.topics.by_id(topic_id)
            if topic is not None:
                _, before = known.get(topic_id, ("", frozenset[int]()))
                known[topic_id] = (topic.name, before | indexes)
        self._store_state(group, known)

    def deleted(self, group_id: str, topic_ids: Collection[bytes]) -> None:
        group = self._context.groups.get(group_id)
        if isinstance(group, ShareGroup):
            known = {key: one for key, one in group.initialized.items() if key not in topic_ids}
            self._store_state(group, known)

    def forget_topics(self, names: Collection[str]) -> None:
        """These topics were deleted."""
        for group in self._context.groups.values():
            if isinstance(group, ShareGroup):
                gone = {
                    topic_id: indexes
                    for topic_id, (name, indexes) in group.initialized.items()
                    if name in names and self._context.topics.by_id(topic_id) is None
                }
                if gone:
                    self._context.delete_share_state(group.group_id, gone)
                    self.deleted(group.group_id, gone)

    def _store_state(
        self, group: ShareGroup, known: Mapping[bytes, tuple[str, frozenset[int]]]
    ) -> None:
        if known == group.initialized:
            return
        value = StateValue(
            initialized_topics=[
                NamedPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
                for topic_id, (name, indexes) in sorted(known.items())
            ]
        )
        self._context.append_in_pieces([StateEntry(group.group_id, value)])

    def state(self, group_id: str) -> ShareState:
        if self._context.phase.value is not ErrorCode.NONE:
            return ShareState(self._context.phase.value)
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return ShareState(ErrorCode.GROUP_ID_NOT_FOUND)
        return ShareState(ErrorCode.NONE, not group.members, group.initialized)

    # --- describing ------------------------------------------------------------------------

    def describe(self, group_id: str) -> share_group_describe.DescribedGroup:
        error = self._context.phase.value
        if error is not ErrorCode.NONE:
            return share_group_describe.DescribedGroup(error_code=error, group_id=group_id)
        group = self._context.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            kind = "not found" if group is None else "not a share group"
            return share_group_describe.DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {kind}.",
                group_id=group_id,
                group_state="Dead" if group is None else "",
            )
        return share_group_describe.DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=ASSIGNOR_NAME,
            members=[self._described(member) for member in group.members.values()],
        )

    def _described(self, member: ShareMember) -> share_group_describe.Member:
        topics = [(self._context.topics.by_id(key), key) for key in sorted(member.assigned)]
        return share_group_describe.Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topics),
            assignment=share_group_describe.Assignment(
                topic_partitions=[
                    share_group_describe.TopicPartitions(
                        topic_id=topic_id,
                        topic_name=topic.name,
                        partitions=sorted(member.assigned[topic_id]),
                    )
                    for topic, topic_id in topics
                    if topic is not None
                ]
            ),
        )

    # --- sessions --------------------------------------------------------------------------

    def _restart_session(self, group_id: str, member_id: str) -> None:
        timer = Timer(TimerKind.SHARE_SESSION, group_id, member_id)
        settings = self._context.settings_of(group_id)
        self._context.start_timer(timer, settings.share_session_timeout_ms)

    def fire(self, timer: Timer) -> None:
        """The session of a member has run out."""
        group = self._context.groups.get(timer.group_id)
        if not isinstance(group, ShareGroup) or timer.member_id not in group.members:
            return
        _log.info("member %s left share group %s silently", timer.member_id, timer.group_id)
        self._context.append_in_pieces(self._without(group, timer.member_id))

    def loaded(self) -> None:
        """The whole log has been replayed: start the sessions of restored members."""
        for group in self._context.groups.values():
            if isinstance(group, ShareGroup):
                for member_id in group.members:
                    self._restart_session(group.group_id, member_id)

    def resign(self) -> None:
        """This broker no longer leads the partition: nothing waits here but writes."""


def _check(request: share_group_heartbeat.Request) -> None:
    topics = request.subscribed_topic_names
    problem = None
    if not request.member_id:
        problem = "MemberId can't be empty."
    elif request.member_epoch < _LEAVE:
        problem = f"MemberEpoch is {request.member_epoch}, but must be -1 or greater."
    elif request.rack_id == "":
        problem = "RackId can't be empty."
    elif topics is not None and len(topics) > _TOPICS_MAX:
        problem = f"SubscribedTopicNames has {len(topics)} names; at most {_TOPICS_MAX} may come."
    elif request.member_epoch == _JOIN and not topics:
        problem = "SubscribedTopicNames must be set in the first request."
    if problem is not None:
        raise _Refused(ErrorCode.INVALID_REQUEST, problem)


def _updated(
    before: ShareMember | None, ask: Ask, request: share_group_heartbeat.Request
) -> ShareMember:
    member = ShareMember(request.member_id) if before is None else before
    topics = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=ask.client_id,
        client_host=ask.client_host,
        topics=member.topics if topics is None else tuple(sorted({*topics})),
    )


def _subscription(member: ShareMember) -> tuple[object, ...]:
    return member.rack_id, member.client_id, member.client_host, member.topics


def _member_entry(group_id: str, member: ShareMember) -> MemberEntry:
    value = MemberValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
    )
    return MemberEntry(group_id, member.member_id, value)


def _assignment(partitions: Partitions) -> share_group_heartbeat.Assignment:
    return share_group_heartbeat.Assignment(
        topic_partitions=[
            share_group_heartbeat.TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
        ]
    )
