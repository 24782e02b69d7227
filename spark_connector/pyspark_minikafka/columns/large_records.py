"""Encodes records with large values, which are copied only once.

The vectorized encoder copies a value four times: into the order of partitions, into one array with
all records, out of it as a batch's records, and behind the batch's header. With small values that
costs less than Python's work for a single record; with large ones it is all that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

import pyarrow as pa

from minikafka.protocol.records import assemble_batch, compute_crc
from minikafka.protocol.records.batch import BATCH_LENGTH_MIN
from minikafka.protocol.records.varint import encode_varint

from .encoder import NO_HEADERS, RECORD_OVERHEAD_SIZE_BYTES_MAX, encode_trailers

LARGE_VALUE_SIZE_BYTES: Final = 16 * 1024
"""From this average size on, this encoder is the faster one."""

_ATTRIBUTES_AND_TIMESTAMP_DELTA: Final = b"\0\0"
_NULL_SIZE: Final = encode_varint(-1)

_BATCH_LENGTH: Final = Struct(">i")
_BATCH_LENGTH_POSITION: Final = 8
_CRC: Final = Struct(">I")
_CRC_POSITION: Final = 17


def has_large_values(values: pa.Array) -> bool:
    """Whether `encode_large_batches` is the faster encoder for a column."""
    return len(values) > 0 and values.nbytes >= LARGE_VALUE_SIZE_BYTES * len(values)


def encode_large_batches(
    keys: pa.Array | None,
    values: pa.Array,
    headers: pa.Array | None,
    rows: Iterable[int],
    *,
    timestamp_ms: int,
    batch_size_bytes_max: int,
) -> Iterator[bytearray]:
    """Encode some rows for one partition, in the given order, without compression.

    Args:
        keys: binary, or None if no record has a key.
        values: binary; null is a tombstone.
        headers: lists of name and bytes, or None if no record has headers.
        rows: indexes into the columns.
        timestamp_ms: of all records.
        batch_size_bytes_max: limit of a batch's records; a larger record gets a batch of its own.
    """
    trailers = encode_trailers(headers)
    pieces: list[bytes | pa.Buffer] = []
    count = size_bytes = 0
    for row in rows:
        key = None if keys is None else keys[row].as_buffer()
        value = values[row].as_buffer()
        trailer = NO_HEADERS if trailers is None else trailers[row].as_py()
        payload_bytes = _size(key) + _size(value) + len(trailer) + RECORD_OVERHEAD_SIZE_BYTES_MAX
        if count and size_bytes + payload_bytes > batch_size_bytes_max:
            yield _batch(pieces, count, timestamp_ms)
            pieces, count, size_bytes = [], 0, 0
        pieces += _record(count, key, value, trailer)
        count += 1
        size_bytes += payload_bytes
    if count:
        yield _batch(pieces, count, timestamp_ms)


def _size(field: pa.Buffer | None) -> int:
    return 0 if field is None else field.size


def _record(
    offset_delta: int, key: pa.Buffer | None, value: pa.Buffer | None, trailer: bytes
) -> list[bytes | pa.Buffer]:
    before: list[bytes | pa.Buffer] = [_ATTRIBUTES_AND_TIMESTAMP_DELTA, encode_varint(offset_delta)]
    for field in (key, value):
        if field is None:
            before.append(_NULL_SIZE)
        else:
            before += (encode_varint(field.size), field)
    length = sum(map(len, before)) + len(trailer)
    return [encode_varint(length), *before, trailer]


def _batch(pieces: list[bytes | pa.Buffer], count: int, timestamp_ms: int) -> bytearray:
    """Join records behind a header; its length and CRC are those of an empty batch at first."""
    header = assemble_batch(
        b"",
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
    )
    batch = bytearray().join((header, *pieces))
    length = BATCH_LENGTH_MIN + len(batch) - len(header)
    _BATCH_LENGTH.pack_into(batch, _BATCH_LENGTH_POSITION, length)
    _CRC.pack_into(batch, _CRC_POSITION, compute_crc(batch, 0, len(batch)))
    return batch
