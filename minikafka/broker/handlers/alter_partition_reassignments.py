"""AlterPartitionReassignments 0-1: move replicas to other brokers, or cancel that (KIP-455).

Null replicas cancel a reassignment. Version 1 can forbid a change of the replication factor
(KIP-860). The answer is sent when the reassignment has begun; ListPartitionReassignments shows its
progress.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Refusal
from ...metadata.reassignments import Reassignment, reassign_partitions
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_partition_reassignments
from ..quorum.change_error import ChangeError
from ..system.pace import PIECE_ENTRIES, Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_Results = list[tuple[str, int, Refusal | None]]


async def handle(
    broker: Broker, context: RequestContext, request: alter_partition_reassignments.Request
) -> alter_partition_reassignments.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    wanted = {
        (topic.name, one.partition_index): one.replicas
        async for topic in pace.each(request.topics)
        async for one in pace.each(topic.partitions)
    }
    moves = await pace.every(Reassignment(*place, replicas) for place, replicas in wanted.items())

    def decide(piece: list[Reassignment]) -> Decision[_Results]:
        return reassign_partitions(
            broker.image,
            piece,
            broker.settings.replication_rules(),
            may_change_factor=request.allow_replication_factor_change,
        )

    results: _Results = []
    try:
        for start in range(0, len(moves) or 1, PIECE_ENTRIES):
            piece = moves[start : start + PIECE_ENTRIES]
            results += await broker.controller.change(partial(decide, piece))
    except ChangeError as error:
        return alter_partition_reassignments.Response(
            error_code=error.error_code, error_message=error.message, responses=[]
        )
    by_topic: dict[str, list[alter_partition_reassignments.ReassignablePartitionResponse]] = {}
    async for topic, number, refusal in pace.each(results):
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
            async for topic, partitions in pace.each(by_topic.items())
        ],
    )
