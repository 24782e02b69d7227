"""How answers look: refusals of every request, and the error codes of failed writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from .classic_group import ClassicGroup, Member
from .effects import GroupRequest, GroupResponse

__all__ = [
    "commit_refused",
    "commit_write_error",
    "delete_refused",
    "heartbeat_answer",
    "join_accepted",
    "join_refused",
    "refused",
    "sync_accepted",
    "sync_refused",
    "sync_write_error",
    "transactional_commit_refused",
    "write_error",
]

# The first version that can say "no protocol" with a null.
_JOIN_NULL_PROTOCOL_VERSION = 7


def refused(request: GroupRequest, api_version: int, error: ErrorCode) -> GroupResponse:
    """The answer to a whole request that cannot be served."""
    match request:
        case JoinGroupRequest():
            return join_refused(api_version, error, request.member_id)
        case SyncGroupRequest():
            return sync_refused(error)
        case HeartbeatRequest():
            return heartbeat_answer(error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest():
            return commit_refused(request, error)
        case TxnOffsetCommitRequest():
            return transactional_commit_refused(request, error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error, topics=[])
        case DeleteGroupsRequest():
            return delete_refused(request.groups_names, error)
        case _:
            assert_never(request)


def join_refused(api_version: int, error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """JoinGroup with an error; without a member id the client starts over as a new member."""
    return JoinGroupResponse(
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
) -> JoinGroupResponse:
    """JoinGroup of a member of the current generation.

    Args:
        group: the group, its protocol selected.
        member: who asked.
        shows_members: list all members, which tells the leader to compute an assignment.
        leader_id: who is named as the leader, when not the group's leader.
        skips_assignment: the leader must not compute an assignment (KIP-814).
    """
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or group.leader_id or "",
        skip_assignment=skips_assignment,
        member_id=member.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=other.member_id,
                group_instance_id=other.group_instance_id,
                metadata=other.metadata_for(group.protocol_name),
            )
            for other in (group.members.values() if shows_members else ())
        ],
    )


def sync_accepted(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """SyncGroup of a member of a stable group."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """SyncGroup with an error."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def heartbeat_answer(error: ErrorCode) -> HeartbeatResponse:
    """Heartbeat, which has nothing but an error code."""
    return HeartbeatResponse(error_code=error)


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """OffsetCommit with the same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_refused(
    request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """TxnOffsetCommit with the same error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def delete_refused(group_ids: Sequence[str], error: ErrorCode) -> DeleteGroupsResponse:
    """DeleteGroups with the same error for every group."""
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=error) for name in group_ids]
    )


def write_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when the log refused what its request was to store."""
    return _WRITE_ERRORS.get(error, error)


def sync_write_error(error: ErrorCode) -> ErrorCode:
    """What members are told when their assignment could not be stored."""
    return _SYNC_WRITE_ERRORS.get(error, error)


def commit_write_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when its offsets could not be stored."""
    return _COMMIT_WRITE_ERRORS.get(error, error)


_TOO_LARGE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)
_WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
}
_SYNC_WRITE_ERRORS = {
    **_WRITE_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}
_COMMIT_WRITE_ERRORS = {
    **_WRITE_ERRORS,
    **dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
}
