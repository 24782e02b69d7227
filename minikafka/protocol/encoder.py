"""Generates ``encode(message, parts, out)`` for one version of one message.

In the generated code ``out`` is the bytearray that is written to, the last of ``parts``; a record
payload becomes a part of its own, and a new ``out`` follows it. ``v`` is the current value, ``n``
its length, ``b`` its bytes. For a value that cannot be encoded Python or the struct module raises;
`Message.encode` turns that into an EncodeError which names the field.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn

from minikafka.protocol.codec import FIXED, SHORT_ARRAY_ITEMS, CodecWriter, struct_call
from minikafka.protocol.fields import Field, Struct
from minikafka.protocol.flexible import STRING_SIZE_BYTES_MAX, unsigned_varint

SHORT_VARINTS: Final = (
    *(bytes((value,)) for value in range(0x80)),
    *(bytes((low | 0x80, high)) for high in range(1, 0x80) for low in range(0x80)),
)
"""The encodings of all numbers of one or two bytes, see `flexible`."""


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"{what} cannot be encoded")


_HELPERS: Final[dict[str, Any]] = {
    "V": SHORT_VARINTS,
    "uvarint": unsigned_varint,
    "refuse": _refuse,
    "pack": struct.pack,
}


def _integer_writers(letters: str) -> tuple[Any, ...]:
    count, item = letters[0], letters[1]
    return tuple(struct_call(f"{count}{n}{item}", "pack") for n in range(SHORT_ARRAY_ITEMS + 1))


_INTEGER_WRITERS: dict[str, tuple[Any, ...]] = {
    letters: _integer_writers(letters) for letters in ("Bb", "Bi", "Bq", "ib", "ii", "iq")
}


def compile_encoder(cls: type[Struct], version: int, flexible: bool) -> Any:
    return _EncoderWriter(cls, version, flexible).function()


class _EncoderWriter(CodecWriter):
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names.update(_HELPERS)
        self._run: list[tuple[str, str]] = []

    def function(self) -> Any:
        self._struct(self.cls, "o")
        self.lines = self.lines or ["    pass"]
        return self.finish("encode", "o, parts, out")

    def tags_function(self, field: Field) -> Any:
        """A compiled ``encode(o) -> bytearray`` of one tagged field of ``o``."""
        self.line("out = bytearray()")
        self._value(field, f"o.{field.name}", f"{self.cls.__name__}.{field.name}")
        self._flush()
        self.line("return out")
        return self.finish("encode_tag", "o")

    def _struct(self, cls: type[Struct], source: str) -> None:
        for field in self.plain_fields(cls):
            self._value(field, f"{source}.{field.name}", f"{cls.__name__}.{field.name}")
        if not self.flexible:
            self._flush()
            return
        tagged = self.tagged_fields(cls)
        if not tagged:
            self._write("x", "")  # no tagged fields: one zero byte
            self._flush()
            return
        self._flush()
        self._tagged(cls, tagged, source)

    # --- fixed sizes: collected, then written by one call --------------------------------------

    def _write(self, letter: str, source: str) -> None:
        self._run.append((letter, source))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run == [("x", "")]:
            self.line("out.append(0)")
        elif run:
            self.line(self._written(run))

    def _written(self, run: list[tuple[str, str]]) -> str:
        (letter, source) = run[0]
        if letter == "B" and len(run) == 1:
            return f"out.append({source})"
        return f"out += {self._packed(run)}"

    def _packed(self, run: list[tuple[str, str]]) -> str:
        letters = "".join(letter for letter, _ in run)
        sources = ", ".join(source for _, source in run if source)
        return f"{self.name('pack', _packer(letters))}({sources})"

    def _length(self, run: list[tuple[str, str]], field: Field, is_small: bool) -> None:
        """Write a run and the length ``n`` (in flexible versions the length plus one)."""
        if not self.flexible:
            self.line(self._written([*run, (self.length_letter(field), "n")]))
            return
        if is_small:
            self.line(f"if n < 128: {self._written([*run, ('B', 'n')])}")
            self.line("else:")
            self.depth += 1
        if run:
            self.line(self._written(run))
        self.line("out += V[n] if n < 16384 else uvarint(n)")
        self.depth -= is_small

    # --- values ---------------------------------------------------------------------------------

    def _value(self, field: Field, source: str, label: str) -> None:
        if field.kind in FIXED:
            if field.kind == "uuid":  # pack would pad or truncate it silently
                self.line(f"if len({source}) != 16: refuse({label!r})")
            self._write(FIXED[field.kind][0], source)
        elif field.kind == "struct":
            self._nested(field, source)
        else:
            self._sized(field, source, label)

    def _nested(self, field: Field, source: str) -> None:
        assert field.struct is not None
        inner = self.fresh("o")
        self._flush()
        self.line(f"{inner} = {source}")
        if not self.is_nullable(field):
            self._struct(field.struct, inner)
            return
        self.line(f"if {inner} is None: out += b'\\xff'")
        self.line("else:")
        self.depth += 1
        self.line("out.append(1)")
        self._struct(field.struct, inner)
        self.depth -= 1

    def _sized(self, field: Field, source: str, label: str) -> None:
        """A string, bytes, records or an array, and the fixed-size fields before it."""
        run, self._run = self._run, []
        nullable = self.is_nullable(field)
        self.line(f"v = {source}")
        if nullable:
            self.line("if v is None:")
            null = "0" if self.flexible else "-1"
            self.line(f"    {self._written([*run, (self.length_letter(field), null)])}")
            self.line("else:")
            self.depth += 1
        one = " + 1" if self.flexible else ""
        if field.kind == "string":
            self.line("b = v.encode()")
            self.line(f"n = len(b){one}")
            self.line(f"if n > {STRING_SIZE_BYTES_MAX + self.flexible}: refuse({label!r})")
            self._length(run, field, is_small=True)
            self.line("out += b")
        elif field.kind == "array":
            self._array(run, field, label)
        else:
            self.line(f"n = len(v){one}")
            self._length(run, field, is_small=False)
            if field.kind == "bytes":
                self.line("out += v")
            else:
                self.line("parts.append(v)")
                self.line("out = bytearray()")
                self.line("parts.append(out)")
        self.depth -= nullable

    def _array(self, run: list[tuple[str, str]], field: Field, label: str) -> None:
        item = field.item
        assert item is not None
        self.line("n = len(v)")
        letter = FIXED[item.kind][0] if item.kind in FIXED else ""
        layout = self.length_letter(field) + letter
        if layout in _INTEGER_WRITERS:
            if run:
                self.line(self._written(run))
            count = "n + 1" if self.flexible else "n"
            writers = self.name("integers", _INTEGER_WRITERS[layout])
            self.line(f"if n <= {SHORT_ARRAY_ITEMS}: out += {writers}[n]({count}, *v)")
            self.line("else:")
            written_count = "uvarint(n + 1)" if self.flexible else "pack('>i', n)"
            self.line(f"    out += {written_count}")
            self.line(f"    out += pack('>%d{letter}' % n, *v)")
            return
        if self.flexible:
            self.line("n += 1")
        self._length(run, field, is_small=True)
        element = self.fresh("o") if item.kind == "struct" else "e"
        self.line(f"for {element} in v:")
        self.depth += 1
        if item.kind == "struct":
            assert item.struct is not None
            self._struct(item.struct, element)
        else:
            self._value(item, element, label)
            self._flush()
        self.depth -= 1

    # --- tagged fields (KIP-482) ----------------------------------------------------------------

    def _tagged(self, cls: type[Struct], fields: list[Field], source: str) -> None:
        """Write the tagged fields that are not at their default; usually there are none."""
        at_default: list[str] = []
        writers: list[tuple[str, int, Any]] = []
        for field in fields:
            value = f"{source}.{field.name}"
            default = field.default if field.default_factory is None else field.default_factory()
            name = self.name("default", default)
            at_default.append(f"({value} is {name} or {value} == {name})")
            assert field.tag is not None
            writer = _EncoderWriter(cls, self.version, self.flexible).tags_function(field)
            writers.append((field.name, field.tag, writer))
        tags = self.name("tags", _tags_encoder(fields, [writer for _, _, writer in writers]))
        self.line(f"if {' and '.join(at_default)}: out.append(0)")
        self.line(f"else: out += {tags}({source})")


def _tags_encoder(fields: list[Field], writers: list[Any]) -> Any:
    """A function that writes the tagged fields that are not at their default."""
    table = [
        (
            field.name,
            field.default if field.default_factory is None else field.default_factory(),
            unsigned_varint(field.tag or 0),
            writer,
        )
        for field, writer in zip(fields, writers, strict=True)
    ]

    def encode_tags(message: Any) -> bytearray:
        count = 0
        tags = bytearray()
        for name, default, tag, write in table:
            if getattr(message, name) != default:
                body = write(message)
                count += 1
                tags += tag
                tags += unsigned_varint(len(body))
                tags += body
        return bytearray(unsigned_varint(count)) + tags

    return encode_tags


def _packer(letters: str) -> Any:
    packer = _PACKERS.get(letters)
    if packer is None:
        packer = _PACKERS[letters] = struct_call(letters, "pack")
    return packer


# Bounded by the declarations: one entry per distinct run of fixed-size fields.
_PACKERS: dict[str, Any] = {}
