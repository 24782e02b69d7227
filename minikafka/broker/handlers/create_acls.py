"""CreateAcls 1-3: as Kafka without an authorizer, SECURITY_DISABLED for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import create_acls
from ..system.pace import Pace
from .authorization import NO_AUTHORIZER

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: create_acls.Request
) -> create_acls.Response:
    del context
    return create_acls.Response(
        results=await Pace(broker.clock.monotonic).every(
            create_acls.AclCreationResult(
                error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
            )
            for _ in request.creations
        )
    )
