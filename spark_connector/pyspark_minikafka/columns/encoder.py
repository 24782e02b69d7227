"""Encodes Arrow columns as record batches.

NumPy computes the bytes between keys and values (lengths, deltas, counts) for all records at once,
as Arrow arrays of byte strings. One Arrow call joins them with the keys and values; its result is
the payload of the batches, record after record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from minikafka.protocol.records import Compression, assemble_batch
from minikafka.protocol.records.builder import encode_headers

from .varints import Bytes, Integers, varint_sizes, write_varints

RECORD_OVERHEAD_SIZE_BYTES_MAX: Final = 5 + 1 + 1 + 5 + 5 + 5 + 1
"""Of a record without headers: length, attributes, two deltas, two sizes, header count."""

NO_HEADERS: Final = b"\0"


def encode_batches(
    keys: pa.Array | None,
    values: pa.Array,
    headers: pa.Array | None,
    *,
    timestamp_ms: int,
    batch_size_bytes_max: int,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> Iterator[bytearray]:
    """Encode records for one partition, in order, as batches of limited size.

    Args:
        keys: binary, or None if no record has a key.
        values: binary; null is a tombstone.
        headers: lists of name and bytes, or None if no record has headers.
        timestamp_ms: of all records.
        batch_size_bytes_max: limit of a batch's records before compression; a larger record gets a
            batch of its own.
        compression: the codec.
        producer_id: of an idempotent or transactional producer, else -1.
        producer_epoch: its epoch, else -1.
        base_sequence: of the first record; the following batches continue it.
        is_transactional: whether the records are part of the producer's transaction.
    """
    if not len(values):
        return
    payload, ends, bounds = _payload(keys, values, headers, batch_size_bytes_max)
    for first, end in pairwise(bounds):
        yield assemble_batch(
            bytes(payload[int(ends[first]) : int(ends[end])]),
            record_count=end - first,
            last_offset_delta=end - first - 1,
            base_timestamp=timestamp_ms,
            max_timestamp=timestamp_ms,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1 if base_sequence < 0 else (base_sequence + first) & 0x7FFFFFFF,
            is_transactional=is_transactional,
        )


def _payload(
    keys: pa.Array | None,
    values: pa.Array,
    headers: pa.Array | None,
    batch_size_bytes_max: int,
) -> tuple[memoryview, NDArray[np.int32], list[int]]:
    """Encode the records.

    Returns:
        Their bytes; where in these each record begins, and the last one ends; and the index of the
        record that begins each batch, and the number of records.
    """
    count = len(values)
    key_sizes = _sizes(keys, count)
    value_sizes = _sizes(values, count)
    trailers = encode_trailers(headers)
    trailer_sizes = np.ones(count, np.int64) if trailers is None else _sizes(trailers, count)
    payload_sizes = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + trailer_sizes
    bounds = _bounds(payload_sizes + RECORD_OVERHEAD_SIZE_BYTES_MAX, batch_size_bytes_max)
    firsts = np.array(bounds[:-1], np.int64)
    offset_deltas = np.arange(count) - np.repeat(firsts, np.diff(bounds))
    lengths = (
        payload_sizes
        + 2  # attributes and the timestamp delta, which is 0
        + varint_sizes(offset_deltas)
        + varint_sizes(key_sizes)
        + varint_sizes(value_sizes)
    )
    joined = pc.binary_join_element_wise(
        _fragments((lengths, None, offset_deltas, key_sizes)),
        *(() if keys is None else (keys,)),
        _fragments((value_sizes,)),
        values,
        pa.scalar(NO_HEADERS, pa.binary()) if trailers is None else trailers,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement=b"",
    )
    ends = np.frombuffer(memoryview(joined.buffers()[1]), np.int32)[
        joined.offset : joined.offset + count + 1
    ]
    return memoryview(joined.buffers()[2]), ends, bounds


def _sizes(array: pa.Array | None, count: int) -> Integers:
    """Sizes of byte strings, -1 for null."""
    if array is None:
        return np.full(count, -1, np.int64)
    sizes = pc.binary_length(array).fill_null(-1).to_numpy(zero_copy_only=False)
    return sizes.astype(np.int64)


def _bounds(sizes: Integers, size_bytes_max: int) -> list[int]:
    """The first record of each batch, and the number of records."""
    ends = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        end = int(np.searchsorted(ends, before + size_bytes_max, side="right"))
        bounds.append(max(end, bounds[-1] + 1))
    return bounds


def _fragments(columns: tuple[Integers | None, ...]) -> pa.Array:
    """Byte strings with one varint per column; None stands for two zero bytes."""
    given = [column for column in columns if column is not None]
    sizes = sum((varint_sizes(column) for column in given), np.zeros(len(given[0]), np.int64))
    sizes += 2 * (len(columns) - len(given))
    bounds: NDArray[np.int32] = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    buffer: Bytes = np.zeros(int(bounds[-1]), np.uint8)
    positions = bounds[:-1].astype(np.int64)
    for column in columns:
        positions = positions + 2 if column is None else write_varints(buffer, positions, column)
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )


def encode_trailers(headers: pa.Array | None) -> pa.Array | None:
    """The encoded headers of each record; None if no record has any."""
    if headers is None or not pc.sum(pc.list_value_length(headers)).as_py():
        return None
    encoded = [
        encode_headers([(header["key"], header["value"]) for header in row or ()])
        for row in headers.to_pylist()
    ]
    return pa.array(encoded, pa.binary())
