"""`subscribePattern` finds what `java.util.regex` finds, or refuses the pattern."""

from __future__ import annotations

import pytest

from pyspark_minikafka.topic_pattern import PatternError, topic_matcher

NAMES = ("orders", "orders-eu", "Orders_2", "a.b-c", "bcb", "007")


def found(pattern: str) -> set[str]:
    matches = topic_matcher(pattern)
    return {name for name in NAMES if matches(name)}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("rde", {"orders", "orders-eu", "Orders_2"}),
        ("^orders$", {"orders"}),
        ("orders-.*", {"orders-eu"}),
        ("(?i)^orders.2", {"Orders_2"}),
        ("(?i)ORDERS|BCB", {"orders", "orders-eu", "Orders_2", "bcb"}),
        ("((?i)ORDERS)_|BCB", {"Orders_2"}),
        ("^[a-z&&[^o]]+$", {"bcb"}),
        ("^[a-c&&[b-z]]", {"bcb"}),
        ("[^[a-z][A-Z]]", {"orders-eu", "Orders_2", "a.b-c", "007"}),
        ("^[]a]", {"a.b-c"}),
        (r"^\p{Upper}", {"Orders_2"}),
        (r"\P{Alnum}", {"orders-eu", "Orders_2", "a.b-c"}),
        (r"\Q.b-\E", {"a.b-c"}),
        (r"\x2d|\x{5f}", {"orders-eu", "Orders_2", "a.b-c"}),
        (r"^(?<first>.).\k<first>\z", {"bcb"}),
        (r"(.)\1", {"007"}),
        ("^[a-z]*+s", set()),
        ("^(?>[a-z]*)-", {"orders-eu"}),
        ("s(?!-|$)", {"Orders_2"}),
        (r"[\s&&\w]", set()),
    ],
)
def test_a_pattern_finds_the_topics_that_java_finds(pattern: str, names: set[str]) -> None:
    assert found(pattern) == names


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "*a",
        "[a-",
        "[b-a]",
        "[a&&]",
        "[a&&&b]",
        "[a&&[b]c]",
        "a{,2}",
        "{",
        "(?x) a b",
        "(?|a)",
        r"\G",
        r"\R",
        r"\k<none>",
        r"\1",
        r"\p{javaMirrored}",
        r"(?i)\p{Lower}",
        r"(?<=a+)b",
        "\\",
    ],
)
def test_untranslatable_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        topic_matcher(pattern)
