"""Members of a consumer group that speak the classic protocol (KIP-848's online migration).

To them the group is a classic one whose leader is the broker: a heartbeat says that a rebalance is
in progress when the group epoch is ahead of theirs, JoinGroup takes the next step towards the
target, and SyncGroup gets what the member has then. A member that is told to rebalance must join
within its rebalance timeout, and one that has joined must sync within it.
"""

from __future__ import annotations

from typing import assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.messages import heartbeat, join_group, leave_group, sync_group

from ..classic.requests import ClassicRequest
from ..classic.responses import heartbeat_answer, join_refused, sync_refused
from ..classic.subscription import CONSUMER_PROTOCOL_TYPE
from ..context import ShardContext, Timer, TimerKind
from ..effects import Ask
from ..write_errors import write_error
from .changes import Changes
from .consumer_group import ConsumerGroup
from .draft import Draft
from .embedded import (
    EmbeddedSubscription,
    by_topic_id,
    decode_subscription,
    encode_assignment,
    version_of_subscription,
)
from .member import ClassicSupport, ConsumerMember, MemberState, Subscription, reconcile
from .partitions import without
from .responses import Refusal

# First version whose clients join again with the member id that comes with MEMBER_ID_REQUIRED.
_KNOWN_MEMBER_ID_VERSION = 4
# First version of LeaveGroup with a list of members.
_BATCH_VERSION = 3


class ClassicMembers:
    def __init__(self, context: ShardContext, changes: Changes) -> None:
        self._context = context
        self._changes = changes

    def handle(self, ask: Ask, request: ClassicRequest, group: ConsumerGroup) -> None:
        try:
            match request:
                case join_group.Request():
                    self._join(ask, request, group)
                case sync_group.Request():
                    self._sync(ask, request, group)
                case heartbeat.Request():
                    self._heartbeat(ask, request, group)
                case leave_group.Request():
                    self._leave(ask, request, group)
                case _:
                    assert_never(request)
        except Refusal as refusal:
            self._refuse(ask, request, refusal.error)

    def _refuse(self, ask: Ask, request: ClassicRequest, error: ErrorCode) -> None:
        match request:
            case join_group.Request():
                refused = join_refused(ask.api_version, error, request.member_id)
                self._context.reply(ask.token, refused)
            case sync_group.Request():
                self._context.reply(ask.token, sync_refused(error))
            case heartbeat.Request():
                self._context.reply(ask.token, heartbeat_answer(error))
            case leave_group.Request():
                self._context.reply(ask.token, leave_group.Response(error_code=error))
            case _:
                assert_never(request)

    # --- JoinGroup -------------------------------------------------------------------------

    def _join(self, ask: Ask, request: join_group.Request, group: ConsumerGroup) -> None:
        self._check_join(request, group)
        subscribed = _decode(request)
        member_id = request.member_id or self._context.new_id()
        needs_id = not request.member_id and request.group_instance_id is None
        if needs_id and ask.api_version >= _KNOWN_MEMBER_ID_VERSION:
            error = ErrorCode.MEMBER_ID_REQUIRED
            self._context.reply(ask.token, join_refused(ask.api_version, error, member_id))
            return
        draft = Draft(group)
        self._take_static_place(draft, request, member_id)
        is_changed = draft.subscribe(member_id, _subscription(ask, request, subscribed))
        if is_changed:
            draft.raise_epoch(self._context.topics, is_changed=True)
        self._changes.assign(draft)
        stepped = reconcile(
            draft.group.members[member_id],
            draft.group.assignment_epoch,
            draft.group.target(member_id),
            is_free=draft.group.is_free,
            owned=by_topic_id(subscribed.owned_partitions, self._context.topics),
        )
        if stepped is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        draft.put(stepped)
        self._answer_join(ask, request, draft, stepped)

    def _check_join(self, request: join_group.Request, group: ConsumerGroup) -> None:
        config = self._context.config
        shortest_ms, longest_ms = (
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
        )
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise Refusal(ErrorCode.INVALID_SESSION_TIMEOUT)
        is_full = len(group.members) >= config.consumer_max_size
        if request.member_id not in group.members and is_full:
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
        names = {protocol.name for protocol in request.protocols}
        for member in group.members.values():
            classic = member.subscription.classic
            if classic is not None and member.member_id != request.member_id:
                names &= {name for name, _ in classic.protocols}
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _take_static_place(self, draft: Draft, request: join_group.Request, member_id: str) -> None:
        """A static member without an id is back, whichever protocol it spoke before."""
        if request.group_instance_id is None:
            return
        member = draft.group.static_member(request.group_instance_id)
        if request.member_id:
            if member is None:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
            if member.member_id != member_id:
                raise Refusal(ErrorCode.FENCED_INSTANCE_ID)
        elif member is not None:
            draft.replace(member, member_id)

    def _answer_join(
        self, ask: Ask, request: join_group.Request, draft: Draft, member: ConsumerMember
    ) -> None:
        group_id, member_id = request.group_id, member.member_id
        response = join_group.Response(
            error_code=ErrorCode.NONE,
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=member_id,
            members=[],
        )

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._refuse(ask, request, write_error(error))
                return
            current = self._changes.find(group_id)
            if current is not None and member_id in current.members:
                self._changes.restart_session(current, current.members[member_id])
                self._context.timers.cancel(Timer(TimerKind.CONSUMER_JOIN, group_id, member_id))
                sync_timer = Timer(TimerKind.CONSUMER_SYNC, group_id, member_id)
                self._context.start_timer(sync_timer, member.subscription.rebalance_timeout_ms)
            self._context.reply(ask.token, response)

        self._changes.write(draft, stored)

    # --- SyncGroup and Heartbeat ------------------------------------------------------------

    def _sync(self, ask: Ask, request: sync_group.Request, group: ConsumerGroup) -> None:
        member, classic = _find(group, request.member_id, request.group_instance_id)
        if request.generation_id != member.epoch:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION)
        name, metadata = classic.protocols[0]
        is_other_type = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
        if is_other_type or request.protocol_name not in (None, name):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(group, member)
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        response = sync_group.Response(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(
                member.assigned, self._context.topics, version_of_subscription(metadata)
            ),
        )

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._refuse(ask, request, write_error(error))
                return
            self._context.reply(ask.token, response)

        sync_timer = Timer(TimerKind.CONSUMER_SYNC, group.group_id, member.member_id)
        self._context.timers.cancel(sync_timer)
        self._changes.restart_session(group, member)
        self._context.when_stored(stored)

    def _heartbeat(self, ask: Ask, request: heartbeat.Request, group: ConsumerGroup) -> None:
        member, _ = _find(group, request.member_id, request.group_instance_id)
        if request.generation_id != member.epoch:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION)
        self._changes.restart_session(group, member)
        error = ErrorCode.NONE
        if self._must_join_again(group, member):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._expect_join(group, member)
        self._context.reply(ask.token, heartbeat_answer(error))

    def _must_join_again(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether JoinGroup would take the member a step further."""
        if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        missing = without(group.target(member.member_id), member.assigned)
        return all(
            group.is_free(topic_id, index)
            for topic_id, indexes in missing.items()
            for index in indexes
        )

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        timer = Timer(TimerKind.CONSUMER_JOIN, group.group_id, member.member_id)
        if timer not in self._context.timers:
            self._context.start_timer(timer, member.subscription.rebalance_timeout_ms)

    # --- LeaveGroup ------------------------------------------------------------------------

    def _leave(self, ask: Ask, request: leave_group.Request, group: ConsumerGroup) -> None:
        is_batch = ask.api_version >= _BATCH_VERSION
        identities = (
            request.members
            if is_batch
            else [leave_group.MemberIdentity(member_id=request.member_id)]
        )
        draft = Draft(group)
        answers: list[leave_group.MemberResponse] = []
        left: list[str] = []
        for identity in identities:
            answer = leave_group.MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=ErrorCode.NONE,
            )
            answers.append(answer)
            try:
                member = _find_leaving(draft.group, identity)
            except Refusal as refusal:
                answer.error_code = refusal.error
                continue
            draft.remove(member.member_id)
            left.append(member.member_id)
        if left:
            draft.raise_epoch(self._context.topics, is_changed=True)

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._refuse(ask, request, write_error(error))
                return
            for member_id in left:
                self._changes.cancel_timers(group.group_id, member_id)
            code = ErrorCode.NONE if is_batch else ErrorCode(answers[0].error_code)
            response = leave_group.Response(error_code=code)
            if is_batch:
                response.members = answers
            self._context.reply(ask.token, response)

        self._changes.write(draft, stored)


def _find(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSupport]:
    """The member that sent a request, and what it has sent before."""
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            raise Refusal(ErrorCode.FENCED_INSTANCE_ID)
    if member is None or member.subscription.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.subscription.classic


def _find_leaving(group: ConsumerGroup, identity: leave_group.MemberIdentity) -> ConsumerMember:
    """A member that leaves, or is removed by an administrator by its instance id alone."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id and instance_id is not None:
        named = group.static_member(instance_id)
        member_id = "" if named is None else named.member_id
    return _find(group, member_id, instance_id)[0]


def _decode(request: join_group.Request) -> EmbeddedSubscription:
    try:
        return decode_subscription(request.protocols[0].metadata)
    except MalformedMessageError as error:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _subscription(
    ask: Ask, request: join_group.Request, subscribed: EmbeddedSubscription
) -> Subscription:
    timeout_ms = request.rebalance_timeout_ms
    return Subscription(
        instance_id=request.group_instance_id,
        rack_id=subscribed.rack_id,
        client_id=ask.client_id,
        client_host=ask.client_host,
        topics=frozenset(subscribed.topics),
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        classic=ClassicSupport(
            request.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )
