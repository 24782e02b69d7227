"""ListPartitionReassignments 0: the partitions that are on the move (KIP-455).

Null topics mean all. Partitions that are not on the move, or do not exist, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.reassignments import list_reassignments
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List what goes on."""
    del context
    asked = None
    if request.topics is not None:
        asked = [
            (topic.name, number) for topic in request.topics for number in topic.partition_indexes
        ]
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for one in list_reassignments(broker.image, asked):
        by_topic.setdefault(one.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=one.partition,
                replicas=list(one.replicas),
                adding_replicas=list(one.adding_replicas),
                removing_replicas=list(one.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        topics=[
            OngoingTopicReassignment(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
