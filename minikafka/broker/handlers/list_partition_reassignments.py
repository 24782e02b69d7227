"""ListPartitionReassignments 0: the reassignments in progress (KIP-455).

Null topics mean all. Partitions that are not being reassigned, or do not exist, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.reassignments import PartitionReassignment, list_reassignments
from ...protocol.errors import ErrorCode
from ...protocol.messages import list_partition_reassignments
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: list_partition_reassignments.Request
) -> list_partition_reassignments.Response:
    del context
    if request.topics is None:
        ongoing = list_reassignments(broker.image, None)
    else:
        ongoing = await _asked(broker, request.topics)
    by_topic: dict[str, list[list_partition_reassignments.OngoingPartitionReassignment]] = {}
    for one in ongoing:
        by_topic.setdefault(one.topic, []).append(
            list_partition_reassignments.OngoingPartitionReassignment(
                partition_index=one.partition,
                replicas=list(one.replicas),
                adding_replicas=list(one.adding_replicas),
                removing_replicas=list(one.removing_replicas),
            )
        )
    return list_partition_reassignments.Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[
            list_partition_reassignments.OngoingTopicReassignment(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )


async def _asked(
    broker: Broker, topics: list[list_partition_reassignments.Topic]
) -> list[PartitionReassignment]:
    pace = Pace(broker.clock.monotonic)
    keys = {
        (topic.name, number): None
        async for topic in pace.each(topics)
        async for number in pace.each(topic.partition_indexes)
    }
    return [
        found async for key in pace.each(keys) for found in list_reassignments(broker.image, [key])
    ]
