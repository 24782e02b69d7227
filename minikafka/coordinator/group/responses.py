"""Refusals of all requests, and the responses about offsets and deleted groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    consumer_group_heartbeat,
    delete_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    share_group_heartbeat,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
)

from .classic.responses import heartbeat_answer, join_refused, sync_refused
from .consumer.responses import heartbeat_refused
from .effects import GroupRequest, GroupResponse


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
        case consumer_group_heartbeat.Request():
            return heartbeat_refused(error)
        case share_group_heartbeat.Request():
            return share_group_heartbeat.Response(error_code=error)
        case streams_group_heartbeat.Request():
            return streams_group_heartbeat.Response(error_code=error)
        case _:
            assert_never(request)


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
