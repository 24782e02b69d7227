"""ShareGroupDescribe 1: state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import share_group_describe
from ..replicas.partition import PartitionError
from ..system.pace import Pace
from .authorization import GROUP_OPERATIONS

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: share_group_describe.Request
) -> share_group_describe.Response:
    del context
    found: list[share_group_describe.DescribedGroup] = []
    pace = Pace(broker.clock.monotonic)
    group_ids = {group_id: None async for group_id in pace.each(request.group_ids)}
    async for group_id in pace.each(group_ids):
        try:
            group = broker.groups.shard(group_id).describe_share_group(group_id)
        except PartitionError as error:
            group = share_group_describe.DescribedGroup(
                error_code=error.error_code, group_id=group_id
            )
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        found.append(group)
    return share_group_describe.Response(groups=found)
