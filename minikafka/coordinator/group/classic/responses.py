"""Responses of the classic protocol: JoinGroup, SyncGroup, Heartbeat."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat, join_group, sync_group

from .classic_group import ClassicGroup, Member

# The first version in which the protocol name is nullable.
_JOIN_NULL_PROTOCOL_VERSION = 7


def join_refused(api_version: int, error: ErrorCode, member_id: str = "") -> join_group.Response:
    """JoinGroup with an error; without a member id the client starts over as a new member."""
    return join_group.Response(
        error_code=error,
        protocol_name=None if api_version >= _JOIN_NULL_PROTOCOL_VERSION else "",
        leader="",
        member_id=member_id,
        members=[],
    )


def join_accepted(
    group: ClassicGroup,
    member: Member,
    *,
    shows_members: bool,
    leader_id: str | None = None,
    skips_assignment: bool = False,
) -> join_group.Response:
    """JoinGroup of a member of the current generation.

    ``shows_members`` lists all members, from which the leader computes the assignment;
    ``leader_id`` is named instead of the real leader; with ``skips_assignment`` the leader must not
    compute an assignment (KIP-814).
    """
    return join_group.Response(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or group.leader_id or "",
        skip_assignment=skips_assignment,
        member_id=member.member_id,
        members=[
            join_group.Member(
                member_id=other.member_id,
                group_instance_id=other.group_instance_id,
                metadata=other.metadata_for(group.protocol_name),
            )
            for other in (group.members.values() if shows_members else ())
        ],
    )


def sync_accepted(group: ClassicGroup, member: Member) -> sync_group.Response:
    return sync_group.Response(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(error: ErrorCode) -> sync_group.Response:
    return sync_group.Response(error_code=error, assignment=b"")


def heartbeat_answer(error: ErrorCode) -> heartbeat.Response:
    return heartbeat.Response(error_code=error)
