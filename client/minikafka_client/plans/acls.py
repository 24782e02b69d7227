"""Plans for administrators: create, describe and delete ACLs (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikafka.protocol.messages import create_acls as create_acls_api
from minikafka.protocol.messages import delete_acls as delete_acls_api
from minikafka.protocol.messages import describe_acls as describe_acls_api
from minikafka_client.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResourceType,
)
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, UnreadableResponseError, broker_error
from minikafka_client.plans.plan import ANY_BROKER, Call, Plan, call
from minikafka_client.plans.rounds import at_controller, in_rounds

_EVERYTHING = AclFilter()


def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> Plan[None]:
    """Add rules; one that exists already is a success.

    Raises:
        BrokerError: the only rule was refused, or there is no authorizer (SECURITY_DISABLED).
        SomeFailedError: some of several rules were refused.
    """

    def attempt(wanted: Sequence[Acl]) -> Plan[Mapping[Acl, KafkaError | None]]:
        def make_call(node: int, asked: Sequence[Acl]) -> Call:
            return Call(node, create_acls_api.Request(creations=[_creation(one) for one in asked]))

        def read(response: create_acls_api.Response) -> dict[Acl, KafkaError | None]:
            return {
                acl: _error(result.error_code, result.error_message, acl)
                for acl, result in zip(wanted, response.results, strict=False)
            }

        return (
            yield from at_controller(cluster, wanted, make_call, create_acls_api.Response, read)
        )

    yield from in_rounds(acls, attempt)


def describe_acls(cluster: Cluster, selection: AclFilter = _EVERYTHING) -> Plan[list[Acl]]:
    """The rules that a filter selects (all of them by default), sorted.

    Raises:
        BrokerError: the client may not see them, or there is no authorizer (SECURITY_DISABLED).
    """
    del cluster

    def attempt(_keys: Sequence[None]) -> Plan[Mapping[None, list[Acl] | KafkaError]]:
        request = describe_acls_api.Request(**_fields(selection))
        response = yield from call(ANY_BROKER, request, describe_acls_api.Response)
        error = _error(response.error_code, response.error_message, "ACLs")
        if error is not None:
            return {None: error}
        found = [
            _acl(
                (resource.resource_type, resource.resource_name, resource.pattern_type),
                (one.principal, one.host, one.operation, one.permission_type),
            )
            for resource in response.resources
            for one in resource.acls
        ]
        return {None: sorted(found)}

    return (yield from in_rounds([None], attempt))[None]


def delete_acls(
    cluster: Cluster, selections: Iterable[AclFilter]
) -> Plan[dict[AclFilter, list[Acl]]]:
    """Delete the rules that filters select; says which they were.

    Raises:
        BrokerError: the only filter was refused, or there is no authorizer (SECURITY_DISABLED).
        SomeFailedError: some of several filters were refused.
    """

    def attempt(wanted: Sequence[AclFilter]) -> Plan[Mapping[AclFilter, list[Acl] | KafkaError]]:
        def make_call(node: int, asked: Sequence[AclFilter]) -> Call:
            filters = [delete_acls_api.Filter(**_fields(one)) for one in asked]
            return Call(node, delete_acls_api.Request(filters=filters))

        def read(
            response: delete_acls_api.Response,
        ) -> dict[AclFilter, list[Acl] | KafkaError]:
            return {
                selection: _deleted(selection, result)
                for selection, result in zip(wanted, response.filter_results, strict=False)
            }

        return (
            yield from at_controller(cluster, wanted, make_call, delete_acls_api.Response, read)
        )

    return (yield from in_rounds(selections, attempt))


def _deleted(selection: AclFilter, result: delete_acls_api.FilterResult) -> list[Acl] | KafkaError:
    error = _error(result.error_code, result.error_message, selection)
    if error is not None:
        return error
    return sorted(
        _acl(
            (one.resource_type, one.resource_name, one.pattern_type),
            (one.principal, one.host, one.operation, one.permission_type),
        )
        for one in result.matching_acls
    )


def _error(code: int, message: str | None, what: object) -> KafkaError | None:
    return broker_error(code, message or f"{what}") if code else None


def _creation(acl: Acl) -> create_acls_api.AclCreation:
    return create_acls_api.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _fields(selection: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": selection.resource_type,
        "resource_name_filter": selection.resource_name,
        "pattern_type_filter": selection.pattern,
        "principal_filter": selection.principal,
        "host_filter": selection.host,
        "operation": selection.operation,
        "permission_type": selection.permission,
    }


def _acl(resource: tuple[int, str, int], rule: tuple[str, str, int, int]) -> Acl:
    kind, name, pattern = resource
    principal, host, operation, permission = rule
    try:
        return Acl(
            AclResourceType(kind),
            name,
            principal,
            AclOperation(operation),
            AclPermission(permission),
            host,
            AclPattern(pattern),
        )
    except ValueError as error:
        raise UnreadableResponseError(f"an ACL that this client does not know: {error}") from None
