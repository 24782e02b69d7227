"""The parts of flexible versions (KIP-482): unsigned varints and unknown tagged fields.

Lengths, counts and tags are unsigned varints (LEB128): seven bits per byte, lowest first; the high
bit says that more follow. (Inside records, varints are zigzag: see `records.varint`.)
"""

from __future__ import annotations

from typing import NoReturn

from minikafka.protocol.exceptions import MalformedMessageError

_LARGEST = 0xFFFF_FFFF
STRING_SIZE_BYTES_MAX = 32_767
"""The longest string that Kafka writes or reads, although its length field has room for more."""


def unsigned_varint(value: int) -> bytes:
    """Encode a number from 0 to 2**32 - 1.

    Raises:
        OverflowError: the number is negative or needs more than 32 bits.
    """
    if 0 <= value < 0x80:
        return bytes((value,))
    if value < 0 or value > _LARGEST:
        raise OverflowError(f"{value} is not an unsigned 32-bit number")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_unsigned_varint(view: memoryview, position: int) -> tuple[int, int]:
    """Read a number of at most 32 bits; returns (value, next position).

    Raises:
        IndexError: the view ends inside the number.
        MalformedMessageError: the number is longer than five bytes or than 32 bits.
    """
    value = view[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = view[position]
        position += 1
        if byte < 0x80:
            break
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 28:
            raise MalformedMessageError("unsigned varint is longer than 5 bytes")
    value |= byte << shift
    if value > _LARGEST:
        raise MalformedMessageError(f"unsigned varint {value} is larger than 32 bits")
    return value, position


def read_string_size(view: memoryview, position: int, what: str) -> tuple[int, int]:
    """Read the length (plus one) of a compact string when it does not fit one byte.

    Raises:
        MalformedMessageError: as `read_unsigned_varint`, or the string is longer than Kafka allows.
    """
    value, position = read_unsigned_varint(view, position)
    if value > STRING_SIZE_BYTES_MAX + 1:
        raise MalformedMessageError(
            f"{what} announces {value - 1} bytes of text, more than {STRING_SIZE_BYTES_MAX}"
        )
    return value, position


def skip_tagged_fields(view: memoryview, position: int, end: int, what: str) -> int:
    """Skip a section of tagged fields, none of which is known; returns where it ends.

    Raises:
        IndexError: the view ends inside a number.
        MalformedMessageError: a count or size is larger than the bytes before ``end`` allow.
    """
    count, position = read_unsigned_varint(view, position)
    if count * 2 > end - position:
        announces_too_much(f"{what} tags", count, end - position)
    for _ in range(count):
        tag, position = read_unsigned_varint(view, position)
        size, position = read_unsigned_varint(view, position)
        if size > end - position:
            announces_too_much(f"{what} tag {tag}", size, end - position)
        position += size
    return position


def announces_too_much(what: str, announced: int, remaining_bytes: int) -> NoReturn:
    """Refuse a length or count that exceeds the rest of the frame.

    Raises:
        MalformedMessageError: always.
    """
    raise MalformedMessageError(
        f"{what} announces {announced}, but only {max(0, remaining_bytes)} bytes remain"
    )
