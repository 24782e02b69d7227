"""Rules of the APIs that create, delete and describe topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....metadata.topics import topic_name_problem
from ....protocol.errors import ErrorCode
from ....protocol.fields import ZERO_UUID
from ....protocol.messages import describe_topic_partitions as pages_api
from ....protocol.messages import metadata as metadata_api
from ....security.acl import Operation, ResourceType
from ..authorization import NOT_ASKED
from .cluster import cluster_operations

if TYPE_CHECKING:
    from .asked import Asked

_BY_ID_FIRST: Final = 12
_ALL_BY_NULL_FIRST: Final = 1
_DELETED_BY_ID_FIRST: Final = 6
_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def metadata(asked: Asked) -> Any:
    """DESCRIBE of each topic, and CREATE of those that would be created.

    Other topics are not in the answer if it lists all. One that was named is an error that says
    nothing about it.
    """
    request = asked.request
    is_all = request.topics is None or (asked.version == 0 and not request.topics)
    refused: list[Any] = []
    if not is_all:
        refused = await _refused_in_metadata(asked)
        if not request.topics and asked.version < _ALL_BY_NULL_FIRST:
            # An empty list would stand for all topics.
            asked.context = asked.context._replace(api_version=_ALL_BY_NULL_FIRST)
    response = await asked.proceed()
    if is_all:
        response.topics = [
            topic
            async for topic in asked.pace.each(response.topics)
            if asked.sees_topic(topic.name)
        ]
    if request.include_topic_authorized_operations:
        async for topic in asked.pace.each(response.topics):
            if topic.name:
                topic.topic_authorized_operations = asked.operations(ResourceType.TOPIC, topic.name)
    response.topics = [*response.topics, *refused]
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_operations(asked)
    return response


async def _refused_in_metadata(asked: Asked) -> list[Any]:
    """Take topics out of the request; returns the answers to them."""
    request = asked.request
    may_create: bool | None = None
    kept: list[Any] = []
    refused: dict[tuple[str | None, bytes], Any] = {}
    async for topic in asked.pace.each(request.topics):
        by_id = topic.topic_id != ZERO_UUID
        name = asked.name_of_topic(topic.name, topic.topic_id)
        if name is None or (by_id and asked.version < _BY_ID_FIRST):
            kept.append(topic)  # the handler says what is wrong with it
            continue
        is_refused = not asked.sees_topic(name)
        if not is_refused and name not in asked.broker.image.topics and _creates(asked):
            if may_create is None:
                may_create = asked.may_cluster(Operation.CREATE)
            is_refused = not (
                may_create
                or topic_name_problem(name)
                or asked.may(Operation.CREATE, ResourceType.TOPIC, name)
            )
        if not is_refused:
            kept.append(topic)
            continue
        refused[topic.name, topic.topic_id] = metadata_api.ResponseTopic(
            error_code=_REFUSED,
            name=None if by_id else name,
            topic_id=topic.topic_id,
            partitions=[],
        )
    request.topics = kept
    return list(refused.values())


def _creates(asked: Asked) -> bool:
    is_allowed: bool = asked.request.allow_auto_topic_creation
    return is_allowed and asked.broker.config.auto_create_topics_enable


async def describe_topic_partitions(asked: Asked) -> Any:
    """DESCRIBE of each topic; one that was not named is left out, as if it did not exist."""
    request, context = asked.request, asked.context
    cursor = request.cursor
    names = dict.fromkeys([one.name async for one in asked.pace.each(request.topics)])
    is_all = not names
    if (
        cursor is not None
        and names
        and (cursor.partition_index < 0 or cursor.topic_name not in names)
    ):
        return await asked.proceed()  # which refuses it
    start = "" if cursor is None else cursor.topic_name
    wanted = [one for one in (asked.broker.image.topics if is_all else names) if one >= start]
    seen = [one async for one in asked.pace.each(wanted) if asked.sees_topic(one)]
    if cursor is not None and cursor.partition_index >= 0 and start not in seen:
        request.cursor = None  # it is on to the next topic
    request.topics = [pages_api.TopicRequest(name=one) for one in seen]
    response: Any = pages_api.Response(topics=[])
    if seen:
        response = await asked.proceed()
    async for topic in asked.pace.each(response.topics):
        if topic.topic_authorized_operations != NOT_ASKED:
            topic.topic_authorized_operations = asked.authorization.operations_of(
                context, ResourceType.TOPIC, topic.name
            )
    if not is_all:
        hidden = set(wanted).difference(seen)
        response.topics += [_hidden(name) for name in wanted if name in hidden]
    return response


def _hidden(name: str) -> pages_api.Topic:
    return pages_api.Topic(
        error_code=_REFUSED,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=False,
        partitions=[],
        topic_authorized_operations=NOT_ASKED,
    )


async def create_topics(asked: Asked) -> Any:
    """CREATE of the cluster or of each topic; DESCRIBE_CONFIGS of what the answer says of it."""
    repeated = await asked.repeated(topic.name for topic in asked.request.topics)
    everything = asked.may_cluster(Operation.CREATE)

    def rule(topic: Any) -> ErrorCode:
        if everything or asked.may(Operation.CREATE, ResourceType.TOPIC, topic.name):
            return ErrorCode.NONE
        return ErrorCode.INVALID_REQUEST if topic.name in repeated else _REFUSED

    response = await asked.each("topics", "topics", rule)
    async for topic in asked.pace.each(response.topics):
        if topic.error_code != ErrorCode.NONE:
            topic.topic_config_error_code = ErrorCode.NONE
        elif not asked.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
            topic.topic_config_error_code = _REFUSED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
    return response


async def create_partitions(asked: Asked) -> Any:
    """ALTER of each topic."""
    repeated = await asked.repeated(topic.name for topic in asked.request.topics)

    def rule(topic: Any) -> ErrorCode:
        if asked.may(Operation.ALTER, ResourceType.TOPIC, topic.name):
            return ErrorCode.NONE
        return ErrorCode.INVALID_REQUEST if topic.name in repeated else _REFUSED

    return await asked.each("topics", "results", rule)


async def delete_topics(asked: Asked) -> Any:
    """DELETE of the cluster or of each topic.

    A topic that is named needs DESCRIBE, too, or the answer would say whether it exists. The answer
    for an id has the name only for those who may DESCRIBE the topic.
    """
    if asked.may_cluster(Operation.DELETE) or not asked.broker.config.delete_topic_enable:
        return await asked.proceed()
    if asked.version < _DELETED_BY_ID_FIRST:
        return await asked.each("topic_names", "responses", lambda name: _deletion(asked, name))

    def rule(topic: Any) -> ErrorCode:
        if topic.topic_id == ZERO_UUID:
            return ErrorCode.NONE if topic.name is None else _deletion(asked, topic.name)
        name = asked.name_of_topic(None, topic.topic_id)
        if topic.name is not None or name is None:
            return ErrorCode.NONE  # the handler refuses it
        return ErrorCode.NONE if asked.may(Operation.DELETE, ResourceType.TOPIC, name) else _REFUSED

    response = await asked.each("topics", "responses", rule)
    async for answer in asked.pace.each(response.responses):
        if answer.topic_id != ZERO_UUID and answer.error_code != ErrorCode.NONE:
            name = asked.name_of_topic(None, answer.topic_id)
            if name is not None and asked.sees_topic(name):
                answer.name = name
    return response


def _deletion(asked: Asked, name: str) -> ErrorCode:
    if not asked.sees_topic(name):
        return _REFUSED
    if name not in asked.broker.image.topics or asked.may(
        Operation.DELETE, ResourceType.TOPIC, name
    ):
        return ErrorCode.NONE
    return _REFUSED
