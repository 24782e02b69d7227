"""Encodes records that have nothing but a value, a whole batch at a time.

Most records are like that when the rate is high. Appending such a record is one list append; what
the wire wants around the values is put there when the batch is closed, without a Python operation
per record:

    size  attributes timestamp_delta | offset_delta | -1 value_size | value | 0
    head                             | offset       | middle        | value | tail

Values of equal size (the rule, where the rate is high) are joined with what stands between two of
them, and then all offsets are written as a column of the matrix that this makes. For others, each
piece is put into its place in a long list, all pieces of a kind at once, and the list is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from minikafka.protocol.records.assembly import assemble_batch
from minikafka.protocol.records.batch import NO_TIMESTAMP
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.varint import ENCODED_LENGTHS, ENCODED_LENGTHS_COUNT, encode_varint
from minikafka_client.core.offset_columns import ONE_BYTE_OFFSETS, offset_columns

Run = tuple[int, list[bytes]]
"""A timestamp, and the values of the records that have it."""

OVERHEAD_SIZE_BYTES: Final = 16
"""What a record takes besides its value; a batch of an hour or of a million records takes more."""

_NULL_KEY: Final = b"\x01"
_NO_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = b"\x00"
_PIECES: Final = 4
_MANY_RECORDS: Final = 8
"""Fewer are encoded sooner one by one."""


class _Table(dict[int, bytes]):
    """Value size -> the bytes that depend on nothing else; computed when first asked for."""

    def __init__(self, compute: Callable[[int], bytes]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, size_bytes: int) -> bytes:
        encoded = self[size_bytes] = self._compute(size_bytes)
        return encoded


def _middle(size_bytes: int) -> bytes:
    return _NULL_KEY + encode_varint(size_bytes)


def _head(size_bytes: int, timestamp_delta: bytes, offset_size_bytes: int) -> bytes:
    length = (
        1 + len(timestamp_delta) + offset_size_bytes + len(_middle(size_bytes)) + size_bytes + 1
    )
    return encode_varint(length) + _NO_ATTRIBUTES + timestamp_delta


def encode_plain_batch(
    runs: Sequence[Run], *, compression: Compression, level: int | None
) -> bytearray:
    """Encode the runs in order; `ValueError` if timestamps are more than 64 bits apart."""
    base_timestamp = max_timestamp = runs[0][0]
    encoded: list[bytes | bytearray] = []
    count = 0
    for timestamp, values in runs:
        encode = _encode_run if len(values) >= _MANY_RECORDS else _encode_singly
        encoded.append(encode(values, count, timestamp - base_timestamp))
        count += len(values)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
    return assemble_batch(
        b"".join(encoded) if len(encoded) > 1 else encoded[0],
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(NO_TIMESTAMP, max_timestamp),
        compression=compression,
        level=level,
    )


def _encode_run(values: list[bytes], first: int, timestamp_delta: int) -> bytes | bytearray:
    """Encode records in parts whose offset deltas take equally many bytes."""
    sizes = list(map(len, values))
    are_equal = sizes[0] == sizes[-1] and sizes.count(sizes[0]) == len(sizes)
    encode = _join_equal if are_equal else _join
    delta = encode_varint(timestamp_delta)
    encoded: list[bytes | bytearray] = []
    start = 0
    while start < len(values):
        offset = first + start
        if offset >= ENCODED_LENGTHS_COUNT:  # so many small records that no table has their offsets
            encoded.append(_encode_singly(values[start:], offset, timestamp_delta))
            break
        class_end = ONE_BYTE_OFFSETS if offset < ONE_BYTE_OFFSETS else ENCODED_LENGTHS_COUNT
        end = start + class_end - offset
        encoded.append(encode(values[start:end], sizes[start:end], offset, delta))
        start = end
    return b"".join(encoded) if len(encoded) > 1 else encoded[0]


def _encode_singly(values: list[bytes], first: int, timestamp_delta: int) -> bytes:
    before_offset = _NO_ATTRIBUTES + encode_varint(timestamp_delta)
    encoded: list[bytes] = []
    for offset, value in enumerate(values, first):
        before_value = before_offset + encode_varint(offset) + _middle(len(value))
        length = len(before_value) + len(value) + len(_NO_HEADERS)
        encoded += (encode_varint(length), before_value, value, _NO_HEADERS)
    return b"".join(encoded)


def _join_equal(
    values: list[bytes], sizes: list[int], first: int, timestamp_delta: bytes
) -> bytearray:
    columns = offset_columns(first, len(values))
    head = _head(sizes[0], timestamp_delta, len(columns))
    record_start = head + bytes(len(columns)) + _middle(sizes[0])
    # One more before the first and behind the last, of which a part is cut off again: joining and
    # cutting at the ends is done in place.
    records = bytearray(_NO_HEADERS + record_start).join([b"", *values, b""])
    del records[: len(_NO_HEADERS)]
    del records[-len(record_start) :]
    record_size = len(record_start) + sizes[0] + len(_NO_HEADERS)
    for position, column in enumerate(columns, len(head)):
        records[position::record_size] = column
    return records


def _join(values: list[bytes], sizes: list[int], first: int, timestamp_delta: bytes) -> bytes:
    offsets = ENCODED_LENGTHS[first : first + len(values)]
    offset_size_bytes = len(offsets[0])
    # What ends a record and what begins the next one are one piece.
    heads = _Table(
        lambda size_bytes: _NO_HEADERS + _head(size_bytes, timestamp_delta, offset_size_bytes)
    )
    pieces = [_NO_HEADERS] * (_PIECES * len(values) + 1)
    pieces[0:-1:_PIECES] = map(heads.__getitem__, sizes)
    pieces[0] = _head(sizes[0], timestamp_delta, offset_size_bytes)
    pieces[1::_PIECES] = offsets
    pieces[2::_PIECES] = map(_Table(_middle).__getitem__, sizes)
    pieces[3::_PIECES] = values
    return b"".join(pieces)
