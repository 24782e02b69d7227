"""DescribeAcls 1-3: as Kafka without an authorizer, SECURITY_DISABLED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_acls
from .authorization import NO_AUTHORIZER

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_acls.Request
) -> describe_acls.Response:
    del broker, context, request
    return describe_acls.Response(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, resources=[]
    )
