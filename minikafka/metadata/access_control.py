"""The ACLs of a cluster: what the image has of them, and what the controller decides about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ..protocol.errors import ErrorCode
from ..security.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    kind_of,
)
from ..security.acl_index import AclIndex
from .decision import Decision, Refusal
from .records import AclRecord, MetadataRecord, RemoveAclRecord

__all__ = ["ACLS_PER_REQUEST_MAX", "AccessControl", "create_acls", "delete_acls"]

ACLS_PER_REQUEST_MAX: Final = 10_000
"""How many one request may create or delete; as in Kafka."""


class AccessControl:
    """All ACLs, by the ids that the log calls them by.

    Attributes:
        by_id: ids have 16 bytes.
        index: finds the ACLs for a resource.
    """

    __slots__ = ("_ids", "by_id", "index")

    def __init__(self) -> None:
        self.by_id: dict[bytes, Acl] = {}
        self.index = AclIndex()
        self._ids: dict[Acl, bytes] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessControl) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._ids

    def add(self, record: AclRecord) -> bool:
        """Replay a record; False if the ACL or its id is there already."""
        acl = _acl(record)
        if record.acl_id in self.by_id or acl in self._ids:
            return False
        self.by_id[record.acl_id] = acl
        self._ids[acl] = record.acl_id
        self.index.add(acl)
        return True

    def remove(self, acl_id: bytes) -> bool:
        """Replay a removal; False if there is no such ACL."""
        acl = self.by_id.pop(acl_id, None)
        if acl is None:
            return False
        del self._ids[acl]
        self.index.remove(acl)
        return True

    def records(self) -> Iterator[AclRecord]:
        """A snapshot."""
        for acl_id, acl in self.by_id.items():
            yield _record(acl_id, acl)


def _acl(record: AclRecord) -> Acl:
    return Acl(
        kind_of(ResourceType, record.resource_type),
        record.resource_name,
        kind_of(PatternType, record.pattern_type),
        record.principal,
        record.host,
        kind_of(Operation, record.operation),
        kind_of(Permission, record.permission),
    )


def _record(acl_id: bytes, acl: Acl) -> AclRecord:
    return AclRecord(
        acl_id,
        int(acl.resource_type),
        acl.resource_name,
        int(acl.pattern_type),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )


def create_acls(
    present: AccessControl, wanted: Sequence[Acl], new_id: Callable[[], bytes]
) -> Decision[list[Refusal | None]]:
    """Create ACLs; the result has why each was refused, or None. One that exists is created."""
    records: list[MetadataRecord] = []
    results: list[Refusal | None] = []
    created: set[Acl] = set()
    for acl in wanted:
        problem = _problem(acl)
        results.append(None if problem is None else Refusal(ErrorCode.INVALID_REQUEST, problem))
        if problem is None and acl not in present and acl not in created:
            created.add(acl)
            records.append(_record(new_id(), acl))
    return Decision(records, results)


def _problem(acl: Acl) -> str | None:
    """What is wrong with an ACL; None if nothing is."""
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"An ACL cannot be for resources of type {acl.resource_type.name}."
    if not acl.resource_name:
        return "The resource name of an ACL must not be empty; * stands for all."
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return (
            f"The only resource of type CLUSTER is {CLUSTER_NAME}, not {_short(acl.resource_name)}."
        )
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"The pattern of an ACL is LITERAL or PREFIXED, not {acl.pattern_type.name}."
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"An ACL cannot be for the operation {acl.operation.name}."
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"The permission of an ACL is ALLOW or DENY, not {acl.permission.name}."
    if ":" not in acl.principal:
        return f"A principal is TYPE:NAME, as in User:alice, not {_short(acl.principal)}."
    return None


def _short(text: str) -> str:
    return f"{text[:100]!r}"


def delete_acls(present: AccessControl, acl_ids: Iterable[bytes]) -> Decision[None]:
    """Delete ACLs by their ids; those that are gone already do not matter."""
    return Decision([RemoveAclRecord(one) for one in acl_ids if one in present.by_id], None)


def filter_problem(wanted: AclFilter) -> str | None:
    """What is wrong with a filter; None if nothing is."""
    unknown = {
        "resource type": wanted.resource_type,
        "pattern type": wanted.pattern_type,
        "operation": wanted.operation,
        "permission": wanted.permission,
    }
    for what, kind in unknown.items():
        if kind == 0:
            return f"The {what} of a filter of ACLs is not known here."
    return None
