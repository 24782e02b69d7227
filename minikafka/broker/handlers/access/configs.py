"""Rules of the APIs about settings: a right to the topic, the group, or else the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....protocol.errors import ErrorCode
from ....security.acl import CLUSTER_NAME, Operation
from ....security.acl import ResourceType as AclResourceType
from ..config_resources import ResourceType

if TYPE_CHECKING:
    from .asked import Asked


async def describe_configs(asked: Asked) -> Any:
    """DESCRIBE_CONFIGS."""
    return await _each(asked, Operation.DESCRIBE_CONFIGS, "results")


async def _alter(asked: Asked) -> Any:
    """ALTER_CONFIGS."""
    return await _each(asked, Operation.ALTER_CONFIGS, "responses")


alter_configs = incremental_alter_configs = _alter


async def _each(asked: Asked, operation: Operation, answers: str) -> Any:
    def rule(resource: Any) -> ErrorCode:
        match resource.resource_type:
            case ResourceType.TOPIC:
                kind, code = AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            case ResourceType.GROUP:
                kind, code = AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED
            case _:
                kind, code = AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        name = CLUSTER_NAME if kind is AclResourceType.CLUSTER else resource.resource_name
        return ErrorCode.NONE if asked.may(operation, kind, name) else code

    return await asked.each("resources", answers, rule)
