"""Random rules with few values, so that they meet, and an authorizer that looks at all of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikafka.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from minikafka.security.principal import Principal

NAMES = ["a", "ab", "abc", "b", "*"]
KINDS = [ResourceType.TOPIC, ResourceType.GROUP]
HOSTS = ["10.0.0.1", "10.0.0.2"]
OPERATIONS = [one for one in Operation if one > Operation.ALL]
ACLS = st.builds(
    Acl,
    resource_type=st.sampled_from(KINDS),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from([*HOSTS, "*"]),
    operation=st.sampled_from([Operation.ALL, *OPERATIONS]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
QUESTIONS = st.tuples(
    st.sampled_from([Principal("User", "alice"), Principal("User", "bob"), Principal("User", "c")]),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(KINDS),
    st.sampled_from(["a", "ab", "abcd", "b", "x"]),
)
FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from([ResourceType.ANY, *KINDS]),
    resource_name=st.none() | st.sampled_from(NAMES),
    pattern_type=st.sampled_from([one for one in PatternType if one]),
    principal=st.none() | st.just("User:alice"),
    host=st.none() | st.just("*"),
    operation=st.sampled_from([Operation.ANY, Operation.ALL, Operation.READ]),
    permission=st.sampled_from([Permission.ANY, Permission.ALLOW]),
)

_IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
Question = tuple[Principal, str, Operation, ResourceType, str]


def naive(acls: Sequence[Acl], question: Question, *, allows_without_acl: bool) -> bool:
    """Kafka's rules, said once more and without an index."""
    principal, host, operation, kind, name = question
    fitting = [
        one
        for one in acls
        if one.resource_type == kind
        and (
            name.startswith(one.resource_name)
            if one.pattern_type is PatternType.PREFIXED
            else one.resource_name in (name, "*")
        )
    ]
    if not fitting:
        return allows_without_acl
    mine = [
        one
        for one in fitting
        if one.principal in (f"User:{principal.name}", "User:*") and one.host in (host, "*")
    ]
    exactly = {operation, Operation.ALL}
    if any(one.permission is Permission.DENY and one.operation in exactly for one in mine):
        return False
    wide = exactly | _IMPLIED.get(operation, set())
    return any(one.permission is Permission.ALLOW and one.operation in wide for one in mine)
