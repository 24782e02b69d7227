"""All rules of a cluster, indexed by what they apply to."""

from __future__ import annotations

from collections.abc import Iterator

from .acl import WILDCARD, Acl, PatternType, ResourceType

__all__ = ["AclIndex"]

_Rules = dict[Acl, None]


class AclIndex:
    """Finds the rules for a resource without looking at the others.

    A prefix is found by cutting the resource's name to each length that a prefix of its type has,
    so it does not matter how many prefixes there are.

    Attributes:
        changes: how often a rule was added or removed: what was decided before a change is void.
    """

    __slots__ = ("_lengths", "_literal", "_prefixed", "changes")

    def __init__(self) -> None:
        self._literal: dict[tuple[ResourceType, str], _Rules] = {}
        self._prefixed: dict[tuple[ResourceType, str], _Rules] = {}
        self._lengths: dict[ResourceType, dict[int, int]] = {}
        self.changes = 0

    def add(self, acl: Acl) -> None:
        """Add a rule that is not there yet."""
        self.changes += 1
        key = (acl.resource_type, acl.resource_name)
        if acl.pattern_type is PatternType.PREFIXED:
            if key not in self._prefixed:
                lengths = self._lengths.setdefault(acl.resource_type, {})
                lengths[len(acl.resource_name)] = lengths.get(len(acl.resource_name), 0) + 1
            self._prefixed.setdefault(key, {})[acl] = None
        else:
            self._literal.setdefault(key, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        """Remove a rule that is there."""
        self.changes += 1
        key = (acl.resource_type, acl.resource_name)
        is_prefixed = acl.pattern_type is PatternType.PREFIXED
        rules = self._prefixed if is_prefixed else self._literal
        del rules[key][acl]
        if rules[key]:
            return
        del rules[key]
        if is_prefixed:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def of_resource(self, kind: ResourceType, name: str) -> Iterator[Acl]:
        """The rules that apply to a resource, for whichever principal."""
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for length in self._lengths.get(kind, ()):
            if length <= len(name):
                yield from self._prefixed.get((kind, name[:length]), ())

    def of_type(self, kind: ResourceType) -> Iterator[Acl]:
        """The rules for resources of a type."""
        for patterns in (self._literal, self._prefixed):
            for (of_kind, _), rules in patterns.items():
                if of_kind is kind:
                    yield from rules
