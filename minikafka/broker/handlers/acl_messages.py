"""ACLs and filters of them, as requests have them."""

from __future__ import annotations

from typing import Protocol

from ...security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    kind_of,
)

__all__ = ["acl_of", "filter_of"]


class _Creation(Protocol):
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class _Filter(Protocol):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def acl_of(creation: _Creation) -> Acl:
    """The ACL that CreateAcls asks for."""
    return Acl(
        kind_of(ResourceType, creation.resource_type),
        creation.resource_name,
        kind_of(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        kind_of(Operation, creation.operation),
        kind_of(Permission, creation.permission_type),
    )


def filter_of(wanted: _Filter) -> AclFilter:
    """The filter of DescribeAcls, or one of those of DeleteAcls."""
    return AclFilter(
        kind_of(ResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        kind_of(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        kind_of(Operation, wanted.operation),
        kind_of(Permission, wanted.permission_type),
    )
