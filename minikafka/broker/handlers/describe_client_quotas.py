"""DescribeClientQuotas 0-1: there are no quotas, so the answer is empty (KIP-546).

Not implemented: AlterClientQuotas, and so the checks of filters that nothing could match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_client_quotas

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_client_quotas.Request
) -> describe_client_quotas.Response:
    del broker, context, request
    return describe_client_quotas.Response(
        error_code=ErrorCode.NONE, error_message=None, entries=[]
    )
