"""DescribeUserScramCredentials 0: which SCRAM credentials users have (KIP-554).

Null or no users ask for all. A user that is named twice is DUPLICATE_RESOURCE, one without
credentials RESOURCE_NOT_FOUND.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_user_scram_credentials
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_SHOWN_CHARACTERS = 100


async def handle(
    broker: Broker, context: RequestContext, request: describe_user_scram_credentials.Request
) -> describe_user_scram_credentials.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    named = Counter([one.name async for one in pace.each(request.users or [])])
    asked = named or Counter(broker.image.scram_credentials.users())
    return describe_user_scram_credentials.Response(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[_result(broker, user, count) async for user, count in pace.each(asked.items())],
    )


def _result(broker: Broker, user: str, count: int) -> describe_user_scram_credentials.Result:
    credentials = broker.image.scram_credentials.of_user(user)
    code, message = ErrorCode.NONE, None
    shown = user[:_SHOWN_CHARACTERS]
    if count > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"User {shown!r} is in the request twice."
    elif not credentials:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"There are no SCRAM credentials of user {shown!r}."
    return describe_user_scram_credentials.Result(
        user=user,
        error_code=code,
        error_message=message,
        credential_infos=[]
        if code is not ErrorCode.NONE
        else [
            describe_user_scram_credentials.CredentialInfo(
                mechanism=mechanism, iterations=credential.iterations
            )
            for mechanism, credential in credentials.items()
        ],
    )
