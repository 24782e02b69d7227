"""Whether a consumer can read a record batch: a reader of the format that knows no code of ours.

A batch that a broker has acknowledged and that nobody can read is poison: every consumer of its
partition stops there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC_MASK = 7
_VARINT_BITS = 32
_VARLONG_BITS = 64

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_VERSIONS = struct.Struct(">ii")


def _snappy_decode(payload: bytes) -> bytes:
    """As Java's reader, which accepts versions from 1 on; aiokafka's knows 1 only."""
    if payload.startswith(_SNAPPY_MAGIC) and len(payload) >= 16:
        version, _ = _SNAPPY_VERSIONS.unpack_from(payload, len(_SNAPPY_MAGIC))
        if version >= 1:
            payload = _SNAPPY_MAGIC + _SNAPPY_VERSIONS.pack(1, 1) + payload[16:]
    return bytes(snappy_decode(payload))


_CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: gzip_decode,
    2: _snappy_decode,
    3: lz4_decode,
    4: zstd_decode,
}


class _PoisonError(Exception):
    """What is wrong with the batch."""


def poison(batch: bytes, *, needs_keys: bool = False) -> str | None:
    """Why a consumer cannot read a batch (or its topic be compacted); None if it can."""
    header = _HEADER.unpack_from(batch)
    attributes, last_offset_delta, count = header[5], header[6], header[12]
    try:
        payload = _decompress(attributes & _CODEC_MASK, batch[_HEADER.size :])
        at = 0
        for number in range(count):
            at = _read_record(payload, at, number, needs_keys=needs_keys)
    except _PoisonError as error:
        return str(error)
    if at != len(payload):
        return f"{len(payload) - at} bytes behind the last record"
    if last_offset_delta != count - 1:
        return f"the last offset delta of {count} records is {last_offset_delta}"
    return None


def _decompress(codec: int, payload: bytes) -> bytes:
    try:
        return bytes(_CODECS[codec](payload))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - codecs in Rust may panic
        raise _PoisonError(f"codec {codec}: {error}") from None


def _read_record(payload: bytes, at: int, number: int, *, needs_keys: bool) -> int:
    length, at = _varint(payload, at, _VARINT_BITS)
    end = at + length
    if length < 0 or end > len(payload):
        raise _PoisonError(f"record {number} has {length} bytes of {len(payload) - at}")
    at += 1  # attributes, of which there are none
    _, at = _varint(payload, at, _VARLONG_BITS)
    delta, at = _varint(payload, at, _VARINT_BITS)
    if delta != number:
        raise _PoisonError(f"record {number} has the offset delta {delta}")
    key_end = _skip_bytes(payload, at, f"the key of record {number}")
    if needs_keys and key_end - at == 1 and payload[at] == 1:
        raise _PoisonError(f"record {number} has no key")
    at = _skip_bytes(payload, key_end, f"the value of record {number}")
    headers, at = _varint(payload, at, _VARINT_BITS)
    if not 0 <= headers <= len(payload):
        raise _PoisonError(f"record {number} has {headers} headers")
    for _ in range(headers):
        at = _skip_bytes(payload, at, "a header's key", is_nullable=False)
        at = _skip_bytes(payload, at, "a header's value")
    if at != end:
        raise _PoisonError(f"record {number} ends {end - at} bytes after its last field")
    return at


def _skip_bytes(payload: bytes, at: int, what: str, *, is_nullable: bool = True) -> int:
    size, at = _varint(payload, at, _VARINT_BITS)
    if size == -1 and is_nullable:
        return at
    if size < 0 or at + size > len(payload):
        raise _PoisonError(f"{what} has {size} bytes")
    return at + size


def _varint(payload: bytes, at: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while shift < bits:
        if at >= len(payload):
            raise _PoisonError("it ends inside a number")
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value >> 1) ^ -(value & 1), at
    raise _PoisonError("a number is too long")
