"""What the writers of decoders and encoders share.

The codec of each version is generated, because walking the declarations for every message is 10 to
30 times slower, and because hand-written copies for 15 versions of Fetch would drift apart.
`decoder` and `encoder` write straight-line Python for the two directions.

What makes the generated code fast, most important first: nested structs are inlined in their loop
(no call per item); adjacent fixed-size fields and the length that follows them are one struct call;
a shared default is compared by identity.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from minikafka.protocol.fields import Field, Kind, Struct, struct_fields
from minikafka.protocol.source import SourceWriter

FIXED: Final[dict[Kind, tuple[str, int]]] = {
    "boolean": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Fixed-size kinds: the struct module's letter for each, and its size in bytes."""

SHORT_ARRAY_ITEMS: Final = 16
"""Arrays of integers up to this length have a precompiled struct call."""


class CodecWriter(SourceWriter):
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls.__name__)
        self.cls = cls
        self.version = version
        self.flexible = flexible

    def plain_fields(self, cls: type[Struct]) -> list[Field]:
        """The fields that are always sent, in wire order."""
        return [f for f in struct_fields(cls, self.version) if self.version not in f.tagged]

    def tagged_fields(self, cls: type[Struct]) -> list[Field]:
        """The fields that are sent only when they differ from their default, by tag."""
        tagged = [f for f in struct_fields(cls, self.version) if self.version in f.tagged]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def length_letter(self, field: Field) -> str:
        """The struct letter of a length: in flexible versions of its first byte."""
        if self.flexible:
            return "B"
        return "h" if field.kind == "string" else "i"

    def is_nullable(self, field: Field) -> bool:
        """Whether this version can carry None; Kafka accepts null records in all versions."""
        return self.version in field.nullable or field.kind == "records"

    def smallest_item(self, field: Field) -> int:
        """The fewest bytes that a value takes, which bounds the length of an array of them."""
        if field.kind in FIXED:
            return FIXED[field.kind][1]
        if field.kind != "struct":
            return struct.calcsize(">" + self.length_letter(field))
        assert field.struct is not None
        if self.is_nullable(field):
            return 1
        plain = self.plain_fields(field.struct)
        return max(1, sum(map(self.smallest_item, plain)) + self.flexible)


def struct_call(letters: str, method: str) -> Any:
    """``pack``, ``unpack_from``, ... of a big-endian layout."""
    return getattr(struct.Struct(">" + letters), method)
