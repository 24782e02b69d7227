"""DescribeUserScramCredentials 0: there are no users, so that none of those named exists (KIP-554).

Not implemented: AlterUserScramCredentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_user_scram_credentials
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_user_scram_credentials.Request
) -> describe_user_scram_credentials.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    users = {one.name: None async for one in pace.each(request.users or [])}
    return describe_user_scram_credentials.Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=await pace.every(
            describe_user_scram_credentials.Result(
                user=user,
                error_code=ErrorCode.RESOURCE_NOT_FOUND,
                error_message=f"There are no SCRAM credentials of user {user[:100]!r}.",
                credential_infos=[],
            )
            for user in users
        ),
    )
