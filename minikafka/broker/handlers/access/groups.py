"""Rules of the APIs about groups: their members, their descriptions, their coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import ErrorCode
from ....protocol.messages import find_coordinator as find_coordinator_api
from ....security.acl import Operation, ResourceType
from ..authorization import NOT_ASKED

if TYPE_CHECKING:
    from .asked import Asked

_MANY_KEYS_FIRST: Final = 4
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


async def _member(asked: Asked) -> Any:
    """READ of the group."""
    may_read = asked.may(Operation.READ, ResourceType.GROUP, asked.request.group_id)
    return await asked.refuse_if_not(may_read, _REFUSED)


join_group = sync_group = heartbeat = _member
streams_group_topology_description_update = _member


async def leave_group(asked: Asked) -> Any:
    """READ of the group; members have no errors of their own without it."""
    response = await _member(asked)
    if response.error_code == _REFUSED:
        response.members = []
    return response


async def _subscribing_member(asked: Asked) -> Any:
    """READ of the group, and DESCRIBE of every topic that is named."""
    request = asked.request
    if not asked.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return await asked.refuse(_REFUSED)
    async for name in asked.pace.each(request.subscribed_topic_names or ()):
        if not asked.sees_topic(name):
            return await asked.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await asked.proceed()


consumer_group_heartbeat = share_group_heartbeat = _subscribing_member


async def streams_group_heartbeat(asked: Asked) -> Any:
    """READ of the group, and DESCRIBE of every topic of the topology.

    The group coordinator asks for CREATE of the internal topics that it has to create.
    """
    request = asked.request
    if not asked.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return await asked.refuse(_REFUSED)
    if request.topology is not None:
        async for name in asked.pace.each(_topics_of(request.topology)):
            if not asked.sees_topic(name):
                return await asked.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await asked.proceed()


def _topics_of(topology: Any) -> Iterator[str]:
    for part in topology.subtopologies or ():
        yield from part.source_topics
        yield from part.repartition_sink_topics
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics):
            yield topic.name


async def streams_group_describe(asked: Asked) -> Any:
    """DESCRIBE of each group, and of every topic of its topology."""
    response = await asked.each("group_ids", "groups", asked.needs_group(Operation.DESCRIBE))
    async for group in asked.pace.each(response.groups):
        if group.topology is None or all(map(asked.sees_topic, _topics_of(group.topology))):
            continue
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = "No ACL gives the right to describe a topic of the group's topology."
        group.group_state = ""
        group.group_epoch = group.assignment_epoch = 0
        group.topology = None
        group.members = []
        group.authorized_operations = NOT_ASKED
    return await _with_operations(asked, response)


async def find_coordinator(asked: Asked) -> Any:
    """DESCRIBE of each group or transactional id; CLUSTER_ACTION for share-partitions."""
    request = asked.request
    if request.key_type == _SHARE and not asked.may_cluster(Operation.CLUSTER_ACTION):
        return await asked.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if asked.version < _MANY_KEYS_FIRST:
        code = _coordinator_problem(asked, request.key)
        return await asked.refuse_if_not(code is ErrorCode.NONE, code)
    refused: list[Any] = []
    kept: list[str] = []
    async for key in asked.pace.each(request.coordinator_keys):
        code = _coordinator_problem(asked, key)
        if code is ErrorCode.NONE:
            kept.append(key)
            continue
        refused.append(
            find_coordinator_api.Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None
            )
        )
    request.coordinator_keys = kept
    response = await asked.proceed()
    response.coordinators += refused
    return response


def _coordinator_problem(asked: Asked, key: str) -> ErrorCode:
    kind = asked.request.key_type
    if kind == _GROUP and not asked.may(Operation.DESCRIBE, ResourceType.GROUP, key):
        return _REFUSED
    if kind == _TRANSACTION and not asked.may(
        Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


async def list_groups(asked: Asked) -> Any:
    """The groups that the client may DESCRIBE; all of them with DESCRIBE of the cluster."""
    response = await asked.proceed()
    if not asked.may_cluster(Operation.DESCRIBE):
        response.groups = [
            group
            async for group in asked.pace.each(response.groups)
            if asked.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
    return response


async def delete_groups(asked: Asked) -> Any:
    """DELETE of each group."""
    return await asked.each("groups_names", "results", asked.needs_group(Operation.DELETE))


async def describe_groups(asked: Asked) -> Any:
    """DESCRIBE of each group."""
    response = await asked.each("groups", "groups", asked.needs_group(Operation.DESCRIBE))
    return await _with_operations(asked, response)


async def _described(asked: Asked) -> Any:
    """DESCRIBE of each group, and of every topic that its members are assigned."""
    response = await asked.each("group_ids", "groups", asked.needs_group(Operation.DESCRIBE))
    async for group in asked.pace.each(response.groups):
        names = {one: None async for one in asked.pace.each(_assigned(group))}
        if all(map(asked.sees_topic, names)):
            continue
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = "No ACL gives the right to describe a topic that the group reads."
        group.group_state = group.assignor_name = ""
        group.group_epoch = group.assignment_epoch = 0
        group.members = []
        group.authorized_operations = NOT_ASKED
    return await _with_operations(asked, response)


consumer_group_describe = share_group_describe = _described


def _assigned(group: Any) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            if assignment is not None:
                for topic in assignment.topic_partitions:
                    yield topic.topic_name


async def _with_operations(asked: Asked, response: Any) -> Any:
    async for group in asked.pace.each(response.groups):
        if group.authorized_operations != NOT_ASKED and group.error_code == ErrorCode.NONE:
            group.authorized_operations = asked.operations(ResourceType.GROUP, group.group_id)
    return response
