"""DeleteAcls 1-3: as Kafka without an authorizer, SECURITY_DISABLED for each filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import delete_acls
from ..system.pace import Pace
from .authorization import NO_AUTHORIZER

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: delete_acls.Request
) -> delete_acls.Response:
    del context
    return delete_acls.Response(
        filter_results=await Pace(broker.clock.monotonic).every(
            delete_acls.FilterResult(
                error_code=ErrorCode.SECURITY_DISABLED,
                error_message=NO_AUTHORIZER,
                matching_acls=[],
            )
            for _ in request.filters
        )
    )
