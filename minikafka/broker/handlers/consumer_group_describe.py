"""ConsumerGroupDescribe 0-1: state, epochs, members, assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.group.consumer.responses import not_described
from ...protocol.errors import ErrorCode
from ...protocol.messages import consumer_group_describe
from ..replicas.partition import PartitionError
from ..system.pace import Pace
from .authorization import GROUP_OPERATIONS

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: consumer_group_describe.Request
) -> consumer_group_describe.Response:
    del context
    found: list[consumer_group_describe.DescribedGroup] = []
    pace = Pace(broker.clock.monotonic)
    # One that is named twice is described once: it may have any number of members.
    group_ids = {group_id: None async for group_id in pace.each(request.group_ids)}
    async for group_id in pace.each(group_ids):
        try:
            group = broker.groups.shard(group_id).describe_consumer(group_id)
        except PartitionError as error:
            found.append(not_described(group_id, ErrorCode(error.error_code)))
            continue
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        found.append(group)
    return consumer_group_describe.Response(groups=found)
