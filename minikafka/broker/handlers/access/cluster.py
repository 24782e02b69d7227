"""Rules of the APIs that are about the cluster as a whole; most need one right to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.api import ApiKey
from ....protocol.errors import ErrorCode
from ....security.acl import CLUSTER_NAME, Operation, ResourceType
from ..authorization import NOT_ASKED

if TYPE_CHECKING:
    from .asked import Asked

RIGHTS: Final[dict[ApiKey, Operation]] = {
    ApiKey.DESCRIBE_ACLS: Operation.DESCRIBE,
    ApiKey.CREATE_ACLS: Operation.ALTER,
    ApiKey.DELETE_ACLS: Operation.ALTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS: Operation.ALTER,
    ApiKey.ELECT_LEADERS: Operation.ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Operation.ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Operation.DESCRIBE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Operation.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS: Operation.ALTER_CONFIGS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Operation.DESCRIBE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Operation.ALTER,
    ApiKey.DESCRIBE_QUORUM: Operation.DESCRIBE,
    ApiKey.UPDATE_FEATURES: Operation.ALTER,
    ApiKey.UNREGISTER_BROKER: Operation.ALTER,
    ApiKey.ADD_RAFT_VOTER: Operation.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: Operation.ALTER,
    ApiKey.LIST_CONFIG_RESOURCES: Operation.DESCRIBE_CONFIGS,
}
"""The right to the cluster without which the whole request is CLUSTER_AUTHORIZATION_FAILED."""


async def one_right(asked: Asked) -> Any:
    """The rule of the APIs in `RIGHTS`."""
    operation = RIGHTS[ApiKey(asked.context.api_key)]
    return await asked.refuse_if_not(
        asked.may_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


async def describe_log_dirs(asked: Asked) -> Any:
    """DESCRIBE of the cluster; no directory is shown without it."""
    if asked.may_cluster(Operation.DESCRIBE):
        return await asked.proceed()
    response = await asked.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response.results = []
    return response


async def describe_cluster(asked: Asked) -> Any:
    """Everybody may know the brokers."""
    response = await asked.proceed()
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_operations(asked)
    return response


def cluster_operations(asked: Asked) -> int:
    """What the client may do to the cluster; nothing is said to one that must not describe it."""
    if not asked.may_cluster(Operation.DESCRIBE):
        return 0
    return asked.operations(ResourceType.CLUSTER, CLUSTER_NAME)
