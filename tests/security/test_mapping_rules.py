"""``ssl.principal.mapping.rules``: the cases of KIP-371, and what is malformed."""

from __future__ import annotations

import pytest

from minikafka.security.mapping_rules import MappingRules, NoRuleMatchesError

RULES = r"""
RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,
RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/U ,
RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/,
DEFAULT
"""


@pytest.mark.parametrize(
    ("subject", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "DUKE@SME"),
        ("cn=JohnDoe,OU=Sme,O=Corp", "JohnDoe"),
        ("OU=JavaSoft,O=Sun", "OU=JavaSoft,O=Sun"),
    ],
)
def test_the_first_rule_that_matches_counts(subject: str, principal: str) -> None:
    assert MappingRules(RULES).name_of(subject) == principal


@pytest.mark.parametrize(
    ("rules", "subject", "principal"),
    [
        ("", "CN=a", None),
        ("DEFAULT", "CN=a", "CN=a"),
        ("RULE:CN=(\\w+)/$1/", "CN=a,O=b", None),  # the whole name has to match
        ("RULE:^CN=(\\w+),.*$/$1-$2-$10/", "CN=a,O=b", "a-$2-a0"),
        ("RULE:^CN=(\\w+)$/\\$1/", "CN=a", "$1"),
        ("RULE:^CN=(?<name>\\w+)\\/x$/$1/", "CN=a/x", "a"),
        ("RULE:.*/x/", "CN=a", "xx"),  # as in Java, the empty end matches, too
        ("RULE:^CN=(a,b)$/$1/,DEFAULT", "CN=a,b", "a,b"),
    ],
)
def test_patterns_and_replacements(rules: str, subject: str, principal: str | None) -> None:
    if principal is None:
        with pytest.raises(NoRuleMatchesError, match="add one, or DEFAULT"):
            MappingRules(rules).name_of(subject)
    else:
        assert MappingRules(rules).name_of(subject) == principal


@pytest.mark.parametrize(
    "text", ["default", "RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "DEFAULT,x"]
)
def test_malformed_rules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules: "):
        MappingRules(text)
