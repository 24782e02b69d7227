"""``consume --filter``: which records to show."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import click
import re2

from minikafka_client import ConsumerRecord

RecordFilter = Callable[[ConsumerRecord], bool]

_EXPRESSION: Final = re.compile(
    r"(key|value|header\.(?P<header>.+?))(?P<operator>=|!=|~)(?P<text>.*)", re.DOTALL
)


def compile_filters(expressions: Sequence[str]) -> RecordFilter:
    """A filter that lets a record through if all expressions are true of it.

    An expression is ``key``, ``value`` or ``header.NAME``, then ``=`` (is this text), ``!=`` (is
    another text, or nothing) or ``~`` (contains a match of this regular expression), then the text.

    Raises:
        click.UsageError: an expression has another form.
    """
    filters = [_compile(expression) for expression in expressions]
    return lambda record: all(matches(record) for matches in filters)


def _compile(expression: str) -> RecordFilter:
    found = _EXPRESSION.fullmatch(expression)
    if found is None:
        raise click.UsageError(
            f"--filter {expression!r}: write key, value or header.NAME, then =, != or ~, and a text"
        )
    octets = _octets_of(found[1], found["header"])
    text = found["text"].encode()
    match found["operator"]:
        case "=":
            return lambda record: text in octets(record)
        case "!=":
            return lambda record: text not in octets(record)
        case _:
            search = _searcher(expression, found["text"])
            return lambda record: any(one is not None and search(one) for one in octets(record))


def _octets_of(field: str, header: str | None) -> Callable[[ConsumerRecord], list[bytes | None]]:
    """What a record has there; a header may be there several times."""
    if header is not None:
        return lambda record: [value for name, value in record.headers if name == header]
    if field == "key":
        return lambda record: [record.key]
    return lambda record: [record.value]


def _searcher(expression: str, pattern: str) -> Callable[[bytes], bool]:
    options = re2.Options()
    options.log_errors = False
    try:
        # It contains a match if all of it matches with anything around.
        matches = re2.compile(f"(?s:.*)(?:{pattern})(?s:.*)", options).fullmatch
    except re2.error as error:
        raise click.UsageError(f"--filter {expression!r}: {error}") from None
    return lambda octets: matches(octets.decode("utf-8", "replace")) is not None
