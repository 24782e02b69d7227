"""Kafka's StandardAuthorizer, rule by rule, and the index against a scan of all rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    kind_of,
)
from minikafka.security.acl_index import AclIndex
from minikafka.security.authorizer import DECISIONS_MAX, StandardAuthorizer
from minikafka.security.principal import Principal
from tests.security.rules import ACLS, FILTERS, QUESTIONS, Question, naive

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"


def rule(
    operation: Operation,
    name: str = "t",
    *,
    principal: str = "User:alice",
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def index_of(*acls: Acl) -> AclIndex:
    index = AclIndex()
    for one in acls:
        index.add(one)
    return index


def may(
    index: AclIndex,
    operation: Operation,
    name: str = "t",
    *,
    principal: Principal = ALICE,
    authorizer: StandardAuthorizer | None = None,
) -> bool:
    question = (principal, HOST, operation, ResourceType.TOPIC, name)
    return (authorizer or StandardAuthorizer()).decide(index, question)


def test_without_a_rule_nobody_may_do_anything() -> None:
    assert not may(index_of(), Operation.READ)


def test_everyone_may_where_no_rule_is_found_if_that_is_set() -> None:
    everyone = StandardAuthorizer(allows_without_acl=True)
    index = index_of(rule(Operation.READ, "other"), rule(Operation.READ, principal="User:bob"))
    assert may(index, Operation.READ, "free", authorizer=everyone)
    assert not may(index, Operation.READ, "t", authorizer=everyone)


def test_deny_wins_over_allow_and_over_everything_but_super_users() -> None:
    index = index_of(
        rule(Operation.READ),
        rule(Operation.READ, "*", permission=Permission.DENY, principal="User:*"),
    )
    assert not may(index, Operation.READ)
    assert may(index, Operation.READ, authorizer=StandardAuthorizer(frozenset({ALICE})))


@pytest.mark.parametrize(
    "held", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL]
)
def test_describe_comes_with_rights_to_the_resource(held: Operation) -> None:
    assert may(index_of(rule(held)), Operation.DESCRIBE)


def test_describe_configs_comes_with_alter_configs_and_with_nothing_else() -> None:
    assert may(index_of(rule(Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(index_of(rule(Operation.ALTER)), Operation.DESCRIBE_CONFIGS)


def test_to_deny_an_operation_does_not_deny_what_it_implies() -> None:
    index = index_of(rule(Operation.READ, permission=Permission.DENY), rule(Operation.WRITE))
    assert may(index, Operation.DESCRIBE)
    assert not may(index, Operation.READ)


def test_a_prefix_covers_longer_names_and_itself() -> None:
    index = index_of(rule(Operation.READ, "ab", pattern=PatternType.PREFIXED))
    assert may(index, Operation.READ, "ab")
    assert may(index, Operation.READ, "abc")
    assert not may(index, Operation.READ, "a")


def test_a_literal_star_covers_every_name_and_a_prefixed_one_does_not() -> None:
    assert may(index_of(rule(Operation.READ, "*")), Operation.READ, "any")
    prefixed = index_of(rule(Operation.READ, "*", pattern=PatternType.PREFIXED))
    assert not may(prefixed, Operation.READ, "any")


def test_a_rule_for_another_host_or_principal_does_not_count() -> None:
    assert not may(index_of(rule(Operation.READ, host="10.0.0.9")), Operation.READ)
    assert not may(index_of(rule(Operation.READ)), Operation.READ, principal=BOB)
    assert may(index_of(rule(Operation.READ, host=HOST)), Operation.READ)


def test_decisions_are_forgotten_when_rules_change_and_when_there_are_too_many() -> None:
    authorizer, index = StandardAuthorizer(), index_of()
    question = (ALICE, HOST, Operation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.decide(index, question)
    index.add(rule(Operation.READ))
    assert authorizer.remembered(index, question) is None
    assert authorizer.decide(index, question)
    assert authorizer.remembered(index, question) is True
    for number in range(DECISIONS_MAX):
        authorizer.decide(index, (ALICE, HOST, Operation.READ, ResourceType.TOPIC, f"{number}"))
    assert authorizer.remembered(index, question) is None


def anywhere(*acls: Acl, principal: Principal = ALICE, allows_without_acl: bool = False) -> bool:
    return StandardAuthorizer(allows_without_acl=allows_without_acl).decide_for_any(
        index_of(*acls), principal, HOST, Operation.WRITE, ResourceType.TOPIC
    )


def test_a_right_to_any_topic_is_found() -> None:
    assert anywhere(rule(Operation.WRITE, "a"))
    assert anywhere(rule(Operation.ALL, "*"))
    assert anywhere(rule(Operation.WRITE, "a", pattern=PatternType.PREFIXED))
    assert not anywhere(rule(Operation.READ, "a"))
    assert not anywhere(rule(Operation.WRITE, "a", host="10.0.0.9"))
    assert not anywhere(rule(Operation.WRITE, "a"), principal=BOB)


def test_a_right_to_any_topic_is_none_where_all_that_is_allowed_is_denied() -> None:
    deny = Permission.DENY
    prefixed = PatternType.PREFIXED
    allowed = rule(Operation.WRITE, "ab")
    assert not anywhere(allowed, rule(Operation.WRITE, "*", permission=deny))
    assert not anywhere(allowed, rule(Operation.ALL, "ab", permission=deny))
    assert not anywhere(allowed, rule(Operation.WRITE, "a", permission=deny, pattern=prefixed))
    assert anywhere(allowed, rule(Operation.WRITE, "abc", permission=deny, pattern=prefixed))
    assert anywhere(
        rule(Operation.WRITE, "ab", pattern=prefixed), rule(Operation.WRITE, "ab", permission=deny)
    )


def test_everyone_has_a_right_to_any_topic_where_no_rule_is_needed() -> None:
    assert anywhere(principal=BOB, allows_without_acl=True)


@given(
    acls=st.lists(ACLS, unique=True, max_size=12),
    removed=st.lists(st.integers(0, 11), max_size=4),
    questions=st.lists(QUESTIONS, min_size=1, max_size=8),
    allows_without_acl=st.booleans(),
)
def test_the_index_decides_as_a_scan_does(
    acls: list[Acl], removed: list[int], questions: list[Question], allows_without_acl: bool
) -> None:
    authorizer = StandardAuthorizer(allows_without_acl=allows_without_acl)
    index, present = index_of(*acls), list(acls)
    for place in [None, *removed]:
        if place is not None and place < len(acls) and acls[place] in present:
            present.remove(acls[place])
            index.remove(acls[place])
        for question in questions:
            expected = naive(present, question, allows_without_acl=allows_without_acl)
            assert authorizer.decide(index, question) == expected
            assert authorizer.decide(index, question) == expected


@given(acls=st.lists(ACLS, unique=True, max_size=12))
def test_an_index_without_rules_is_as_it_was_made(acls: list[Acl]) -> None:
    index = index_of(*acls)
    for one in acls:
        index.remove(one)
    assert not list(index.of_type(ResourceType.TOPIC))
    assert not list(index.of_type(ResourceType.GROUP))


@given(acl=ACLS, name=st.sampled_from(["a", "abc", "x"]))
def test_a_filter_of_what_matches_a_name_finds_the_rules_for_it(acl: Acl, name: str) -> None:
    found = AclFilter(resource_name=name, pattern_type=PatternType.MATCH).matches(acl)
    assert found == (acl in index_of(acl).of_resource(acl.resource_type, name))


@given(acl=ACLS, wanted=FILTERS)
def test_a_filter_demands_everything_that_it_names(acl: Acl, wanted: AclFilter) -> None:
    if wanted.matches(acl):
        assert wanted.resource_type in (ResourceType.ANY, acl.resource_type)
        assert wanted.principal in (None, acl.principal)
        assert wanted.host in (None, acl.host)
        assert wanted.operation in (Operation.ANY, acl.operation)
        assert wanted.permission in (Permission.ANY, acl.permission)
        exact = wanted.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        assert not exact or wanted.pattern_type is acl.pattern_type
        by_name = exact or wanted.pattern_type is PatternType.ANY
        assert not by_name or wanted.resource_name in (None, acl.resource_name)


@given(acl=ACLS)
def test_a_filter_without_demands_and_one_of_the_rule_itself_find_it(acl: Acl) -> None:
    assert AclFilter().matches(acl)
    assert AclFilter(*acl).matches(acl)


def test_a_number_that_the_protocol_does_not_have_is_unknown() -> None:
    assert kind_of(Operation, 99) is Operation.UNKNOWN
    assert kind_of(Operation, 3) is Operation.READ
