"""ListGroups 0-5: the groups this broker coordinates, by state (KIP-518) and type (KIP-848).

COORDINATOR_LOAD_IN_PROGRESS if some shards are still loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import list_groups

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: list_groups.Request
) -> list_groups.Response:
    del context
    runtime = broker.groups.runtime
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if runtime.is_loading else ErrorCode.NONE
    groups = [
        group
        for shard in runtime.loaded_shards()
        for group in shard.list_groups(request.states_filter, request.types_filter)
    ]
    return list_groups.Response(error_code=code, groups=groups)
