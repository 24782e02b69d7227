"""Decodes batches whose records all have the same shape, without an operation per byte.

Measurements, identifiers, rows of fixed width: records are often equal in everything but their
timestamp, their offset and the bytes of key and value. Then the encoded records are a matrix with
one record in each row. A column of a matrix is a slice with a stride, so that comparing every byte
outside keys and values with what it must be costs no more than a copy:

    size (1-3)  attributes (1)  timestamp (1)  offset (1-2)  key size  key  value size  value  0

Everything that is not proven to be such a matrix is left to `decode_records`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.records.batch import BatchHeader
from minikafka.protocol.records.varint import ENCODED_LENGTHS_COUNT, encode_varint, read_varint
from minikafka_client.core.offset_columns import ONE_BYTE_OFFSETS, offset_columns

RECORDS_MIN: Final = 8
"""Fewer records are decoded sooner one by one."""

_ONE_BYTE_TIMESTAMPS: Final = bytes(range(0, 0x80, 2))
"""The one-byte varints that are not negative."""
_NULL: Final = -1
_NO_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = b"\x00"


class UniformBatch(NamedTuple):
    """A batch without headers in its records; ``timestamp_deltas`` are doubled."""

    record_count: int
    timestamp_deltas: bytes
    keys: list[bytes] | None
    values: list[bytes] | None


class _Shape(NamedTuple):
    """What the first record shows; sizes are -1 for null."""

    key_size: int
    value_size: int


def decode_uniform(records: bytes, header: BatchHeader) -> UniformBatch | None:
    """Decode the uncompressed records of a batch, or None when they are no such matrix.

    The offsets of the records are then ``header.base_offset`` and the ones after it.
    """
    count = header.record_count
    if not RECORDS_MIN <= count <= ENCODED_LENGTHS_COUNT or header.last_offset_delta != count - 1:
        return None
    shape = _first_shape(records)
    if shape is None:
        return None
    few = min(count, ONE_BYTE_OFFSETS)
    head = _Rows(records, 0, 0, few, shape)
    tail = _Rows(records, head.end, few, count - few, shape)
    if tail.end != len(records) or not (head.is_proven() and tail.is_proven()):
        return None
    return UniformBatch(
        count,
        head.timestamps() + tail.timestamps(),
        None if shape.key_size == _NULL else head.keys() + tail.keys(),
        None if shape.value_size == _NULL else head.values() + tail.values(),
    )


def _first_shape(records: bytes) -> _Shape | None:
    """The sizes of the first record's key and value; whether it is one is proven later."""
    limit = len(records)
    try:
        _size, position = read_varint(records, 0, limit)
        key_size, position = read_varint(records, position + 3, limit)
        if key_size > 0:
            position += key_size
        value_size, _position = read_varint(records, position, limit)
    except (IndexError, ValueError):
        return None
    if key_size < _NULL or value_size < _NULL:
        return None
    return _Shape(key_size, value_size)


class _Rows:
    """Some rows of the matrix: records whose offset deltas take equally many bytes."""

    def __init__(self, records: bytes, start: int, first: int, count: int, shape: _Shape) -> None:
        self._records = records
        self._start = start
        self._first = first
        self._count = count
        self._shape = shape
        offset_size = 1 if first < ONE_BYTE_OFFSETS else 2
        after_offset = (
            len(encode_varint(shape.key_size))
            + max(0, shape.key_size)
            + len(encode_varint(shape.value_size))
            + max(0, shape.value_size)
            + 1
        )
        length = 2 + offset_size + after_offset
        self._size_part = encode_varint(length)
        self._size = len(self._size_part) + length
        self._offset_at = len(self._size_part) + 2
        self._key_at = self._offset_at + offset_size + len(encode_varint(shape.key_size))
        self._value_at = (
            self._key_at + max(0, shape.key_size) + len(encode_varint(shape.value_size))
        )
        self.end = start + count * self._size

    def _column(self, position: int) -> bytes:
        return self._records[self._start + position : self.end : self._size]

    def is_proven(self) -> bool:
        """Whether every byte outside keys and values is what it must be."""
        key_size = encode_varint(self._shape.key_size)
        value_size = encode_varint(self._shape.value_size)
        constants = (
            (0, self._size_part + _NO_ATTRIBUTES),
            (self._key_at - len(key_size), key_size),
            (self._value_at - len(value_size), value_size),
            (self._size - 1, _NO_HEADERS),
        )
        if not all(self._is_constant(position, constant) for position, constant in constants):
            return False
        if self.timestamps().translate(None, _ONE_BYTE_TIMESTAMPS):
            return False
        return self._has_offsets()

    def _is_constant(self, position: int, constant: bytes) -> bool:
        return all(
            self._column(position + index) == constant[index : index + 1] * self._count
            for index in range(len(constant))
        )

    def _has_offsets(self) -> bool:
        columns = offset_columns(self._first, self._count)
        return all(
            self._column(self._offset_at + index) == column for index, column in enumerate(columns)
        )

    def timestamps(self) -> bytes:
        return self._column(self._offset_at - 1)

    def keys(self) -> list[bytes]:
        return self._cells(self._key_at, self._shape.key_size)

    def values(self) -> list[bytes]:
        return self._cells(self._value_at, self._shape.value_size)

    def _cells(self, position: int, size: int) -> list[bytes]:
        cell = Struct(f"{position}x{size}s{self._size - position - size}x")
        rows = memoryview(self._records)[self._start : self.end]
        return [content for (content,) in cell.iter_unpack(rows)]
