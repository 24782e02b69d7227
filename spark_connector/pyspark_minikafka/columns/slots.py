"""Byte strings in a buffer, each after its size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .positions import MalformedRecordsError
from .varints import Bytes, Integers, read_varints


class Slots:
    """Keys or values of records; a size of -1 is null.

    Args:
        array: the buffer.
        positions: of their sizes.
        record_ends: of their records; at least one byte of the record follows each slot.

    Attributes:
        ends: of the byte strings.

    Raises:
        MalformedRecordsError: one is larger than its record.
    """

    __slots__ = ("_sizes", "_starts", "ends")

    def __init__(self, array: Bytes, positions: Integers, record_ends: Integers) -> None:
        self._sizes, self._starts = read_varints(array, positions)
        rest = record_ends - self._starts
        if ((self._sizes < -1) | (self._sizes >= rest)).any():
            raise MalformedRecordsError("a key or value exceeds its record")
        self.ends = self._starts + np.maximum(self._sizes, 0)

    def take(self, buffer: pa.Buffer) -> pa.Array:
        """The byte strings: copied out of the buffer, or a slice of it if there is only one."""
        count = len(self._sizes)
        if count == 1 and self._sizes[0] >= 0:
            one: NDArray[np.int32] = np.array([self._starts[0], self.ends[0]], np.int32)
            return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, pa.py_buffer(one), buffer])
        bounds: NDArray[np.int32] = np.empty(2 * count + 1, np.int32)
        bounds[0 : 2 * count : 2] = self._starts
        bounds[1 : 2 * count : 2] = self.ends
        bounds[2 * count] = bounds[2 * count - 1] if count else 0
        slots = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * count, [None, pa.py_buffer(bounds), buffer]
        )
        is_null = self._sizes < 0
        index = pa.array(
            np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null if is_null.any() else None
        )
        return slots.take(index)
