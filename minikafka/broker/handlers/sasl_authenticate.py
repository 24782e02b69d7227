"""SaslAuthenticate 0-2: refused, because the client has logged in, or need not.

Where it is in order, the connection answers it: `minikafka.broker.security.authentication`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import sasl_authenticate

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: sasl_authenticate.Request
) -> sasl_authenticate.Response:
    del broker, context, request
    return sasl_authenticate.Response(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
