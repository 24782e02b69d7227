"""Access control lists: who may do what to which resources, as Kafka describes it.

A binding (`Acl`) names resources by a literal name, ``*`` for all of a type, or a prefix. Filters
(`AclFilter`) select bindings. The numbers are those of the protocol.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

__all__ = [
    "ANY_PRINCIPAL",
    "CLUSTER_NAME",
    "OPERATIONS_OF",
    "WILDCARD",
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "kind_of",
]

WILDCARD: Final = "*"
"""The literal resource name, and the host, that stand for all."""
ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type cluster."""


class ResourceType(IntEnum):
    """What a rule is about. `ANY` is for filters, `UNKNOWN` for numbers that nobody knows."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a name is meant. Only `LITERAL` and `PREFIXED` can be stored; filters take all.

    `MATCH` selects the bindings that apply to a resource of the name, `ANY` those with the name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is done to a resource; `ALL` stands for every operation, `ANY` is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether a rule allows or denies; `ANY` is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS_OF: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that exist for a resource of a type."""


class Acl(NamedTuple):
    """One rule: a principal, coming from a host, may or may not do something to resources.

    Attributes:
        principal: ``TYPE:NAME``; ``User:*`` is everybody.
        host: an address, or ``*``.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Selects rules; None and the members called ANY select everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether it selects a rule."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name, kind = self.resource_name, self.pattern_type
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        return _covers(acl, name) if kind is PatternType.MATCH else name == acl.resource_name


def _covers(acl: Acl, name: str) -> bool:
    """Whether a rule applies to a resource of this name."""
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


_Kind = TypeVar("_Kind", ResourceType, PatternType, Operation, Permission)


def kind_of(kinds: type[_Kind], number: int) -> _Kind:
    """The member with a number of the protocol; its UNKNOWN if there is none."""
    try:
        return kinds(number)
    except ValueError:
        return kinds(0)
