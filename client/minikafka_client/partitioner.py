"""Which partition a key belongs to, exactly as Kafka's Java client decides it."""

from __future__ import annotations

from functools import lru_cache
from struct import iter_unpack
from typing import Final

KEYS_REMEMBERED_MAX: Final = 16_384

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 that Kafka uses, as an unsigned number."""
    size_bytes = len(key)
    whole = size_bytes & ~3
    h = _SEED ^ size_bytes
    for (k,) in iter_unpack("<I", key[:whole]):
        k = (k * _M) & _MASK
        k ^= k >> 24
        h = ((h * _M) & _MASK) ^ ((k * _M) & _MASK)
    if whole < size_bytes:
        h ^= int.from_bytes(key[whole:], "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


@lru_cache(KEYS_REMEMBERED_MAX)
def partition_for_key(key: bytes, partition_count: int) -> int:
    """Kafka's default: the positive part of murmur2 of the key, modulo the partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
