"""JAAS configurations, the form in which Kafka's settings hold a listener's credentials.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="her password";

No error repeats a part of the text, because it may be a password.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["JaasModule", "MalformedJaasError", "parse_jaas"]

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([=;])|([^\s=;"']+))""", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class JaasModule(NamedTuple):
    """One login module: the last part of its class's name, and its options."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"JaasModule({self.name!r}, {len(self.options)} options)"


class MalformedJaasError(ValueError):
    """A text is no JAAS configuration of one login module."""


def parse_jaas(text: str) -> JaasModule:
    """Parse a configuration.

    Raises:
        MalformedJaasError: it is malformed, or has more than one login module.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", False):
        raise MalformedJaasError('it is CLASS required NAME="VALUE" ...; with ; at its end')
    (name, _), (flag, _), *options = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise MalformedJaasError(f"after the class comes one of {', '.join(_FLAGS)}")
    if (";", False) in options:
        raise MalformedJaasError("it has more than one login module")
    found: dict[str, str] = {}
    while options:
        if len(options) < 3 or options[1] != ("=", False) or ("=", False) in options[0:3:2]:
            raise MalformedJaasError('an option is not NAME="VALUE"')
        found[options[0][0]] = options[2][0]
        options = options[3:]
    return JaasModule(name.rpartition(".")[2], found)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """The words of a text, and whether each was quoted."""
    tokens: list[tuple[str, bool]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position, end)
        if found is None:
            raise MalformedJaasError("a quote is not closed")
        position = found.end()
        double, single, sign, word = found.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            tokens.append((_ESCAPE.sub(lambda one: _ESCAPES.get(one[1], one[1]), quoted), True))
        else:
            tokens.append((sign or word, False))
    return tokens
