"""Access control lists, as the admin clients create, find and delete them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["Acl", "AclFilter", "AclOperation", "AclPattern", "AclPermission", "AclResourceType"]


class AclResourceType(IntEnum):
    """What a rule is about; ANY is for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """How the name of a resource is meant: as it is (``*`` is all names), or as a prefix.

    ANY and MATCH are for filters: rules of this name, and rules that apply to a resource of it.
    """

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What is done to a resource; ANY is for filters."""

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


class AclPermission(IntEnum):
    """Whether a rule allows or denies; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule.

    Attributes:
        resource_name: the cluster is called ``kafka-cluster``.
        principal: ``User:alice``; ``User:*`` is everybody.
        host: an address, or ``*``.
    """

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern: AclPattern = AclPattern.LITERAL


class AclFilter(NamedTuple):
    """Selects rules; None and ANY select everything."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern: AclPattern = AclPattern.ANY
