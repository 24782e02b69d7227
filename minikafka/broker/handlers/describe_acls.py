"""DescribeAcls 1-3: the ACLs that a filter selects, by resource (KIP-140, KIP-290).

As in Kafka, every broker answers what it knows, and without an authorizer there are no ACLs:
SECURITY_DISABLED. A filter with a number that the protocol does not have is INVALID_REQUEST; Kafka
closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.access_control import filter_problem
from ...protocol.errors import ErrorCode
from ...protocol.messages import describe_acls
from ...security.acl import PatternType, ResourceType
from ..system.pace import Pace
from .acl_messages import filter_of
from .authorization import NO_AUTHORIZER

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext


async def handle(
    broker: Broker, context: RequestContext, request: describe_acls.Request
) -> describe_acls.Response:
    del context
    if broker.authorization is None:
        return _refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    wanted = filter_of(request)
    problem = filter_problem(wanted)
    if problem is not None:
        return _refused(ErrorCode.INVALID_REQUEST, problem)
    found: dict[tuple[ResourceType, str, PatternType], describe_acls.Resource] = {}
    pace = Pace(broker.clock.monotonic)
    async for acl in pace.each(list(broker.image.access_control.by_id.values())):
        if not wanted.matches(acl):
            continue
        kind, name, pattern, *_ = acl
        resource = found.get((kind, name, pattern))
        if resource is None:
            resource = found[kind, name, pattern] = describe_acls.Resource(
                resource_type=kind, resource_name=name, pattern_type=pattern, acls=[]
            )
        resource.acls.append(
            describe_acls.AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return describe_acls.Response(
        error_code=ErrorCode.NONE, error_message=None, resources=list(found.values())
    )


def entries_of(response: describe_acls.Response) -> int:
    return sum(1 + len(resource.acls) for resource in response.resources)


def _refused(code: ErrorCode, message: str) -> describe_acls.Response:
    return describe_acls.Response(error_code=code, error_message=message, resources=[])
