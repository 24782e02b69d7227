"""StreamsGroupDescribe 0-1: state, topology, members and tasks of streams groups (KIP-1071).

Kafka keeps descriptions of topologies (v1, KIP-1331) only with a plug-in. minikafka does not keep
them, so the answer is Kafka's without the plug-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import streams_group_describe
from ..replicas.partition import PartitionError
from ..system.pace import Pace
from .authorization import GROUP_OPERATIONS

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: streams_group_describe.Request
) -> streams_group_describe.Response:
    del context
    found: list[streams_group_describe.DescribedGroup] = []
    pace = Pace(broker.clock.monotonic)
    group_ids = {group_id: None async for group_id in pace.each(request.group_ids)}
    async for group_id in pace.each(group_ids):
        try:
            group = broker.groups.shard(group_id).describe_streams_group(group_id)
        except PartitionError as error:
            group = streams_group_describe.DescribedGroup(
                error_code=error.error_code, group_id=group_id
            )
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        found.append(group)
    return streams_group_describe.Response(groups=found)
