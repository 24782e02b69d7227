"""Rules of the APIs that commit, fetch and delete the offsets of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import ErrorCode
from ....protocol.messages import offset_fetch as offset_fetch_api
from ....security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from .asked import Asked

_ERROR_FOR_ALL_FIRST: Final = 2
_MANY_GROUPS_FIRST: Final = 8
_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_UNKNOWN_OFFSET: Final = -1


async def offset_commit(asked: Asked) -> Any:
    """READ of the group and of each topic."""
    if not asked.may(Operation.READ, ResourceType.GROUP, asked.request.group_id):
        return await asked.refuse(_REFUSED)
    return await _topics(asked, Operation.READ)


async def txn_offset_commit(asked: Asked) -> Any:
    """WRITE of the transactional id, READ of the group and of each topic."""
    request = asked.request
    if not asked.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return await asked.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not asked.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return await asked.refuse(_REFUSED)
    return await _topics(asked, Operation.READ)


async def offset_delete(asked: Asked) -> Any:
    """DELETE of the group, READ of each topic."""
    if not asked.may(Operation.DELETE, ResourceType.GROUP, asked.request.group_id):
        response = await asked.refuse(_REFUSED)
        response.topics = []
        return response
    return await _topics(asked, Operation.READ, always=True)


async def _topics(asked: Asked, operation: Operation, *, always: bool = False) -> Any:
    def name_of(topic: Any) -> str | None:
        return asked.name_of_topic(topic.name, getattr(topic, "topic_id", bytes(16)))

    return await asked.each(
        "topics", "topics", asked.needs_topic(operation, name_of), always=always
    )


async def offset_fetch(asked: Asked) -> Any:
    """DESCRIBE of each group and of each topic; others are left out of all offsets of a group."""
    if asked.version < _MANY_GROUPS_FIRST:
        return await _one_group(asked)
    request = asked.request
    refused: list[Any] = []
    kept: list[Any] = []
    hidden: dict[str, list[Any]] = {}
    everything: set[str] = set()
    async for group in asked.pace.each(request.groups):
        if not asked.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            refused.append(
                offset_fetch_api.ResponseGroup(
                    group_id=group.group_id, topics=[], error_code=_REFUSED
                )
            )
            continue
        kept.append(group)
        if group.topics is None:
            everything.add(group.group_id)
        else:
            group.topics, hidden[group.group_id] = await _split(asked, group.topics)
    request.groups = kept
    response = await asked.proceed()
    async for group in asked.pace.each(response.groups):
        if group.error_code != ErrorCode.NONE:
            continue
        if group.group_id in everything:
            group.topics = await _seen(asked, group.topics)
        group.topics = [*group.topics, *map(_without_offsets, hidden.get(group.group_id, ()))]
    response.groups = [*response.groups, *refused]
    return response


async def _one_group(asked: Asked) -> Any:
    request = asked.request
    if not asked.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        response = await asked.refuse(_REFUSED)
        if asked.version >= _ERROR_FOR_ALL_FIRST:
            response.topics = []
        return response
    if request.topics is None:
        response = await asked.proceed()
        response.topics = await _seen(asked, response.topics)
        return response
    return await asked.each(
        "topics",
        "topics",
        asked.needs_topic(Operation.DESCRIBE, lambda topic: topic.name),
    )


async def _split(asked: Asked, topics: list[Any]) -> tuple[list[Any], list[Any]]:
    """The topics that the client may describe, and the others."""
    seen: list[Any] = []
    hidden: list[Any] = []
    async for topic in asked.pace.each(topics):
        name = asked.name_of_topic(topic.name, topic.topic_id)
        (seen if name is None or asked.sees_topic(name) else hidden).append(topic)
    return seen, hidden


async def _seen(asked: Asked, topics: list[Any]) -> list[Any]:
    seen: list[Any] = []
    async for topic in asked.pace.each(topics):
        name = topic.name or asked.name_of_topic("", topic.topic_id)
        if name and asked.sees_topic(name):
            seen.append(topic)
    return seen


def _without_offsets(topic: Any) -> offset_fetch_api.ResponseGroupTopic:
    return offset_fetch_api.ResponseGroupTopic(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            offset_fetch_api.GroupPartition(
                partition_index=number,
                committed_offset=_UNKNOWN_OFFSET,
                metadata="",
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for number in topic.partition_indexes
        ],
    )
