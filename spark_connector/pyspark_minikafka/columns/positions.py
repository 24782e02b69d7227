"""Finds where each record of several batches begins and ends.

A record begins with its length, so the next one can only be found after it. That is the only loop
over records, and it reads one varint each. Consecutive records of equal length (most machine-made
ones) do not need it: their positions are computed, and proven by comparing the length at each of
these places. A record of the expected length proves where the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from .varints import Bytes, Integers

_PROVEN_RECORDS_MIN: Final = 256
"""Fewer records are found faster one by one."""

_GUESSED_MIN: Final = 32
_GUESSED_MAX: Final = 16_384

_IRREGULAR_MAX: Final = 2
"""After this many failed guesses, one by one is faster."""

_LENGTH_SIZE_BYTES_MAX: Final = 5

# How far a length of one byte moves on, and what the bytes of a length of two add.
_AFTER_ONE: Final = tuple((byte >> 1) + 1 for byte in range(0x80))
_FIRST_OF_TWO: Final = tuple(((byte & 0x7F) >> 1) + 2 for byte in range(0x100))
_SECOND_OF_TWO: Final = tuple(byte << 6 for byte in range(0x80))


class MalformedRecordsError(ValueError):
    """The records of a batch contradict its header or each other."""


class Region(NamedTuple):
    """The encoded records of one batch in a buffer."""

    start: int
    end: int
    record_count: int


def find_records(
    buffer: bytes | memoryview, array: Bytes, regions: Sequence[Region]
) -> tuple[Integers, Integers]:
    """Where the records of all regions begin, in order, and where they end.

    Args:
        buffer: contains the regions.
        array: the same bytes for NumPy.
        regions: one for each batch, none of them empty.

    Raises:
        MalformedRecordsError: records do not end where their batch does.
    """
    found: list[Integers] = []
    positions: list[int] = []
    for region in regions:
        start, end, count = region
        if count >= _PROVEN_RECORDS_MIN:
            if positions:
                found.append(np.array(positions, np.int64))
                positions = []
            start, count = _guess(array, region, found)
        if _walk(buffer, start, count, positions) != end:
            raise MalformedRecordsError(
                f"{region.record_count} records do not end where their batch ends, after "
                f"{end - region.start} bytes"
            )
    if positions:
        found.append(np.array(positions, np.int64))
    starts = np.concatenate(found) if found else np.zeros(0, np.int64)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    last_of_region = np.cumsum([region.record_count for region in regions], dtype=np.int64) - 1
    ends[last_of_region] = [region.end for region in regions]
    return starts, ends


def _guess(array: Bytes, region: Region, found: list[Integers]) -> tuple[int, int]:
    """Find records by guessing that each is as long as the one before.

    Returns:
        Where to continue, and how many records are left: 0 if all are equally long.
    """
    position, end, left = region
    guessed, irregular = _GUESSED_MIN, 0
    while left and irregular < _IRREGULAR_MAX:
        encoded = _encoded_length(array, position)
        if not encoded:
            break
        size = _size(encoded)
        count = min(guessed, left, (end - position) // size)
        if count < 1:
            break
        places = position + size * np.arange(count, dtype=np.int64)
        is_right = array.take(places) == encoded[0]
        for index, byte in enumerate(encoded[1:], 1):
            is_right &= array.take(places + index) == byte
        right = count if is_right.all() else int(is_right.argmin())
        found.append(places[:right])
        position += size * right
        left -= right
        if right == count:
            guessed = min(4 * guessed, _GUESSED_MAX)
        else:
            irregular += right < _GUESSED_MIN // 2
            guessed = _GUESSED_MIN
    return position, left


def _encoded_length(array: Bytes, position: int) -> list[int]:
    """The bytes of a record's length; empty if it is too long."""
    some: list[int] = array[position : position + _LENGTH_SIZE_BYTES_MAX].tolist()
    for index, byte in enumerate(some):
        if byte < 0x80:
            return some[: index + 1]
    return []


def _size(encoded: list[int]) -> int:
    """The size of a record, including its length."""
    value = 0
    for index, byte in enumerate(encoded):
        value |= (byte & 0x7F) << 7 * index
    return (value >> 1) + len(encoded)


def _walk(buffer: bytes | memoryview, position: int, count: int, positions: list[int]) -> int:
    """Find records one by one; returns the end of the last one, -1 if beyond the buffer."""
    append = positions.append
    after_one, first_of_two, second_of_two = _AFTER_ONE, _FIRST_OF_TWO, _SECOND_OF_TWO
    try:
        for _ in range(count):
            append(position)
            byte = buffer[position]
            if byte < 0x80:
                position += after_one[byte]
            else:
                second = buffer[position + 1]
                if second < 0x80:
                    position += first_of_two[byte] + second_of_two[second]
                else:
                    position = _after_long(buffer, position)
    except IndexError:
        return -1
    return position


def _after_long(buffer: bytes | memoryview, position: int) -> int:
    """The end of a record whose length has three bytes or more."""
    encoded = buffer[position : position + _LENGTH_SIZE_BYTES_MAX]
    for index, byte in enumerate(encoded):
        if byte < 0x80:
            return position + _size(list(encoded[: index + 1]))
    raise IndexError(position)
