"""DescribeGroups 0-6: state, members and assignments of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_groups
from ..replicas.partition import PartitionError
from ..system.pace import Pace
from .authorization import GROUP_OPERATIONS

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_groups.Request
) -> describe_groups.Response:
    found: list[describe_groups.DescribedGroup] = []
    pace = Pace(broker.clock.monotonic)
    # One that is named twice is described once: it may have any number of members.
    group_ids = {group_id: None async for group_id in pace.each(request.groups)}
    async for group_id in pace.each(group_ids):
        try:
            group = broker.groups.shard(group_id).describe(group_id, context.api_version)
        except PartitionError as error:
            found.append(_refused(group_id, error))
            continue
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        found.append(group)
    return describe_groups.Response(groups=found)


def _refused(group_id: str, error: PartitionError) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(
        error_code=error.error_code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
