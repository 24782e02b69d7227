"""JoinGroup: which clients may join a group, and how a member that joins again is answered.

API 11 (JoinGroup), versions 0 to 9: the rebalance timeout is v1+ (v0 uses the session timeout),
MEMBER_ID_REQUIRED v4+ (KIP-394), static members v5+ (KIP-345), skip_assignment v9 (KIP-814).
"""

from __future__ import annotations

import logging

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import join_group

from ..context import ShardContext
from ..effects import Ask
from ..write_errors import write_error
from .classic_group import ClassicGroup, Member, Waiter, size_bytes_of
from .rebalance import Rebalance, session_timer
from .records import GroupEntry
from .responses import join_accepted, join_refused, sync_refused
from .states import GroupState

_log = logging.getLogger(__name__)

# First version whose clients join again with the member id that comes with MEMBER_ID_REQUIRED.
_KNOWN_MEMBER_ID_VERSION = 4
# First version with skip_assignment.
_SKIP_ASSIGNMENT_VERSION = 9
# A member id must fit into a string of the protocol, even when the client id is long.
_MEMBER_ID_PREFIX_CHARACTERS_MAX = 8_000


class JoinRequests:
    def __init__(self, context: ShardContext, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def handle(self, ask: Ask, request: join_group.Request) -> None:
        """Answer now, or when the rebalance has collected the other members."""
        config = self._context.config
        shortest_ms, longest_ms = (
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
        )
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            self._refuse(ask, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
            return
        group = self._rebalance.find(request.group_id)
        if group is None:
            if request.member_id:
                self._refuse(ask, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
                return
            # Added to the shard with its first member.
            group = ClassicGroup(request.group_id, self._context.members)
        if not self._has_room(group, request):
            self._turn_away(ask, group, request.member_id)
        elif not group.supports(request.protocol_type, [p.name for p in request.protocols]):
            self._refuse(ask, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id:
            self._join_known(ask, group, request)
        else:
            self._join_unknown(ask, group, request)

    # --- admission -------------------------------------------------------------------------

    def _has_room(self, group: ClassicGroup, request: join_group.Request) -> bool:
        """Whether ``group.max.size`` and the memory of all members let this one in.

        While a rebalance collects members, first come is first served, because the limit may have
        been lowered below the current size of the group.
        """
        size_max = self._context.config.group_max_size
        static_id = group.static_member_id(request.group_instance_id or "")
        member = group.members.get(request.member_id or static_id or "")
        more_bytes = size_bytes_of(_protocols(request))
        if member is not None:
            more_bytes -= size_bytes_of(member.protocols)
        if more_bytes > 0 and not self._context.config.member_memory.has_room(more_bytes):
            _log.warning(
                "group %r may not have another member: those of all groups take %d bytes, and %d "
                "are allowed",
                request.group_id,
                self._context.config.member_memory.used_bytes,
                self._context.config.member_memory.size_bytes_max,
            )
            return False
        if group.is_in(GroupState.EMPTY):
            return True
        if group.is_in(GroupState.PREPARING_REBALANCE):
            has_seat = member is not None and member.waiting_join is not None
            return has_seat or group.joined_count() < size_max
        return member is not None or len(group.members) < size_max

    def _turn_away(self, ask: Ask, group: ClassicGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None:
            self._rebalance.remove_member(group, member)
        elif member_id in group.pending_members:
            self._rebalance.remove_pending_member(group, member_id)
        self._refuse(ask, ErrorCode.GROUP_MAX_SIZE_REACHED)
        self._rebalance.continue_join(group)

    # --- without a member id ---------------------------------------------------------------

    def _join_unknown(self, ask: Ask, group: ClassicGroup, request: join_group.Request) -> None:
        instance_id = request.group_instance_id
        prefix = (ask.client_id if instance_id is None else instance_id)[
            :_MEMBER_ID_PREFIX_CHARACTERS_MAX
        ]
        new_id = f"{prefix}-{self._context.new_id()}"
        if instance_id is not None:
            old_id = group.static_member_id(instance_id)
            if old_id is None:
                self._add(ask, group, request, new_id)
            else:
                self._replace_static(ask, group, request, old_id, new_id)
        elif ask.api_version >= _KNOWN_MEMBER_ID_VERSION:
            self._give_id(ask, group, request, new_id)
        else:
            self._add(ask, group, request, new_id)

    def _give_id(
        self, ask: Ask, group: ClassicGroup, request: join_group.Request, new_id: str
    ) -> None:
        """Have the client join again with an id, so that a lost answer leaves no ghost member."""
        if len(group.pending_members) >= self._context.config.pending_members_max:
            self._refuse(ask, ErrorCode.GROUP_MAX_SIZE_REACHED)
            return
        self._context.groups[group.group_id] = group
        group.add_pending(new_id)
        self._context.start_timer(session_timer(group, new_id), request.session_timeout_ms)
        self._refuse(ask, ErrorCode.MEMBER_ID_REQUIRED, new_id)

    def _add(self, ask: Ask, group: ClassicGroup, request: join_group.Request, new_id: str) -> None:
        self._context.groups[group.group_id] = group
        if not group.members:
            group.protocol_type = request.protocol_type
        member = Member(
            member_id=new_id,
            group_instance_id=request.group_instance_id,
            client_id=ask.client_id,
            client_host=ask.client_host,
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=_protocols(request),
            is_new=True,
            waiting_join=_waiter(ask),
        )
        group.add(member)
        group.has_grown = True
        # The member sends no heartbeats until its first generation is complete, so the session
        # timeout does not apply yet; but a client that is gone must not stay forever.
        join_timeout_ms = self._context.config.new_member_join_timeout_ms
        self._rebalance.restart_session(group, member, join_timeout_ms)
        self._rebalance.start_or_continue(group, f"member {new_id} joins")

    # --- static members (KIP-345) ----------------------------------------------------------

    def _replace_static(
        self,
        ask: Ask,
        group: ClassicGroup,
        request: join_group.Request,
        old_id: str,
        new_id: str,
    ) -> None:
        """A static member has restarted: give it a new id, and fence its previous incarnation."""
        old_leader_id = group.leader_id
        member = group.members[old_id]
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._fence(group, member)
        self._rename(group, old_id, new_id)
        member.is_new = False
        self._update(ask, group, member, request)
        self._rebalance.restart_session(group, member)
        if not group.is_in(GroupState.STABLE) or group.select_protocol() != group.protocol_name:
            reason = f"static member {request.group_instance_id} restarts as {new_id}"
            self._rebalance.start_or_continue(group, reason)
            return

        def stored(error: ErrorCode) -> None:
            is_current = group.is_in(GroupState.STABLE) and group.members.get(new_id) is member
            waiter = group.release_join(member) if is_current else None
            if waiter is None:
                return  # a rebalance began or the member left; that has answered its JoinGroup
            if error is ErrorCode.NONE:
                self._let_static_back_in(group, member, waiter, old_leader_id)
                return
            refusal = join_refused(waiter.api_version, write_error(error))
            self._context.reply(waiter.token, refusal)
            self._rename(group, new_id, old_id)
            protocols, rebalance_timeout_ms, session_timeout_ms = before
            group.update(
                member,
                protocols=protocols,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
            )
            self._rebalance.restart_session(group, member)

        value = group.to_store(self._context.now.wall_ms, lambda member: member.assignment)
        self._context.append([GroupEntry(group.group_id, value)], stored)

    def _let_static_back_in(
        self, group: ClassicGroup, member: Member, waiter: Waiter, old_leader_id: str | None
    ) -> None:
        """No rebalance is needed: the member keeps the assignment that it had."""
        member.generation = group.generation
        is_leader = member.member_id == group.leader_id
        if waiter.api_version >= _SKIP_ASSIGNMENT_VERSION:
            response = join_accepted(
                group, member, shows_members=is_leader, skips_assignment=is_leader
            )
        else:
            # An older client that is named leader would compute an assignment, so name its
            # previous member id as the leader (see KIP-814).
            response = join_accepted(group, member, shows_members=False, leader_id=old_leader_id)
        self._context.reply(waiter.token, response)
        self._rebalance.restart_session(group, member)

    def _fence(self, group: ClassicGroup, member: Member) -> None:
        join_waiter = group.release_join(member)
        sync_waiter, member.waiting_sync = member.waiting_sync, None
        error = ErrorCode.FENCED_INSTANCE_ID
        if join_waiter is not None:
            refusal = join_refused(join_waiter.api_version, error, member.member_id)
            self._context.reply(join_waiter.token, refusal)
        if sync_waiter is not None:
            self._context.reply(sync_waiter.token, sync_refused(error))

    def _rename(self, group: ClassicGroup, old_id: str, new_id: str) -> None:
        self._context.timers.cancel(session_timer(group, old_id))
        group.rename_static_member(old_id, new_id)

    # --- with a member id ------------------------------------------------------------------

    def _join_known(self, ask: Ask, group: ClassicGroup, request: join_group.Request) -> None:
        if request.member_id in group.pending_members:
            self._add(ask, group, request, request.member_id)
            return
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            self._refuse(ask, error, request.member_id)
            return
        member = group.members[request.member_id]
        is_leader = member.member_id == group.leader_id
        is_unchanged = member.protocols == _protocols(request)
        if is_unchanged and (
            group.is_in(GroupState.COMPLETING_REBALANCE)
            or (group.is_in(GroupState.STABLE) and not is_leader)
        ):
            # It lost the answer or the connection: the generation still stands.
            member.generation = group.generation
            response = join_accepted(group, member, shows_members=is_leader)
            self._context.reply(ask.token, response)
            return
        self._update(ask, group, member, request)
        self._rebalance.start_or_continue(
            group, f"{'leader' if is_leader else 'member'} {member.member_id} joins again"
        )

    def _update(
        self, ask: Ask, group: ClassicGroup, member: Member, request: join_group.Request
    ) -> None:
        replaced = group.hold_join(member, _waiter(ask))
        if replaced is not None:
            # The client has given up on this one. If it still listens, every client retries after
            # this error.
            refusal = join_refused(
                replaced.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id
            )
            self._context.reply(replaced.token, refusal)
        group.update(
            member,
            protocols=_protocols(request),
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
        )

    def _refuse(self, ask: Ask, error: ErrorCode, member_id: str = "") -> None:
        self._context.reply(ask.token, join_refused(ask.api_version, error, member_id))


def _waiter(ask: Ask) -> Waiter:
    return Waiter(ask.token, ask.api_version)


def _protocols(request: join_group.Request) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def _rebalance_timeout_ms(request: join_group.Request) -> int:
    """Version 0 has only the session timeout, which is used for both."""
    timeout_ms = request.rebalance_timeout_ms
    return timeout_ms if timeout_ms >= 0 else request.session_timeout_ms
