"""Writes straight-line Python for one version of one message.

This is the hot path's codec. It is generated because a generic walker over the declarations is 10
to 30 times slower, and because hand-written copies for 15 versions of Fetch would drift apart.
`decoder` and `encoder` write the two directions; here is what both need, and the constructors.

What makes the written code fast, in order of weight: nested structs are written out inside their
loop (no call per item); neighbouring fixed-size fields and the length that follows them are one
struct call; a default that is shared is compared by identity.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from minikafka.protocol.fields import Field, Kind
from minikafka.protocol.schema import Decoder, Encoder, Struct, struct_fields

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
"""Fixed-size kinds: the letter that the struct module has for each, and its size in bytes."""

SHORT_ARRAY_ITEMS: Final = 16
"""Arrays of integers up to this length have a ready-made struct call."""


def compile_decoder(cls: type[Struct], version: int, flexible: bool) -> Decoder:
    """Write the decoder of one version, everything nested included."""
    from minikafka.protocol.decoder import DecoderWriter

    decoder: Decoder = DecoderWriter(cls, version, flexible).function()
    return decoder


def compile_encoder(cls: type[Struct], version: int, flexible: bool) -> Encoder:
    """Write the encoder of one version, everything nested included."""
    from minikafka.protocol.encoder import EncoderWriter

    encoder: Encoder = EncoderWriter(cls, version, flexible).function()
    return encoder


def compile_init(cls: type[Struct]) -> Callable[..., None]:
    """Write the keyword constructor of a message class."""
    source = _InitWriter(cls)
    init: Callable[..., None] = source.function()
    return init


class SourceWriter:
    """Lines of source with indentation, and the objects that the source refers to by name."""

    def __init__(self, cls: type[Struct]) -> None:
        self.cls = cls
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._counts: dict[str, int] = {}

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        """A variable name that this source has not used yet."""
        number = self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def name(self, prefix: str, value: Any) -> str:
        """Make an object reachable from the source; returns its name there."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def finish(self, name: str, parameters: str) -> Any:
        """Compile the lines as the body of a function."""
        source = f"def {name}({parameters}):\n" + "\n".join(self.lines)
        exec(compile(source, f"<{self.cls.__name__} {name}>", "exec"), self.names)
        return self.names[name]


class _InitWriter(SourceWriter):
    def function(self) -> Any:
        parameters: list[str] = []
        for field in self.cls.FIELDS:
            name = field.name
            value = name
            if field.is_required:
                parameters.append(name)
            elif field.default_factory is not None:
                parameters.append(f"{name}={self.name('missing', _MISSING)}")
                factory = self.name("factory", field.default_factory)
                value = f"{factory}() if {name} is {self.name('missing', _MISSING)} else {name}"
            else:
                parameters.append(f"{name}={self.name('default', field.default)}")
            self.line(f"self.{name} = {value}")
        if not parameters:
            self.line("pass")
            return self.finish("__init__", "self")
        return self.finish("__init__", f"self, *, {', '.join(parameters)}")


_MISSING = object()


class CodecWriter(SourceWriter):
    """What the writers of decoders and encoders share: the version, and the layout of a struct."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls)
        self.version = version
        self.flexible = flexible

    def plain_fields(self, cls: type[Struct]) -> list[Field]:
        """The version's fields that always travel, in wire order."""
        return [f for f in struct_fields(cls, self.version) if self.version not in f.tagged]

    def tagged_fields(self, cls: type[Struct]) -> list[Field]:
        """The version's fields that travel only when they differ from their default, by tag."""
        tagged = [f for f in struct_fields(cls, self.version) if self.version in f.tagged]
        return sorted(tagged, key=lambda field: field.tag or 0)

    def length_letter(self, field: Field) -> str:
        """The struct letter of a length's first (or only) bytes."""
        if self.flexible:
            return "B"
        return "h" if field.kind == "string" else "i"

    def is_nullable(self, field: Field) -> bool:
        """True when None can travel in this version; Kafka takes null records in every one."""
        return self.version in field.nullable or field.kind == "records"

    def smallest_item(self, field: Field) -> int:
        """The fewest bytes that a value takes: bounds how many of them an array can hold."""
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
