"""Kafka's default partitioner, a column at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minikafka_client.partitioner import murmur2

Hashes = NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_ALIKE_MIN: Final = 8
"""Fewer keys of one length than this are hashed one by one."""


def murmur2_column(keys: pa.Array) -> Hashes:
    """Kafka's 32-bit MurmurHash2 of each binary key; a null key is hashed like an empty one."""
    count = len(keys)
    if not count:
        return np.zeros(0, np.uint32)
    _, bounds, content = keys.buffers()
    offsets = np.frombuffer(memoryview(bounds), np.int32)[keys.offset : keys.offset + count + 1]
    data = np.frombuffer(memoryview(content or b""), np.uint8)
    sizes = np.diff(offsets)
    if keys.null_count:
        sizes = np.where(keys.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    hashes: Hashes = np.empty(count, np.uint32)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        starts = offsets[rows].astype(np.int64)
        if len(rows) < _ALIKE_MIN:
            hashes[rows] = [murmur2(data[at : at + size].tobytes()) for at in starts.tolist()]
        elif len(rows) == count and not keys.null_count:
            first = int(starts[0])
            hashes = _hash(data[first : first + count * size].reshape(count, size))
        else:
            hashes[rows] = _hash(data[starts[:, None] + np.arange(size)])
    return hashes


def _hash(rows: NDArray[np.uint8]) -> Hashes:
    """Hash keys of one length, one to a row."""
    count, size = rows.shape
    whole = size & ~3
    h = np.full(count, _SEED ^ size, np.uint32)
    words = np.ascontiguousarray(rows[:, :whole]).view("<u4")
    for column in range(whole // 4):
        k = words[:, column] * _M
        k ^= k >> np.uint32(24)
        k *= _M
        h *= _M
        h ^= k
    if whole < size:
        for index in range(size - whole):
            h ^= rows[:, whole + index].astype(np.uint32) << np.uint32(8 * index)
        h *= _M
    h ^= h >> np.uint32(13)
    h *= _M
    h ^= h >> np.uint32(15)
    return h


def partitions_for_keys(keys: pa.Array, partition_count: int) -> NDArray[np.int64]:
    """Kafka's default for records with a key: the positive part of the hash, modulo partitions."""
    return (murmur2_column(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partition_count
