"""ListGroups 0-5: the groups this broker coordinates, by state (KIP-518) and type (KIP-848).

COORDINATOR_LOAD_IN_PROGRESS if some shards are still loading.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ...coordinator.group.classic.states import GroupState
from ...coordinator.group.group import GroupType
from ...protocol.errors import ErrorCode
from ...protocol.messages import list_groups
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: list_groups.Request
) -> list_groups.Response:
    del context
    runtime = broker.groups.runtime
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if runtime.is_loading else ErrorCode.NONE
    pace = Pace(broker.clock.monotonic)
    states = await _useful(request.states_filter, pace)
    types = await _useful(request.types_filter, pace)
    groups = [
        group
        async for shard in pace.each(runtime.loaded_shards())
        for group in shard.list_groups(states, types)
    ]
    return list_groups.Response(error_code=code, groups=groups)


async def _useful(names: list[str], pace: Pace) -> set[str]:
    """A filter without what it repeats; a filter is not empty if nothing matches it."""
    known = {
        *(type_.value for type_ in GroupType),
        *(state.value.lower() for state in GroupState),
        "assigning",
        "reconciling",
    }
    wanted = {name.lower() async for name in pace.each(names)}
    return wanted & known or set(islice(wanted, 1))
