"""AlterPartitionReassignments 0-1: move replicas to other brokers, or cancel that (KIP-455).

Null replicas cancel a reassignment. Version 1 can forbid a change of the replication factor
(KIP-860). The answer is sent when the reassignment has begun; ListPartitionReassignments shows its
progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Refusal
from ...metadata.reassignments import Reassignment, reassign_partitions
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_partition_reassignments
from ..quorum.change_error import ChangeError

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: alter_partition_reassignments.Request
) -> alter_partition_reassignments.Response:
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
            broker.settings.replication_rules(),
            may_change_factor=request.allow_replication_factor_change,
        )

    try:
        results = await broker.controller.change(decide)
    except ChangeError as error:
        return alter_partition_reassignments.Response(
            error_code=error.error_code, error_message=error.message, responses=[]
        )
    by_topic: dict[str, list[alter_partition_reassignments.ReassignablePartitionResponse]] = {}
    for topic, number, refusal in results:
        by_topic.setdefault(topic, []).append(
            alter_partition_reassignments.ReassignablePartitionResponse(
                partition_index=number,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
        )
    return alter_partition_reassignments.Response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic, partitions=partitions
            )
            for topic, partitions in by_topic.items()
        ],
    )
