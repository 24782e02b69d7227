"""Zigzag varints, many at a time.

Kafka writes the lengths and deltas inside a record as protobuf's zigzag varints. Reading one byte
by byte costs Python half a microsecond; here a column of them is read with a few NumPy operations
for each byte of the longest one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

VARINT_SIZE_BYTES_MAX: Final = 10

_MORE: Final = 0x80


class MalformedVarintError(ValueError):
    """A varint has more than ten bytes."""


def read_varints(buffer: Bytes, positions: Integers) -> tuple[Integers, Integers]:
    """Read the varint at each position.

    Args:
        buffer: must have `VARINT_SIZE_BYTES_MAX` bytes after the last position.
        positions: of the varints.

    Returns:
        Their values, and the positions after them.

    Raises:
        MalformedVarintError: one has more than ten bytes.
    """
    first = buffer.take(positions)
    has_second = first >> 7
    if not has_second.any():
        encoded = first.astype(np.int64)
        return (encoded >> 1) ^ -(encoded & 1), positions + 1
    # Most varints have at most two bytes: read two everywhere, and mask what does not belong.
    second = buffer.take(positions + 1) * has_second
    short = (first & 0x7F).astype(np.int64) | (second & 0x7F).astype(np.int64) << 7
    ends = positions + 1 + has_second
    if not (second & _MORE).any():
        return (short >> 1) ^ -(short & 1), ends
    return _read_long(buffer, short.view(np.uint64), ends, np.flatnonzero(second & _MORE))


def _read_long(
    buffer: Bytes, encoded: NDArray[np.uint64], ends: Integers, rest: NDArray[np.intp]
) -> tuple[Integers, Integers]:
    """Continue with varints of more than two bytes."""
    shift = 14
    while rest.size:
        if shift > 7 * (VARINT_SIZE_BYTES_MAX - 1):
            raise MalformedVarintError(f"a varint before {ends[rest[0]]} has more than 10 bytes")
        following = buffer[ends[rest]]
        encoded[rest] |= (following & 0x7F).astype(np.uint64) << np.uint64(shift)
        ends[rest] += 1
        rest = rest[(following & _MORE).astype(bool)]
        shift += 7
    one = np.uint64(1)
    values = (encoded >> one).view(np.int64) ^ -(encoded & one).view(np.int64)
    return values, ends


def varint_sizes(values: Integers) -> Integers:
    """The number of bytes of each value as a varint."""
    encoded = _zigzag(values)
    sizes = np.ones(len(values), np.int64)
    for size in range(1, VARINT_SIZE_BYTES_MAX):
        longer = encoded >= np.uint64(1 << 7 * size)
        if not longer.any():
            break
        sizes += longer
    return sizes


def write_varints(buffer: Bytes, positions: Integers, values: Integers) -> Integers:
    """Write a varint at each position; returns the positions after them."""
    rest = _zigzag(values)
    ends = positions.copy()
    index = np.arange(len(values))
    while True:
        is_last = rest < np.uint64(_MORE)
        byte = (rest & np.uint64(0x7F)).astype(np.uint8)
        byte[~is_last] |= _MORE
        buffer[ends[index]] = byte
        ends[index] += 1
        if is_last.all():
            return ends
        index = index[~is_last]
        rest = rest[~is_last] >> np.uint64(7)


def _zigzag(values: Integers) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)
