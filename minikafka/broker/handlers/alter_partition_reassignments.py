"""AlterPartitionReassignments 0-1: move replicas to other brokers, or stop moving (KIP-455).

Null replicas cancel what goes on. Version 1 can forbid another number of replicas (KIP-860). The
answer is sent when the reassignment has begun; ListPartitionReassignments shows how it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Refusal
from ...metadata.reassignments import Reassignment, reassign_partitions
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin, replace or cancel."""
    del context
    wanted = [
        Reassignment(topic.name, one.partition_index, one.replicas)
        for topic in request.topics
        for one in topic.partitions
    ]

    def decide() -> Decision[list[tuple[str, int, Refusal | None]]]:
        return reassign_partitions(
            broker.image,
            wanted,
            broker.replication_rules(),
            may_change_factor=request.allow_replication_factor_change,
        )

    try:
        results = await broker.change(decide)
    except ChangeError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=error.error_code, error_message=error.message, responses=[]
        )
    by_topic: dict[str, list[ReassignablePartitionResponse]] = {}
    for topic, number, refusal in results:
        by_topic.setdefault(topic, []).append(
            ReassignablePartitionResponse(
                partition_index=number,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            ReassignableTopicResponse(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
