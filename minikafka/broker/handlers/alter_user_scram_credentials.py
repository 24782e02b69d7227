"""AlterUserScramCredentials 0: set and delete SCRAM credentials of users (KIP-554).

Each user succeeds or fails on its own, and may be named once. Credentials count on every broker as
soon as it has applied the decision; those who are logged in stay so. Unlike in Kafka, an empty salt
or salted password is UNACCEPTABLE_CREDENTIAL.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.decision import Decision, Refusal
from ...metadata.scram_credentials import Deletion, Upsertion, alter_scram_credentials
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_user_scram_credentials
from ..quorum.change_error import ChangeError
from ..system.pace import Pace

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: alter_user_scram_credentials.Request
) -> alter_user_scram_credentials.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    alterations: list[Deletion | Upsertion] = [
        Deletion(one.name, one.mechanism) async for one in pace.each(request.deletions)
    ]
    alterations += [
        Upsertion(
            one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password)
        )
        async for one in pace.each(request.upsertions)
    ]

    def decide(piece: list[Deletion | Upsertion]) -> Decision[dict[str, Refusal | None]]:
        return alter_scram_credentials(broker.image.scram_credentials, piece)

    results: dict[str, Refusal | None] = {}
    for piece in await pace.pieces(alterations, lambda one: one.user):
        try:
            results |= await broker.controller.change(partial(decide, piece))
        except ChangeError as error:
            failed = Refusal(ErrorCode(error.error_code), str(error))
            results |= dict.fromkeys((one.user for one in piece), failed)
    return alter_user_scram_credentials.Response(
        results=[
            alter_user_scram_credentials.Result(
                user=user,
                error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
                error_message=None if refusal is None else refusal.message,
            )
            async for user, refusal in pace.each(results.items())
        ]
    )
