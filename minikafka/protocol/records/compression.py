"""The compression codecs of record batches.

The formats that Kafka's clients write, and therefore those of this module:

    gzip    RFC 1952; consecutive members are read as one.
    snappy  Written with the framing of Java's snappy library: a 16-byte header, then 32 KiB blocks,
            each preceded by its size. Bare snappy blocks, which librdkafka sends, are read too.
    lz4     LZ4 frames of independent 64 KiB blocks: Java's reader rejects linked ones (KIP-57).
    zstd    Zstandard frames, with or without a content size (KIP-110).

Decompression never allocates much more than the caller's limit, whatever the payload claims.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from io import BytesIO
from struct import Struct
from typing import Final

from minikafka.protocol.records.errors import DecompressedSizeError, DecompressionError
from minikafka.protocol.records.frame_bounds import lz4_size_bound, zstd_size_bound

# cramjam is imported inside the functions: loading it takes longer than loading the rest of this
# package, and a broker that never reads a compressed batch does not need it.

DECOMPRESSED_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""The default limit: 128 times Kafka's default message.max.bytes."""


class Compression(IntEnum):
    """Codec of a record batch: the three lowest bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_LEVELS: Final = {
    # lowest, highest and default level; the first two as in Kafka (KIP-390)
    Compression.GZIP: (1, 9, 6),
    Compression.LZ4: (1, 17, 1),  # 1 is the fast compressor, which is Kafka's default as well
    Compression.ZSTD: (-131072, 22, 3),
}

_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS  # 16: with gzip's header and trailer
_GZIP_PIECE_SIZE_BYTES: Final = 32 * 1024
"""Input per step. zlib copies the rest of a step after each member, so many tiny members would take
quadratic time if the whole payload were one step."""

SNAPPY_HEAD_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEAD: Final = SNAPPY_HEAD_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, compatible
SNAPPY_HEAD_SIZE_BYTES: Final = len(_SNAPPY_HEAD)
_SNAPPY_BLOCK_SIZE_BYTES: Final = 32 * 1024
SNAPPY_RATIO_MAX: Final = 32  # a copy of 64 bytes takes at least 3

_INT32: Final = Struct(">i")


def compress(
    compression: Compression, payload: bytes | bytearray | memoryview, level: int | None = None
) -> bytes:
    """Compress the records part of a batch.

    Args:
        compression: The codec.
        payload: Any number of bytes.
        level: On the codec's own scale; the codec's default when None.

    Raises:
        ValueError: the codec has no such level, or no levels at all.
    """
    level = _check_level(compression, level)
    if compression is Compression.NONE:
        return bytes(payload)
    return _COMPRESSORS[compression](payload, level)


def decompress(
    compression: Compression,
    payload: bytes | bytearray | memoryview,
    *,
    size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX,
) -> bytes:
    """Decompress the records part of a batch.

    Args:
        compression: The codec.
        payload: The compressed bytes, with nothing after them.
        size_bytes_max: The largest result allowed.

    Raises:
        DecompressionError: the payload is malformed.
        DecompressedSizeError: the result would be larger than `size_bytes_max`.
    """
    if compression is Compression.NONE:
        if len(payload) > size_bytes_max:
            raise _too_large(compression, payload, size_bytes_max)
        return bytes(payload)
    return _DECOMPRESSORS[compression](bytes(payload), size_bytes_max)


def _check_level(compression: Compression, level: int | None) -> int:
    levels = _LEVELS.get(compression)
    if levels is None:
        if level is not None:
            raise ValueError(f"{compression.name} has no levels; got level {level}, leave it out")
        return 0
    lowest, highest, default = levels
    if level is None:
        return default
    if not lowest <= level <= highest:
        raise ValueError(f"{compression.name} level {level} is not within {lowest} to {highest}")
    return level


def _too_large(
    compression: Compression, payload: bytes | bytearray | memoryview, size_bytes_max: int
) -> DecompressedSizeError:
    return DecompressedSizeError(
        f"{compression.name}: {len(payload)} bytes decompress to more than the {size_bytes_max} "
        "bytes allowed; send smaller batches or raise the limit"
    )


def _compress_gzip(payload: bytes | bytearray | memoryview, level: int) -> bytes:
    compressor = zlib.compressobj(level, wbits=_GZIP_WINDOW_BITS)
    return compressor.compress(payload) + compressor.flush()


def _decompress_gzip(payload: bytes, size_bytes_max: int) -> bytes:
    view = memoryview(payload)
    result = BytesIO()  # one growing block: see `_decompress_snappy`
    size_bytes = position = 0
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    while True:
        piece = view[position : position + _GZIP_PIECE_SIZE_BYTES]
        try:
            decompressed = member.decompress(piece, size_bytes_max - size_bytes + 1)
        except zlib.error as error:
            raise DecompressionError(
                f"GZIP: {len(payload)} bytes cannot be decompressed: {error}"
            ) from None
        size_bytes += len(decompressed)
        if size_bytes > size_bytes_max:
            raise _too_large(Compression.GZIP, payload, size_bytes_max)
        result.write(decompressed)
        position += len(piece) - len(member.unused_data)
        if member.eof and position == len(payload):
            return result.getvalue()
        if member.eof:
            member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        elif position == len(payload):
            raise DecompressionError(f"GZIP: the {len(payload)} bytes end inside the stream")


def _compress_snappy(payload: bytes | bytearray | memoryview, _level: int) -> bytes:
    import cramjam

    view = memoryview(payload)
    pieces = [_SNAPPY_HEAD]
    for start in range(0, len(view), _SNAPPY_BLOCK_SIZE_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_SIZE_BYTES]))
        pieces.append(_INT32.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(payload: bytes, size_bytes_max: int) -> bytes:
    if not payload.startswith(SNAPPY_HEAD_MAGIC):
        return _decompress_snappy_block(payload, size_bytes_max)
    # As in Java, versions from 1 on are read: some producers write it little-endian. The compatible
    # version is ignored.
    version_end = len(SNAPPY_HEAD_MAGIC) + _INT32.size
    if len(payload) >= version_end and _INT32.unpack_from(payload, len(SNAPPY_HEAD_MAGIC))[0] < 1:
        raise DecompressionError("SNAPPY: the version of the stream is less than 1")
    position = SNAPPY_HEAD_SIZE_BYTES
    # One growing block, not a list of small ones: malloc gives a large block back to the system at
    # once, but keeps 100 MB of small ones when anything else was put above them.
    result = BytesIO()
    size_bytes_left = size_bytes_max
    while position < len(payload):
        if payload.startswith(SNAPPY_HEAD_MAGIC, position):
            position += SNAPPY_HEAD_SIZE_BYTES  # streams may be concatenated
            continue
        block_start = position + _INT32.size
        if block_start > len(payload):
            raise DecompressionError("SNAPPY: the payload ends inside the size of a block")
        block_size_bytes: int = _INT32.unpack_from(payload, position)[0]
        position = block_start + block_size_bytes
        if block_size_bytes < 0 or position > len(payload):
            raise DecompressionError(
                f"SNAPPY: a block of {block_size_bytes} bytes at byte {block_start}, "
                f"{len(payload) - block_start} are there"
            )
        try:
            piece = _decompress_snappy_block(payload[block_start:position], size_bytes_left)
        except DecompressedSizeError:
            raise _too_large(Compression.SNAPPY, payload, size_bytes_max) from None
        size_bytes_left -= len(piece)
        result.write(piece)
    if position > len(payload):
        raise DecompressionError("SNAPPY: the payload ends inside the head of the stream")
    return result.getvalue()


def _decompress_snappy_block(block: bytes, size_bytes_max: int) -> bytes:
    import cramjam

    try:
        claimed_size_bytes = cramjam.snappy.decompress_raw_len(block)
        if claimed_size_bytes > size_bytes_max:
            raise _too_large(Compression.SNAPPY, block, size_bytes_max)
        if claimed_size_bytes > SNAPPY_RATIO_MAX * len(block):
            raise DecompressionError(
                f"SNAPPY: {len(block)} bytes cannot hold the {claimed_size_bytes} they claim"
            )
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionError(
            f"SNAPPY: {len(block)} bytes cannot be decompressed: {error}"
        ) from None


def _compress_lz4(payload: bytes | bytearray | memoryview, level: int) -> bytes:
    import cramjam

    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(payload))  # takes nothing else
    return bytes(compressor.finish())


def _decompress_lz4(payload: bytes, size_bytes_max: int) -> bytes:
    return _decompress_frames(Compression.LZ4, payload, lz4_size_bound(payload), size_bytes_max)


def _compress_zstd(payload: bytes | bytearray | memoryview, level: int) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(payload, level))


def _decompress_zstd(payload: bytes, size_bytes_max: int) -> bytes:
    return _decompress_frames(Compression.ZSTD, payload, zstd_size_bound(payload), size_bytes_max)


def _decompress_frames(
    compression: Compression, payload: bytes, size_bound: int, size_bytes_max: int
) -> bytes:
    """Decompress LZ4 or Zstandard frames that cannot become larger than `size_bound` bytes."""
    import cramjam

    codec = cramjam.lz4 if compression is Compression.LZ4 else cramjam.zstd
    try:
        if size_bound <= size_bytes_max:
            return bytes(codec.decompress(payload))
        # The bound is generous, so the result may still fit. The output cannot outgrow this.
        output = bytearray(size_bytes_max)
        size_bytes = codec.decompress_into(payload, output)
    except cramjam.DecompressionError as error:
        if size_bound > size_bytes_max and "write whole buffer" in str(error):
            raise _too_large(compression, payload, size_bytes_max) from None
        raise DecompressionError(
            f"{compression.name}: {len(payload)} bytes cannot be decompressed: {error}"
        ) from None
    return bytes(memoryview(output)[:size_bytes])


_COMPRESSORS: Final[dict[Compression, Callable[[bytes | bytearray | memoryview, int], bytes]]] = {
    Compression.GZIP: _compress_gzip,
    Compression.SNAPPY: _compress_snappy,
    Compression.LZ4: _compress_lz4,
    Compression.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: Final[dict[Compression, Callable[[bytes, int], bytes]]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
