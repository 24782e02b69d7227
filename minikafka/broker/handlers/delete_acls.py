"""DeleteAcls 1-3: remove the ACLs that filters select, and say which they were (KIP-140, KIP-290).

All filters are applied to the same ACLs, so one that several filters select is in the result of
each. One request has at most 1,000 filters and removes at most 10,000 ACLs, or none at all. Without
an authorizer there are no ACLs: SECURITY_DISABLED. Kafka closes the connection for a number that
the protocol does not have; here it is INVALID_REQUEST.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ...metadata.access_control import ACLS_PER_REQUEST_MAX, delete_acls, filter_problem
from ...metadata.decision import Decision, Refusal
from ...protocol.errors import ErrorCode
from ...protocol.messages import delete_acls as delete_acls_api
from ...security.acl import Acl
from ..quorum.change_error import ChangeError
from ..system.pace import PIECE_ENTRIES, Pace
from .acl_messages import filter_of
from .authorization import NO_AUTHORIZER

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

FILTERS_PER_REQUEST_MAX: Final = 1_000
"""Each is compared with every ACL."""
_Results = list[list[Acl] | Refusal]


async def handle(
    broker: Broker, context: RequestContext, request: delete_acls_api.Request
) -> delete_acls_api.Response:
    del context
    pace = Pace(broker.clock.monotonic)
    results: _Results
    if broker.authorization is None:
        results = [Refusal(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(request.filters)
    elif len(request.filters) > FILTERS_PER_REQUEST_MAX:
        refusal = Refusal(
            ErrorCode.INVALID_REQUEST,
            f"One request has at most {FILTERS_PER_REQUEST_MAX} filters of ACLs, "
            f"not {len(request.filters)}.",
        )
        results = [refusal] * len(request.filters)
    else:
        results = await _delete(broker, request, pace)
    return delete_acls_api.Response(
        filter_results=[await _result(one, pace) async for one in pace.each(results)]
    )


def entries_of(response: delete_acls_api.Response) -> int:
    return sum(1 + len(result.matching_acls) for result in response.filter_results)


async def _delete(broker: Broker, request: delete_acls_api.Request, pace: Pace) -> _Results:
    """Find out what to delete, and delete it, much of it in several decisions."""
    present = list(broker.image.access_control.by_id.items())
    removed: dict[bytes, None] = {}
    results: _Results = []
    for wanted in map(filter_of, request.filters):
        problem = filter_problem(wanted)
        if problem is not None:
            results.append(Refusal(ErrorCode.INVALID_REQUEST, problem))
            continue
        found = [(key, acl) async for key, acl in pace.each(present) if wanted.matches(acl)]
        removed |= dict.fromkeys(key for key, _ in found)
        results.append([acl for _, acl in found])
    if len(removed) > ACLS_PER_REQUEST_MAX:
        return [_too_many(len(removed))] * len(results)
    acl_ids = list(removed)

    def decide(start: int) -> Decision[None]:
        piece = acl_ids[start : start + PIECE_ENTRIES]
        return delete_acls(broker.image.access_control, piece)

    try:
        for start in range(0, len(acl_ids) or 1, PIECE_ENTRIES):
            await broker.controller.change(partial(decide, start))
    except ChangeError as error:
        return [Refusal(error.error_code, error.message)] * len(results)
    return results


def _too_many(count: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"The filters select {count} ACLs; one request deletes at most {ACLS_PER_REQUEST_MAX}.",
    )


async def _result(found: list[Acl] | Refusal, pace: Pace) -> delete_acls_api.FilterResult:
    if isinstance(found, Refusal):
        return delete_acls_api.FilterResult(
            error_code=found.error_code, error_message=found.message, matching_acls=[]
        )
    return delete_acls_api.FilterResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        matching_acls=[_deleted(acl) async for acl in pace.each(found)],
    )


def _deleted(acl: Acl) -> delete_acls_api.MatchingAcl:
    return delete_acls_api.MatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
