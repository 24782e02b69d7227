"""``ssl.principal.mapping.rules``: what principal a certificate's name becomes (KIP-371).

The rules are ``DEFAULT`` (the name as it is) and ``RULE:pattern/replacement/`` with an optional
``L`` or ``U`` for lower and upper case, separated by commas; a slash or backslash in a pattern has
a backslash before it. The pattern must match the whole name; the first rule that matches counts.

A name whose characters a pattern has to be tried on again and again could keep the broker busy, but
the patterns are the administrator's, and a name comes from a certificate that the administrator's
authority signed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["MappingRules", "NoRuleMatchesError"]

_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?))\s*(?:,\s*|$)")
_GROUP: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoRuleMatchesError(ValueError):
    """No rule applies to a name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Every match is replaced, as in Kafka: with `.*` also the empty one at the end.
        found = self.pattern.sub(lambda match: _expand(self.replacement, match), name)
        if self.case == "L":
            return found.lower()
        return found.upper() if self.case == "U" else found


def _expand(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement: ``$1`` is a group, a backslash takes the meaning of the next character.

    A number that is larger than the number of groups loses digits until it is not; what is left of
    it, or a group that does not exist at all, stands for itself.
    """
    groups = match.re.groups

    def group(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        digits = found[2]
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= groups:
                return (match[int(digits[:length])] or "") + digits[length:]
        return found[0]

    return _GROUP.sub(group, replacement)


class MappingRules:
    """Rules as the setting has them.

    Raises:
        ValueError: the text is malformed.
    """

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip()
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(
                    f"ssl.principal.mapping.rules: {text[position : position + 100]!r} is neither "
                    "DEFAULT nor RULE:pattern/replacement/ with an optional L or U"
                )
            position = found.end()
            if found[1] is not None:
                self._rules.append(_Rule(None, "", ""))
                continue
            try:
                pattern = re.compile(_from_java(found[2]))
            except re.error as error:
                raise ValueError(
                    f"ssl.principal.mapping.rules: the pattern {found[2]!r} is malformed: {error}"
                ) from None
            self._rules.append(_Rule(pattern, found[3], found[4]))

    def name_of(self, distinguished_name: str) -> str:
        """The name of the principal.

        Raises:
            NoRuleMatchesError: no rule applies.
        """
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRuleMatchesError(
            f"no rule of ssl.principal.mapping.rules matches {distinguished_name!r}; add one, or "
            "DEFAULT at the end"
        )


def _from_java(pattern: str) -> str:
    r"""A pattern in Python's words: ``\/`` needs no backslash, and groups are named ``(?<x>)``."""
    return re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern)
