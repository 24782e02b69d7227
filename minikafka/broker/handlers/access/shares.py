"""Rules of the APIs with which share groups read, and with which their offsets are administered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import ErrorCode
from ....protocol.messages import describe_share_group_offsets as describe_api
from ....security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from .asked import Asked

_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_UNKNOWN: Final = -1


async def _reader(asked: Asked) -> Any:
    """READ of the group; the handlers ask for READ of each topic."""
    may_read = asked.may(Operation.READ, ResourceType.GROUP, asked.request.group_id or "")
    if may_read:
        return await asked.proceed()
    response = await asked.refuse(_REFUSED)
    response.responses = []
    return response


share_fetch = share_acknowledge = _reader


async def alter_share_group_offsets(asked: Asked) -> Any:
    """READ of the group and of each topic."""
    return await _topics(asked, Operation.READ)


async def delete_share_group_offsets(asked: Asked) -> Any:
    """DELETE of the group, READ of each topic."""
    return await _topics(asked, Operation.DELETE)


async def _topics(asked: Asked, of_group: Operation) -> Any:
    if not asked.may(of_group, ResourceType.GROUP, asked.request.group_id):
        response = await asked.refuse(_REFUSED)
        response.responses = []
        return response
    rule = asked.needs_topic(Operation.READ, lambda topic: topic.topic_name)
    response = await asked.each("topics", "responses", rule, always=True)
    if response.error_code != ErrorCode.NONE:
        response.responses = []
    return response


async def describe_share_group_offsets(asked: Asked) -> Any:
    """DESCRIBE of each group and of each topic; others are left out of all offsets of a group."""
    request = asked.request
    kept: list[Any] = []
    refused: list[Any] = []
    hidden: dict[str, list[Any]] = {}
    async for group in asked.pace.each(request.groups):
        if not asked.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            refused.append(
                describe_api.ResponseGroup(
                    group_id=group.group_id, error_code=_REFUSED, error_message=_REFUSED.name
                )
            )
            continue
        kept.append(group)
        if group.topics is not None:
            topics = group.topics
            group.topics = await _seen(asked, topics)
            hidden[group.group_id] = [
                _without_offsets(one)
                async for one in asked.pace.each(topics)
                if not asked.sees_topic(one.topic_name)
            ]
    request.groups = kept
    response = await asked.proceed()
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            group.topics = await _seen(asked, group.topics)
            group.topics += hidden.get(group.group_id, ())
    response.groups = [*response.groups, *refused]
    return response


async def _seen(asked: Asked, topics: list[Any]) -> list[Any]:
    each = asked.pace.each(topics)
    return [one async for one in each if asked.sees_topic(one.topic_name)]


def _without_offsets(topic: Any) -> describe_api.ResponseTopic:
    return describe_api.ResponseTopic(
        topic_name=topic.topic_name,
        topic_id=bytes(16),
        partitions=[
            describe_api.ResponsePartition(
                partition_index=number,
                start_offset=_UNKNOWN,
                leader_epoch=0,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for number in topic.partitions
        ],
    )
