"""AlterReplicaLogDirs 1-2: move replicas of this broker to another data directory (KIP-113).

There is one directory, so a replica is where it is asked to be, or the directory is none of ours.
A partition that has no replica here is REPLICA_NOT_AVAILABLE, as in Kafka. One that is named in
several directories counts for the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Say which replicas are in the directories they are wanted in."""
    del context
    wanted = {
        (topic.name, number): one.path
        for one in request.dirs
        for topic in one.topics
        for number in topic.partitions
    }
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (name, number), path in wanted.items():
        topics.setdefault(name, []).append(
            AlterReplicaLogDirPartitionResult(
                partition_index=number, error_code=_check(broker, name, number, path)
            )
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )


def _check(broker: Broker, name: str, number: int, path: str) -> ErrorCode:
    if path != broker.directory.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = broker.image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.node_id not in topic.partitions[number].replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    partition = broker.partitions.get((name, number))
    if partition is None or partition.log.is_offline is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
