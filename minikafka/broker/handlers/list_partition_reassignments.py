"""ListPartitionReassignments 0: the reassignments in progress (KIP-455).

Null topics mean all. Partitions that are not being reassigned, or do not exist, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.reassignments import list_reassignments
from ...protocol.errors import ErrorCode
from ...protocol.messages import list_partition_reassignments

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: list_partition_reassignments.Request
) -> list_partition_reassignments.Response:
    del context
    asked = None
    if request.topics is not None:
        asked = [
            (topic.name, number) for topic in request.topics for number in topic.partition_indexes
        ]
    by_topic: dict[str, list[list_partition_reassignments.OngoingPartitionReassignment]] = {}
    for one in list_reassignments(broker.image, asked):
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
