"""DescribeClientQuotas 0-1: the quotas of users, clients and addresses (KIP-546).

Any broker answers, from its metadata image. The filter has at most one part for each entity type:
an exact name, the default, or any name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.client_quotas import FilterPart, matching_quotas
from ...metadata.decision import Refusal
from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_client_quotas
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_client_quotas.Request
) -> describe_client_quotas.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    parts = [
        FilterPart(one.entity_type, one.match_type, one.match)
        async for one in pace.each(request.components)
    ]
    found = matching_quotas(broker.image.client_quotas, parts, strict=request.strict)
    if isinstance(found, Refusal):
        return describe_client_quotas.Response(
            error_code=found.error_code, error_message=found.message, entries=None
        )
    return describe_client_quotas.Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        entries=[
            describe_client_quotas.EntryData(
                entity=[
                    describe_client_quotas.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                values=[
                    describe_client_quotas.ValueData(key=key, value=value)
                    for key, value in limits.items()
                ],
            )
            async for entity, limits in pace.each(found)
        ],
    )
