"""Random messages of any declared class; the same seed yields the same message.

Values favour the edges of their types. Values that kio cannot represent are left out, so that all
tests can use the same messages: error codes exist, and times fit a calendar.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from minikafka.protocol.api import ApiKey, request_class, response_class
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import Field, Struct, struct_fields
from minikafka.protocol.schema import Message

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
"""The smallest and largest value of every integer kind."""

LAST_TIME_MS = 2**43
"""A time in the year 2248; kio has no dates before 1970 or after 9999."""

ALPHABET = "abcdefghijklmnopqrstuvwxyz.-_09 \x00é€漢🦊"


class Case(NamedTuple):
    """One version of one request or response."""

    message: type[Message]
    version: int

    @property
    def flexible(self) -> bool:
        return self.version in self.message.FLEXIBLE

    def __str__(self) -> str:
        return f"{self.message.__name__}-v{self.version}"


def every_message() -> Iterator[type[Message]]:
    """Every request and response of the table of APIs."""
    for api_key in ApiKey:
        yield request_class(api_key)
        yield response_class(api_key)


def every_case() -> list[Case]:
    """Every version of every request and response of the table of APIs."""
    return [
        Case(message, version)
        for message in every_message()
        for version in range(message.VERSIONS.first, message.VERSIONS.last + 1)
    ]


def seeded(case: Case, salt: object = "") -> random.Random:
    """Randomness that depends only on the case."""
    return random.Random(f"{case} {salt}")


def random_message(case: Case, source: random.Random, items_max: int = 3) -> Message:
    """A message with at most ``items_max`` items in (almost) every array."""
    message = random_struct(case.message, case.version, source, items_max)
    assert isinstance(message, Message)
    return message


def random_struct(
    cls: type[Struct], version: int, source: random.Random, items_max: int = 3
) -> Struct:
    """A struct of one version; fields that the version does not carry keep their default."""
    values = {
        field.name: _value(field, version, source, items_max)
        for field in struct_fields(cls, version)
        if version not in field.tagged or source.random() < 0.6
    }
    return cls(**values)


def _value(field: Field, version: int, source: random.Random, items_max: int) -> Any:
    if version in field.nullable and source.random() < 0.25:
        return None
    match field.kind:
        case "boolean":
            return source.random() < 0.5
        case "float64":
            return source.choice([0.0, -1.5, 1e300, 0.1, source.uniform(-1e6, 1e6)])
        case "uuid":
            return source.choice([bytes(16), source.randbytes(16)])
        case "string":
            return _text(source)
        case "bytes" | "records":
            return source.randbytes(source.choice([0, 1, 2, 126, 127, 128, 300]))
        case "struct":
            assert field.struct is not None
            return random_struct(field.struct, version, source, items_max)
        case "array":
            assert field.item is not None
            return [
                _value(field.item, version, source, items_max)
                for _ in range(_count(field.item, source, items_max))
            ]
        case _:
            return _integer(field, source)


def _count(item: Field, source: random.Random, items_max: int) -> int:
    if item.kind != "struct" and items_max > 1 and source.random() < 0.05:
        return source.choice([126, 127, 128, 200])  # around two-byte compact counts
    return source.randint(0, items_max)


def _text(source: random.Random) -> str:
    size = 130 if source.random() < 0.05 else source.randint(0, 9)
    return "".join(source.choices(ALPHABET, k=size))


def _integer(field: Field, source: random.Random) -> int:
    if field.name.endswith("error_code"):
        return source.randint(int(min(ErrorCode)), int(ErrorCode.SHARE_SESSION_LIMIT_REACHED))
    first, last = INTEGERS[field.kind]
    if field.kind == "int64" and ("time" in field.name or field.name.endswith("_ms")):
        first, last = 0, LAST_TIME_MS
    edges = [first, last, first + 1, last - 1, 0, 1]
    return source.choice(edges) if source.random() < 0.4 else source.randint(first, last)
