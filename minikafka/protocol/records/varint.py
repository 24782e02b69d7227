"""Zigzag varints, the integers inside a record, with lookup tables for the hot loops.

A varint has seven bits per byte, lowest first; all bytes but the last have the top bit set.
Zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ..., so that small negative numbers stay short: the
length -1, which means null, is the single byte 1.

A table lookup is the cheapest operation in CPython (a list index and an int addition are
specialised, a shift and a mask are not), so the loops decode by adding table entries. An encoding
that the tables do not cover has an entry so large that the check against the end of the buffer,
which is needed anyway, fails; the loop then calls the slow functions in this module.
"""

from typing import Final

from minikafka.protocol.records.errors import CorruptBatchError

ENCODED_LENGTHS_COUNT: Final = 8192  # all that fit into two bytes

_FIRST_BYTES: Final = [bytes((0x80 | low,)) for low in range(0, 0x80, 2)]
_SECOND_BYTES: Final = [bytes((high,)) for high in range(0x80)]

ENCODED_LENGTHS: Final[list[bytes]] = [bytes((low,)) for low in range(0, 0x80, 2)]
"""The zigzag varint of each integer from 0 to 8191."""
ENCODED_LENGTHS.extend(first + second for second in _SECOND_BYTES[1:] for first in _FIRST_BYTES)

NOT_A_LENGTH: Final = 1 << 60
"""The entry of bytes that the tables do not cover: larger than any buffer."""

ONE_BYTE_LENGTH: Final[list[int]] = [
    NOT_A_LENGTH if byte & 1 or byte & 0x80 else byte >> 1 for byte in range(256)
]
"""The length that a single byte encodes."""

FIRST_OF_TWO: Final[list[int]] = [
    NOT_A_LENGTH if byte & 1 or not byte & 0x80 else (byte & 0x7F) >> 1 for byte in range(256)
]
"""What the first byte adds to a length of two bytes."""

SECOND_OF_TWO: Final[list[int]] = [
    NOT_A_LENGTH if byte & 0x80 else byte << 6 for byte in range(256)
]
"""What the second byte adds to a length of two bytes."""

ONE_BYTE_SIGNED: Final[list[int]] = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]
"""The signed integer that a single byte encodes."""

_VARINT_SIZE_BYTES_MAX: Final = 5
_VARLONG_SIZE_BYTES_MAX: Final = 10

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


def wrap_int64(value: int) -> int:
    """Wrap around at 64 bits, as Java's long arithmetic does."""
    return ((value - _INT64_MIN) & 0xFFFF_FFFF_FFFF_FFFF) + _INT64_MIN


def encode_varint(value: int) -> bytes:
    """The zigzag varint of an integer of up to 64 bits.

    Raises:
        ValueError: the integer has more than 64 bits.
    """
    if 0 <= value < ENCODED_LENGTHS_COUNT:
        return ENCODED_LENGTHS[value]
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError(f"{value} does not fit into 64 bits")
    zigzag = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def read_varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """Decode the 32-bit varint at `position`; returns it and where it ends.

    Raises:
        CorruptBatchError: it continues past `end`, or does not fit into 32 bits.
        IndexError: the buffer ends before `end`.
    """
    return _read(buffer, position, end, _VARINT_SIZE_BYTES_MAX, 32)


def read_varlong(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """Decode the 64-bit varint at `position`; returns it and where it ends.

    Raises:
        CorruptBatchError: it continues past `end`, or does not fit into 64 bits.
        IndexError: the buffer ends before `end`.
    """
    return _read(buffer, position, end, _VARLONG_SIZE_BYTES_MAX, 64)


def read_extent(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """Decode the length at `position`; returns where the bytes that follow it begin and end.

    Raises:
        CorruptBatchError: the length is malformed, negative, or reaches past `end`.
    """
    length, start = read_varint(buffer, position, end)
    if not 0 <= length <= end - start:
        raise CorruptBatchError(
            f"length {length} at byte {position}, where {end - start} bytes are left"
        )
    return start, start + length


def _read(buffer: bytes, start: int, end: int, size_bytes_max: int, bits: int) -> tuple[int, int]:
    zigzag = shift = 0
    for position in range(start, min(start + size_bytes_max, end)):
        byte = buffer[position]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                break
            return (zigzag >> 1) ^ -(zigzag & 1), position + 1
        shift += 7
    raise CorruptBatchError(f"no varint of at most {bits} bits at byte {start}")
