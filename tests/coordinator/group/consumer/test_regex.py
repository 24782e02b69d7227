"""Subscriptions by regular expression are RE2's, and match whole names."""

from __future__ import annotations

import pytest

from minikafka.coordinator.group.consumer.regex import (
    PATTERN_CHARACTERS_MAX,
    InvalidRegexError,
    compile_regex,
)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("fl.*", "flights", True),
        ("fl", "flights", False),
        ("ights", "flights", False),
        ("^flights$", "flights", True),
        (r"(?i)FLIGHTS|airports", "flights", True),
        (r"[[:alpha:]]+-\d{2}", "leg-07", True),
        ("", "flights", False),
    ],
)
def test_a_whole_name_matches(pattern: str, name: str, matches: bool) -> None:
    assert compile_regex(pattern)(name) is matches


@pytest.mark.parametrize("pattern", [r"(a)\1", "a(?=b)", "a(?!b)", "(?<=a)b", "(", "[", "a**", "*"])
def test_what_re2_refuses_is_invalid(pattern: str) -> None:
    with pytest.raises(InvalidRegexError):
        compile_regex(pattern)


def test_a_pattern_has_a_length_and_a_size() -> None:
    compile_regex("a" * PATTERN_CHARACTERS_MAX)
    with pytest.raises(InvalidRegexError, match="4097 characters"):
        compile_regex("a" * (PATTERN_CHARACTERS_MAX + 1))
    with pytest.raises(InvalidRegexError):
        compile_regex("((a{100}){100}){100}")


def test_no_pattern_takes_exponential_time() -> None:
    assert not compile_regex("(a+)+b")("a" * 249)
