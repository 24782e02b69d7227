"""Generates ``decode(view, pos, end, left) -> message`` for one version of one message.

In the generated code ``pos`` is the position, ``end`` the end of the frame (a tagged field has a
variable of its own for its end), ``left`` how many more items the arrays may hold, ``n`` the
current length or count, ``q`` the end of the current bytes. Every length and count is compared
with ``end - pos`` before anything is allocated. Reading a number past the end of the frame raises
IndexError or struct.error, which `Message.decode` turns into a MalformedMessageError.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NoReturn

from minikafka.protocol.codec import FIXED, SHORT_ARRAY_ITEMS, CodecWriter, struct_call
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Field, Struct
from minikafka.protocol.flexible import (
    announces_too_much,
    read_string_size,
    read_unsigned_varint,
    skip_tagged_fields,
)


def _refuse_null(what: str) -> NoReturn:
    raise MalformedMessageError(f"{what} is null, which this version does not allow")


def _too_many_items(what: str) -> NoReturn:
    raise MalformedMessageError(f"{what} has more array items than the message is allowed")


def _wrong_tag_size(what: str, announced: int, read: int) -> NoReturn:
    raise MalformedMessageError(f"{what} announces {announced} bytes in its tag, but takes {read}")


_HELPERS: Final[dict[str, Any]] = {
    "uvarint": read_unsigned_varint,
    "string_size": read_string_size,
    "skip_tags": skip_tagged_fields,
    "short": announces_too_much,
    "refuse_null": _refuse_null,
    "too_many": _too_many_items,
    "wrong_tag_size": _wrong_tag_size,
    "unpack_from": struct.unpack_from,
}


def _integer_readers(letter: str) -> tuple[Any, ...]:
    return tuple(struct_call(f"{n}{letter}", "unpack_from") for n in range(SHORT_ARRAY_ITEMS + 1))


_INTEGER_READERS: dict[str, tuple[Any, ...]] = {
    letter: _integer_readers(letter) for letter in ("b", "i", "q")
}


def compile_decoder(cls: type[Struct], version: int, flexible: bool) -> Any:
    return _DecoderWriter(cls, version, flexible).function()


class _DecoderWriter(CodecWriter):
    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self.names.update(_HELPERS)
        self.end = "end"
        self._run: list[tuple[str, str]] = []

    def function(self) -> Any:
        target = self._struct(self.cls)
        self.line(f"return {target}")
        return self.finish("decode", "view, pos, end, left")

    def _struct(self, cls: type[Struct]) -> str:
        """Read a struct into a new object; returns the variable that holds it."""
        target = self.fresh("o")
        self.line(f"{target} = {self.name('new', cls.__new__)}({self.name('cls', cls)})")
        plain = self.plain_fields(cls)
        for field in cls.FIELDS:
            if field not in plain:
                self._default(field, f"{target}.{field.name}")
        for field in plain:
            self._value(field, f"{target}.{field.name}", f"{cls.__name__}.{field.name}")
        if self.flexible:
            self._read("B", "n")
            self._flush()
            self._tagged(cls, target)
        else:
            self._flush()
        return target

    def _default(self, field: Field, target: str) -> None:
        factory = field.default_factory
        if factory is list:
            self.line(f"{target} = []")
        elif factory is not None:
            self.line(f"{target} = {self.name('factory', factory)}()")
        else:
            self.line(f"{target} = {self.name('default', field.default)}")

    # --- fixed sizes: collected, then read by one call -----------------------------------------

    def _read(self, letter: str, target: str) -> None:
        self._run.append((letter, target))

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        letters = "".join(letter for letter, _ in run)
        targets = ", ".join(target for _, target in run)
        if letters == "B":
            self.line(f"{targets} = view[pos]")
        else:
            unpack = self.name("unpack", _reader(letters))
            self.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(view, pos)")
        self.line(f"pos += {struct.calcsize('>' + letters)}")

    # --- values ---------------------------------------------------------------------------------

    def _value(self, field: Field, target: str, label: str) -> None:
        if field.kind in FIXED:
            self._read(FIXED[field.kind][0], target)
        elif field.kind == "struct":
            self._nested(field, target)
        else:
            self._sized(field, target, label)

    def _nested(self, field: Field, target: str) -> None:
        assert field.struct is not None
        nullable = self.is_nullable(field)
        if nullable:
            self._read("b", "n")
        self._flush()
        if nullable:
            self.line("if n < 0:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
        self.line(f"{target} = {self._struct(field.struct)}")
        self.depth -= nullable

    def _sized(self, field: Field, target: str, label: str) -> None:
        """A string, bytes, records or an array; in flexible versions ``n`` is the length + 1."""
        self._read(self.length_letter(field), "n")
        self._flush()
        if self.flexible:
            self._long_length(field, label)
        if field.kind == "array":
            self._array(field, target, label)
            return
        self.line("if n:" if self.flexible else "if n >= 0:")
        expression = {
            "string": "view[pos:q].tobytes().decode()",
            "bytes": "view[pos:q].tobytes()",
            "records": "view[pos:q]",
        }[field.kind]
        self.line(f"    q = pos + n{' - 1' if self.flexible else ''}")
        self.line(f"    if q > {self.end}: short({label!r}, q - pos, {self.end} - pos)")
        self.line(f"    {target} = {expression}")
        self.line("    pos = q")
        self._else_null(field, target, label)

    def _long_length(self, field: Field, label: str) -> None:
        """Read the rest of a compact length; ``n`` is its first byte."""
        if field.kind == "string":
            self.line(f"if n > 127: n, pos = string_size(view, pos - 1, {label!r})")
            return
        self.line("if n > 127:")
        self.line("    q = view[pos]")
        self.line("    if q > 127: n, pos = uvarint(view, pos - 1)")
        self.line("    else:")
        self.line("        n += (q << 7) - 128")  # two bytes: no call
        self.line("        pos += 1")

    def _else_null(self, field: Field, target: str, label: str) -> None:
        self.line("else:")
        if self.is_nullable(field):
            self.line(f"    {target} = None")
        else:
            self.line(f"    refuse_null({label!r})")

    def _array(self, field: Field, target: str, label: str) -> None:
        item = field.item
        assert item is not None
        self.line("if n > 1:" if self.flexible else "if n > 0:")
        self.depth += 1
        if self.flexible:
            self.line("n -= 1")
        size = self.smallest_item(item)
        bytes_needed = "n" if size == 1 else f"n * {size}"
        self.line(f"if {bytes_needed} > {self.end} - pos: short({label!r}, n, {self.end} - pos)")
        self.line("left -= n")
        self.line(f"if left < 0: too_many({label!r})")
        letter = FIXED[item.kind][0] if item.kind in FIXED else ""
        if letter in _INTEGER_READERS:
            readers = self.name("integers", _INTEGER_READERS[letter])
            self.line(f"if n <= {SHORT_ARRAY_ITEMS}: {target} = [*{readers}[n](view, pos)]")
            self.line(f"else: {target} = [*unpack_from('>%d{letter}' % n, view, pos)]")
            self.line(f"pos += {bytes_needed}")
        else:
            self._loop(item, target, label)
        self.depth -= 1
        self.line("elif n:" if self.flexible else "elif n == 0:")
        self.line(f"    {target} = []")
        self._else_null(field, target, label)

    def _loop(self, item: Field, target: str, label: str) -> None:
        items = self.fresh("a")
        self.line(f"{items} = {target} = []")
        self.line("for _ in range(n):")
        self.depth += 1
        if item.kind == "struct":
            assert item.struct is not None
            value = self._struct(item.struct)
        else:
            value = "v"
            self._value(item, value, label)
            self._flush()
        self.line(f"{items}.append({value})")
        self.depth -= 1

    # --- tagged fields (KIP-482) ----------------------------------------------------------------

    def _tagged(self, cls: type[Struct], target: str) -> None:
        """Read the tagged fields; ``n`` is the first byte of their count."""
        fields = self.tagged_fields(cls)
        if not fields:
            self.line(f"if n: pos = skip_tags(view, pos - 1, {self.end}, {cls.__name__!r})")
            return
        outer_end, inner_end, start = self.end, self.fresh("end"), self.fresh("start")
        self.line("if n:")
        self.depth += 1
        self.line("n, pos = uvarint(view, pos - 1)")
        label = f"{cls.__name__} tags"
        self.line(f"if n * 2 > {outer_end} - pos: short({label!r}, n, {outer_end} - pos)")
        self.line("for _ in range(n):")
        self.depth += 1
        self.line("tag, pos = uvarint(view, pos)")
        self.line("n, pos = uvarint(view, pos)")
        self.line(f"{start} = pos")
        self.line(f"{inner_end} = pos + n")
        self.line(f"if {inner_end} > {outer_end}: short({label!r}, n, {outer_end} - pos)")
        self.end = inner_end
        word = "if"
        for field in fields:
            label = f"{cls.__name__}.{field.name}"
            self.line(f"{word} tag == {field.tag}:")
            self.depth += 1
            self._value(field, f"{target}.{field.name}", label)
            self._flush()
            # If a field could read past its tag, many tags could share the same bytes.
            sizes = f"{inner_end} - {start}, pos - {start}"
            self.line(f"if pos != {inner_end}: wrong_tag_size({label!r}, {sizes})")
            self.depth -= 1
            word = "elif"
        self.line("else:")
        self.line(f"    pos = {inner_end}")
        self.end = outer_end
        self.depth -= 2


def _reader(letters: str) -> Any:
    reader = _READERS.get(letters)
    if reader is None:
        reader = _READERS[letters] = struct_call(letters, "unpack_from")
    return reader


# Bounded by the declarations: one entry per distinct run of fixed-size fields.
_READERS: dict[str, Any] = {}
