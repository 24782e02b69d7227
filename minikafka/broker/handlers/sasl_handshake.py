"""SaslHandshake 0-1: refused, because the client has logged in, or need not.

Where it is in order (on SASL listeners, before the first request and when a session ends, KIP-368),
the connection answers it: `minikafka.broker.security.authentication`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import sasl_handshake

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: sasl_handshake.Request
) -> sasl_handshake.Response:
    del broker, context, request
    return sasl_handshake.Response(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
