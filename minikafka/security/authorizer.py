"""Decides as Kafka's StandardAuthorizer does whether a principal may do something.

In this order:

1. A super user may do everything.
2. A rule with DENY for the operation, or for all of them, forbids it, whatever else there is.
3. A rule with ALLOW permits it. ALLOW of READ, WRITE, DELETE or ALTER permits DESCRIBE as well, and
   ALTER_CONFIGS permits DESCRIBE_CONFIGS; DENY implies nothing.
4. Otherwise it is forbidden, unless there is no rule for the resource at all (for nobody) and
   ``allow.everyone.if.no.acl.found`` is set.

A rule counts if its resource pattern, its principal (or ``User:*``) and its host (or ``*``) fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .acl import ANY_PRINCIPAL, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from .acl_index import AclIndex
from .principal import Principal

__all__ = ["DECISIONS_MAX", "StandardAuthorizer"]

DECISIONS_MAX: Final = 20_000
"""Decisions that are remembered; when there are more, all are forgotten."""

_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset(
        {
            Operation.ALL,
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
        }
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        {Operation.ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
    ),
}
"""The operations with ALLOW that permit another one."""
_ANY_RESOURCE: Final = "hardcode"
"""The name that Kafka asks for where a right to any resource of a type is enough."""

_Question = tuple[Principal, str, Operation, ResourceType, str]
_QuestionOfType = tuple[Principal, str, Operation, ResourceType]


class StandardAuthorizer:
    """Answers from an index of rules, and remembers its answers until the rules change.

    Args:
        super_users: may do everything.
        allows_without_acl: ``allow.everyone.if.no.acl.found``.
    """

    def __init__(
        self, super_users: frozenset[Principal] = frozenset(), *, allows_without_acl: bool = False
    ) -> None:
        self._super_users = super_users
        self._allows_without_acl = allows_without_acl
        self._decisions: dict[_Question, bool] = {}
        self._decisions_for_any: dict[_QuestionOfType, bool] = {}
        self._index = AclIndex()
        self._changes = 0

    def remembered(self, index: AclIndex, question: _Question) -> bool | None:
        """The answer to a question that was answered since the rules changed; None if it was not.

        Args:
            index: the rules as they are now.
            question: principal, host, operation, type and name of the resource.
        """
        if index is not self._index or index.changes != self._changes:
            self._index, self._changes = index, index.changes
            self._decisions, self._decisions_for_any = {}, {}
        return self._decisions.get(question)

    def decide(self, index: AclIndex, question: _Question) -> bool:
        """Whether a principal from a host may do something to a resource; see `remembered`."""
        decision = self.remembered(index, question)
        if decision is None:
            decision = self._decide(index, question)
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions = {}
            self._decisions[question] = decision
        return decision

    def _decide(self, index: AclIndex, question: _Question) -> bool:
        principal, host, operation, kind, name = question
        if principal in self._super_users:
            return True
        implying = _IMPLYING.get(operation, frozenset({Operation.ALL, operation}))
        is_allowed = has_rules = False
        principals = (str(principal), ANY_PRINCIPAL)
        for acl in index.of_resource(kind, name):
            has_rules = True
            if acl.principal not in principals or acl.host not in (WILDCARD, host):
                continue
            if acl.permission is Permission.ALLOW:
                is_allowed = is_allowed or acl.operation in implying
            elif acl.operation in (Operation.ALL, operation):
                return False
        return is_allowed or (not has_rules and self._allows_without_acl)

    def decide_for_any(
        self,
        index: AclIndex,
        principal: Principal,
        host: str,
        operation: Operation,
        kind: ResourceType,
    ) -> bool:
        """Whether a principal may do something to at least one resource of a type.

        As in Kafka, a rule for the operation itself or for all is needed, no implied one; and
        whether such a resource exists does not matter.
        """
        if self.decide(index, (principal, host, operation, kind, _ANY_RESOURCE)):
            return True
        question = (principal, host, operation, kind)
        decision = self._decisions_for_any.get(question)
        if decision is None:
            decision = _decide_for_any(index, question)
            if len(self._decisions_for_any) >= DECISIONS_MAX:
                self._decisions_for_any = {}
            self._decisions_for_any[question] = decision
        return decision


def _decide_for_any(index: AclIndex, question: _QuestionOfType) -> bool:
    denied: set[tuple[PatternType, str]] = set()
    allowed: set[tuple[PatternType, str]] = set()
    for acl in _of(index, question):
        pattern = (acl.pattern_type, acl.resource_name)
        (allowed if acl.permission is Permission.ALLOW else denied).add(pattern)
    everything = (PatternType.LITERAL, WILDCARD)
    if everything in denied:
        return False
    return everything in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)


def _of(index: AclIndex, question: _QuestionOfType) -> Iterator[Acl]:
    principal, host, operation, kind = question
    principals = (str(principal), ANY_PRINCIPAL)
    for acl in index.of_type(kind):
        if (
            acl.principal in principals
            and acl.host in (WILDCARD, host)
            and acl.operation in (Operation.ALL, operation)
        ):
            yield acl


def _is_dominated(pattern: tuple[PatternType, str], denied: set[tuple[PatternType, str]]) -> bool:
    """Whether every resource of a pattern is denied by one other pattern."""
    kind, name = pattern
    if kind is PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
