"""Subscriptions by regular expression, in the syntax of RE2 as in Kafka.

RE2 has neither backreferences nor lookaround, and its time is linear in the length of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

PATTERN_CHARACTERS_MAX = 4_096
_PATTERN_SIZE_BYTES_MAX = 1024 * 1024
"""What one compiled expression may take."""


class InvalidRegexError(ValueError):
    """An expression that RE2 does not accept."""


@lru_cache(maxsize=64)
def compile_regex(pattern: str) -> Callable[[str], bool]:
    """Whether a topic's whole name matches.

    Raises:
        InvalidRegexError: it is not valid, or too large.
    """
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidRegexError(
            f"the regular expression has {len(pattern)} characters; {PATTERN_CHARACTERS_MAX} are "
            "allowed"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_SIZE_BYTES_MAX
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRegexError(f"{pattern!r} is not a valid RE2 expression: {error}") from error
    return lambda name: compiled.fullmatch(name) is not None
