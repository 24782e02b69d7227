"""DescribeGroups 0-6: state, members and assignments of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ..partition import PartitionError
from .authorization import GROUP_OPERATIONS

if TYPE_CHECKING:
    from ..broker import Broker
    from ..connection import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe each group."""
    found: list[DescribedGroup] = []
    for group_id in request.groups:
        try:
            group = broker.groups.shard(group_id).describe(group_id, context.api_version)
        except PartitionError as error:
            found.append(_refused(group_id, error))
            continue
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        found.append(group)
    return DescribeGroupsResponse(groups=found)


def _refused(group_id: str, error: PartitionError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.error_code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )
