"""CreateAcls 1-3: add ACLs (KIP-140, KIP-290).

Each succeeds or fails on its own, and one that exists is a success. The resource must have a type
and a name (of the cluster, ``kafka-cluster``), the pattern must be literal or prefixed. One request
adds at most 10,000. Without an authorizer there are no ACLs: SECURITY_DISABLED. Kafka closes the
connection for a number that the protocol does not have; here it is INVALID_REQUEST.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...metadata.access_control import ACLS_PER_REQUEST_MAX, create_acls
from ...metadata.decision import Decision, Refusal
from ...protocol.errors import ErrorCode
from ...protocol.messages import create_acls as create_acls_api
from ...security.acl import Acl
from ..quorum.change_error import ChangeError
from ..system.pace import PIECE_ENTRIES, Pace
from .acl_messages import acl_of
from .authorization import NO_AUTHORIZER

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

_Results = list[Refusal | None]


async def handle(
    broker: Broker, context: RequestContext, request: create_acls_api.Request
) -> create_acls_api.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    results: _Results = []
    refusal: Refusal | None = None
    if broker.authorization is None:
        refusal = Refusal(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    elif len(request.creations) > ACLS_PER_REQUEST_MAX:
        refusal = Refusal(
            ErrorCode.INVALID_REQUEST,
            f"One request creates at most {ACLS_PER_REQUEST_MAX} ACLs, "
            f"not {len(request.creations)}.",
        )
    if refusal is None:
        results = await _create(broker, [acl_of(one) for one in request.creations])
    else:
        results = [refusal] * len(request.creations)
    return create_acls_api.Response(
        results=await pace.every(
            create_acls_api.AclCreationResult(
                error_code=ErrorCode.NONE if one is None else one.error_code,
                error_message=None if one is None else one.message,
            )
            for one in results
        )
    )


async def _create(broker: Broker, wanted: list[Acl]) -> _Results:
    """Create them, those of a large request in several decisions."""

    def decide(piece: list[Acl]) -> Decision[_Results]:
        return create_acls(broker.image.access_control, piece, broker.ids.topic_id)

    results: _Results = []
    for start in range(0, len(wanted), PIECE_ENTRIES):
        piece = wanted[start : start + PIECE_ENTRIES]
        try:
            results += await broker.controller.change(partial(decide, piece))
        except ChangeError as error:
            results += [Refusal(error.error_code, error.message)] * len(piece)
    return results
