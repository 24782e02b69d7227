"""AlterReplicaLogDirs 1-2: move replicas of this broker to another data directory (KIP-113).

There is only one directory, so a replica is already in it, or the directory is LOG_DIR_NOT_FOUND.
As in Kafka, a partition without a replica here is REPLICA_NOT_AVAILABLE, and of several directories
for one partition the last counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_replica_log_dirs
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: alter_replica_log_dirs.Request
) -> alter_replica_log_dirs.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    wanted = {
        (topic.name, number): one.path
        async for one in pace.each(request.dirs)
        async for topic in pace.each(one.topics)
        async for number in pace.each(topic.partitions)
    }
    topics: dict[str, list[alter_replica_log_dirs.PartitionResult]] = {}
    async for (name, number), path in pace.each(wanted.items()):
        topics.setdefault(name, []).append(
            alter_replica_log_dirs.PartitionResult(
                partition_index=number, error_code=_check(broker, name, number, path)
            )
        )
    return alter_replica_log_dirs.Response(
        results=[
            alter_replica_log_dirs.TopicResult(topic_name=name, partitions=partitions)
            async for name, partitions in pace.each(topics.items())
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
