"""The encoded offset deltas 0, 1, 2, ... as columns of bytes.

Records of equal size are a matrix, one record in each row. What differs from row to row, besides
keys and values, is the offset delta, and a column of a matrix is one slice with a stride: so the
offsets of thousands of records are written, or compared, in two operations.
"""

from __future__ import annotations

from typing import Final

from minikafka.protocol.records.varint import ENCODED_LENGTHS

ONE_BYTE_OFFSETS: Final = 64
"""Offset deltas from here on take two bytes."""

ONLY_BYTES: Final = b"".join(ENCODED_LENGTHS[:ONE_BYTE_OFFSETS])
"""The single bytes of 0 to 63."""

FIRST_BYTES: Final = b"".join(each[:1] for each in ENCODED_LENGTHS[ONE_BYTE_OFFSETS:])
"""The first bytes of 64 to 8,191."""

SECOND_BYTES: Final = b"".join(each[1:] for each in ENCODED_LENGTHS[ONE_BYTE_OFFSETS:])
"""The second bytes of 64 to 8,191."""


def offset_columns(first: int, count: int) -> tuple[bytes, ...]:
    """The columns of ``count`` offset deltas from ``first`` on, which all take equally many bytes.

    ``first`` is below 8,192.
    """
    if first < ONE_BYTE_OFFSETS:
        return (ONLY_BYTES[first : first + count],)
    start = first - ONE_BYTE_OFFSETS
    return FIRST_BYTES[start : start + count], SECOND_BYTES[start : start + count]
