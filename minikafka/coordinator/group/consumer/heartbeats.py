"""ConsumerGroupHeartbeat: joining, staying in, and leaving a consumer group.

API 68 (ConsumerGroupHeartbeat), versions 0 and 1 (KIP-848): regular expressions and member ids that
the client makes are v1. One heartbeat decides in this order, and stores all of it in one batch:

1. the member's subscription, if it is new or has changed;
2. the group epoch, if a subscription or a subscribed topic has changed;
3. the target assignment, if the group epoch is ahead of it;
4. the member's next step towards its target (`member.reconcile`).

The answer waits until everything it is based on is committed.
"""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat

from ....data_class import replace
from ..classic.classic_group import ClassicGroup
from ..context import ShardContext
from ..effects import Ask
from ..write_errors import write_error
from .changes import Changes
from .consumer_group import ConsumerGroup, is_away
from .draft import Draft
from .member import JOINS, LEAVES, LEAVES_FOR_NOW, ConsumerMember, Subscription, reconcile
from .partitions import Partitions, is_within
from .responses import Refusal, heartbeat_accepted, heartbeat_refused

Request = consumer_group_heartbeat.Request

# First version in which the client makes the member id (KIP-1082).
_OWN_MEMBER_ID_VERSION = 1


class Heartbeats:
    def __init__(self, context: ShardContext, changes: Changes) -> None:
        self._context = context
        self._changes = changes

    def handle(self, ask: Ask, request: Request) -> None:
        try:
            _check_request(ask, request, self._context.config.consumer_assignors)
            if request.member_epoch in (LEAVES, LEAVES_FOR_NOW):
                self._leave(ask, request)
            else:
                self._stay(ask, request)
        except Refusal as refusal:
            refused = heartbeat_refused(refusal.error, refusal.message)
            self._context.reply(ask.token, refused)

    # --- join and stay ---------------------------------------------------------------------

    def _stay(self, ask: Ask, request: Request) -> None:
        draft = self._draft_for(request)
        self._check_room(draft.group, request)
        member = self._member_for(draft, request)
        owned = _owned(request)
        before = draft.group.members.get(member.member_id)
        is_changed = draft.subscribe(member.member_id, _subscription(member, ask, request))
        regex = draft.group.members[member.member_id].subscription.regex
        if regex is not None and ask.matched_topics is not None:
            now_ms = self._context.now.wall_ms
            is_changed |= draft.resolve(regex, ask.matched_topics, now_ms)
        elif regex is not None and regex not in draft.group.regexes:
            self._context.match(request.group_id, regex)
        must_look = self._must_look(request.group_id)
        if is_changed or must_look:
            draft.raise_epoch(self._context.topics, is_changed=is_changed)
        self._changes.assign(draft)
        member = self._step(draft, member.member_id, owned)
        is_full = request.member_epoch == JOINS or (
            request.rebalance_timeout_ms >= 0
            and request.subscribed_topic_names is not None
            and owned is not None
        )
        is_news = is_full or before is None or before.assigned != member.assigned
        self._answer(ask, draft, before, member.assigned if is_news else None, member)

    def _must_look(self, group_id: str) -> bool:
        """Whether topics have changed unnoticed, because that could not be stored."""
        group = self._changes.find(group_id)
        if group is None or not group.must_look_at_topics:
            return False
        group.must_look_at_topics = False
        for regex in group.regexes:
            self._context.match(group_id, regex)
        return True

    def _draft_for(self, request: Request) -> Draft:
        """The group, which is new if nobody uses its id."""
        found = self._context.groups.get(request.group_id)
        if isinstance(found, ConsumerGroup):
            return Draft(found)
        may_create = request.member_epoch == JOINS
        if may_create and found is None:
            return Draft(ConsumerGroup(request.group_id))
        if may_create and isinstance(found, ClassicGroup):
            return self._changes.upgrade(found)
        what = "not found" if found is None else "is not a consumer group"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")

    def _check_room(self, group: ConsumerGroup, request: Request) -> None:
        if request.member_id in group.members:
            return
        size_max = self._context.config.consumer_max_size
        if len(group.members) >= size_max:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"Group {group.group_id} has {len(group.members)} members; "
                f"group.consumer.max.size is {size_max}.",
            )
        if not self._context.config.member_memory.has_room(0):
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The members of all groups take as much memory as they may.",
            )

    def _member_for(self, draft: Draft, request: Request) -> ConsumerMember:
        """The member that sent this; a new one if it joins."""
        member_id = request.member_id or self._context.new_id()
        joins = request.member_epoch == JOINS
        if request.instance_id is not None:
            return self._static_member_for(draft, request, member_id)
        member = draft.group.members.get(member_id)
        if member is None:
            if not joins:
                raise _unknown(member_id, request.group_id)
            return ConsumerMember(member_id)
        if not joins:
            _check_epoch(member, request)
        return member

    def _static_member_for(self, draft: Draft, request: Request, member_id: str) -> ConsumerMember:
        instance_id = request.instance_id or ""
        member = draft.group.static_member(instance_id)
        if request.member_epoch != JOINS:
            if member is None:
                raise Refusal(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is not in the group."
                )
            _check_instance(member, member_id, instance_id)
            _check_epoch(member, request)
            return member
        if member is None:
            return draft.group.members.get(member_id) or ConsumerMember(member_id)
        if member.member_id == member_id and not is_away(member):
            return member
        if not is_away(member) and not member.is_classic:
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Instance id {instance_id} belongs to member {member.member_id}, which has not "
                "left the group.",
            )
        if member.member_id == member_id:
            draft.put(replace(member, epoch=JOINS, previous_epoch=JOINS))
        else:
            draft.replace(member, member_id)
        return draft.group.members[member_id]

    def _step(self, draft: Draft, member_id: str, owned: Partitions | None) -> ConsumerMember:
        group = draft.group
        stepped = reconcile(
            group.members[member_id],
            group.assignment_epoch,
            group.target(member_id),
            is_free=group.is_free,
            owned=owned,
        )
        if stepped is None:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"Member {member_id} is in an unknown state: it has to give up all partitions and "
                "join again.",
            )
        draft.put(stepped)
        return stepped

    def _answer(
        self,
        ask: Ask,
        draft: Draft,
        before: ConsumerMember | None,
        assigned: Partitions | None,
        member: ConsumerMember,
    ) -> None:
        group = draft.group
        settings = self._context.settings_of(group.group_id)
        accepted = heartbeat_accepted(
            member.member_id, member.epoch, settings.consumer_heartbeat_interval_ms, assigned
        )
        if self._changes.release_classic(group.group_id):
            for other in group.members.values():
                self._changes.restart_session(group, other)
        self._changes.restart_session(group, member)
        if before is not member:
            self._changes.watch_revocation(group, member)

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._context.reply(ask.token, accepted)
                return
            self._context.reply(ask.token, heartbeat_refused(write_error(error)))
            self._changes.look_later(group.group_id)
            current = self._changes.find(group.group_id)
            if current is None or member.member_id not in current.members:
                self._changes.cancel_timers(group.group_id, member.member_id)

        self._changes.write(draft, stored)

    # --- leave -----------------------------------------------------------------------------

    def _leave(self, ask: Ask, request: Request) -> None:
        group = self._changes.find(request.group_id)
        if group is None:
            raise Refusal(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found."
            )
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise _unknown(request.member_id, request.group_id)
        else:
            member = group.static_member(request.instance_id)
            if member is None:
                raise Refusal(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"Instance id {request.instance_id} is not in the group.",
                )
            _check_instance(member, request.member_id, request.instance_id)
        member_id = member.member_id

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._context.reply(ask.token, heartbeat_refused(write_error(error)))
                return
            accepted = heartbeat_accepted(member_id, request.member_epoch, 0, None)
            self._context.reply(ask.token, accepted)
            current = self._changes.find(request.group_id)
            if current is None or member_id not in current.members:
                self._changes.cancel_timers(request.group_id, member_id)

        if request.member_epoch == LEAVES:
            self._changes.fence(group, member, stored)
            return
        # A static member that comes back: it keeps its partitions, but has given up what it was
        # told to. Its session goes on.
        draft = Draft(group)
        draft.put(replace(member, epoch=LEAVES_FOR_NOW, revoking={}))
        self._changes.write(draft, stored)


# --- what is wrong with a request ------------------------------------------------------------


def _check_request(ask: Ask, request: Request, assignors: tuple[str, ...]) -> None:
    _check_texts(request)
    epoch = request.member_epoch
    if epoch < LEAVES_FOR_NOW:
        raise _invalid(f"MemberEpoch {epoch} is invalid.")
    has_own_id = epoch != JOINS or ask.api_version >= _OWN_MEMBER_ID_VERSION
    if has_own_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise _invalid("InstanceId can't be null when a static member leaves for now.")
    if epoch == JOINS:
        if request.rebalance_timeout_ms < 0:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid(
                "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
            )
    name = request.server_assignor
    if name is not None and name not in assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_texts(request: Request) -> None:
    for name, text in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")


def _check_epoch(member: ConsumerMember, request: Request) -> None:
    """Fence a member whose epoch is not the broker's; the one before may be in use still."""
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    owned = _owned(request)
    is_answer_lost = (
        epoch == member.previous_epoch and owned is not None and is_within(owned, member.assigned)
    )
    if epoch > member.epoch or not is_answer_lost:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member {member.member_id} has epoch {epoch}, and the group coordinator knows epoch "
            f"{member.epoch}: it has to give up all partitions and join again.",
        )


def _check_instance(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Member {member_id} was replaced by {member.member_id}: both have the instance id "
            f"{instance_id}.",
        )


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _unknown(member_id: str, group_id: str) -> Refusal:
    return Refusal(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


# --- what a request says ---------------------------------------------------------------------


def _owned(request: Request) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return {
        one.topic_id: frozenset(one.partitions)
        for one in request.topic_partitions
        if one.partitions
    }


def _subscription(member: ConsumerMember, ask: Ask, request: Request) -> Subscription:
    """The member's subscription with what the request says; null means that nothing changed."""
    before = member.subscription
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return Subscription(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=ask.client_id,
        client_host=ask.client_host,
        topics=before.topics if names is None else frozenset(names),
        regex=before.regex if regex is None else regex or None,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        assignor=before.assignor if request.server_assignor is None else request.server_assignor,
    )
