"""A second encoder: slow, generic, and short enough to check against the protocol guide by eye.

It can add tagged fields that no version declares to every struct, as a newer peer would.
"""

from __future__ import annotations

import random
import struct
from typing import Any

from minikafka.protocol.fields import Field, Struct, struct_fields
from tests.protocol.instances import Case

LETTERS = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
UNKNOWN_TAG = 10_000


def write_plainly(case: Case, message: Struct, tags_from: random.Random | None = None) -> bytes:
    """A message's bytes; with ``tags_from``, some structs carry unknown tags."""
    return _struct(message, case, tags_from)


def varint(value: int) -> bytes:
    """Seven bits per byte, lowest first, the high bit set on all but the last."""
    out = b""
    while value >= 128:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def _struct(message: Struct, case: Case, tags_from: random.Random | None) -> bytes:
    out = b""
    tags: list[tuple[int, bytes]] = []
    for field in struct_fields(type(message), case.version):
        value = getattr(message, field.name)
        if case.version not in field.tagged:
            out += _value(value, field, case, tags_from)
        elif value != _default(field):
            assert field.tag is not None
            tags.append((field.tag, _value(value, field, case, tags_from)))
    if not case.flexible:
        return out
    if tags_from is not None and tags_from.random() < 0.5:
        tags += [
            (UNKNOWN_TAG + number, tags_from.randbytes(tags_from.choice([0, 1, 200])))
            for number in range(tags_from.randint(1, 3))
        ]
    out += varint(len(tags))
    for tag, body in sorted(tags):
        out += varint(tag) + varint(len(body)) + body
    return out


def _default(field: Field) -> Any:
    return field.default if field.default_factory is None else field.default_factory()


def _value(value: Any, field: Field, case: Case, tags_from: random.Random | None) -> bytes:
    match field.kind:
        case "uuid":
            return bytes(value)
        case "string":
            text = None if value is None else value.encode()
            return _length(text, case, ">h") + (text or b"")
        case "bytes" | "records":
            return _length(value, case, ">i") + (value or b"")
        case "array":
            assert field.item is not None
            out = _length(value, case, ">i")
            for item in value or []:
                out += _value(item, field.item, case, tags_from)
            return out
        case "struct" if case.version in field.nullable:
            return b"\xff" if value is None else b"\x01" + _struct(value, case, tags_from)
        case "struct":
            return _struct(value, case, tags_from)
        case _:
            return struct.pack(">" + LETTERS[field.kind], value)


def _length(value: Any, case: Case, layout: str) -> bytes:
    size = -1 if value is None else len(value)
    return varint(size + 1) if case.flexible else struct.pack(layout, size)
