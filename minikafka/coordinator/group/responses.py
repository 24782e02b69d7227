"""Responses of the group coordinator, and how errors of the log are mapped for clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    delete_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
    txn_offset_commit,
)

from .classic_group import ClassicGroup, Member
from .effects import GroupRequest, GroupResponse

# The first version in which the protocol name is nullable.
_JOIN_NULL_PROTOCOL_VERSION = 7


def refused(request: GroupRequest, api_version: int, error: ErrorCode) -> GroupResponse:
    match request:
        case join_group.Request():
            return join_refused(api_version, error, request.member_id)
        case sync_group.Request():
            return sync_refused(error)
        case heartbeat.Request():
            return heartbeat_answer(error)
        case leave_group.Request():
            return leave_group.Response(error_code=error)
        case offset_commit.Request():
            return commit_refused(request, error)
        case txn_offset_commit.Request():
            return transactional_commit_refused(request, error)
        case offset_delete.Request():
            return offset_delete.Response(error_code=error, topics=[])
        case delete_groups.Request():
            return delete_refused(request.groups_names, error)
        case _:
            assert_never(request)


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


def commit_refused(request: offset_commit.Request, error: ErrorCode) -> offset_commit.Response:
    return offset_commit.Response(
        topics=[
            offset_commit.ResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=[
                    offset_commit.ResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_refused(
    request: txn_offset_commit.Request, error: ErrorCode
) -> txn_offset_commit.Response:
    return txn_offset_commit.Response(
        topics=[
            txn_offset_commit.ResponseTopic(
                name=topic.name,
                partitions=[
                    txn_offset_commit.ResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def delete_refused(group_ids: Sequence[str], error: ErrorCode) -> delete_groups.Response:
    return delete_groups.Response(
        results=[
            delete_groups.DeletableGroupResult(group_id=name, error_code=error)
            for name in group_ids
        ]
    )


def write_error(error: ErrorCode) -> ErrorCode:
    return _WRITE_ERRORS.get(error, error)


def sync_write_error(error: ErrorCode) -> ErrorCode:
    return _SYNC_WRITE_ERRORS.get(error, error)


def commit_write_error(error: ErrorCode) -> ErrorCode:
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
