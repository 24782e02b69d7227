"""Upper bounds of decompressed sizes, from the structure of the frames alone.

The codecs decompress in one call, so a bomb has to be detected before the call. Zstandard and LZ4
frames are chains of blocks; walking the chain reads a few bytes per block, allocates nothing and
yields a bound that no decoder can exceed. For what Kafka clients write (full blocks, then one short
block) the bound exceeds the real size by at most one block.

Formats: RFC 8878 (Zstandard), the LZ4 frame format 1.6.
"""

import struct
from typing import Final

from minikafka.protocol.records.errors import DecompressionError

_SKIPPABLE_MAGIC: Final = 0x184D2A50  # .. 0x184D2A5F, the same in both formats
_SKIPPABLE_MASK: Final = 0xFFFFFFF0

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_BLOCK_SIZE_BYTES_MAX: Final = 128 * 1024
_ZSTD_BLOCK_RAW: Final = 0
_ZSTD_BLOCK_REPEAT: Final = 1
_ZSTD_BLOCK_COMPRESSED: Final = 2
_ZSTD_DICTIONARY_SIZES: Final = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZE_SIZES: Final = (0, 2, 4, 8)

_LZ4_MAGIC: Final = 0x184D2204
LZ4_BLOCK_SIZES_BYTES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
LZ4_RATIO_MAX: Final = 255  # a byte of match length stands for at most 255 bytes
_LZ4_UNCOMPRESSED_FLAG: Final = 0x80000000

_UINT32: Final = struct.Struct("<I")


def zstd_size_bound(payload: bytes) -> int:
    """Upper bound of the decompressed size in bytes of a chain of Zstandard frames.

    Raises:
        DecompressionError: the frame structure is malformed or truncated.
    """
    position = bound = 0
    try:
        while position < len(payload):
            magic = _UINT32.unpack_from(payload, position)[0]
            if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
                position += 8 + _UINT32.unpack_from(payload, position + 4)[0]
            elif magic == _ZSTD_MAGIC:
                frame_bound, position = _walk_zstd_frame(payload, position)
                bound += frame_bound
            else:
                raise DecompressionError(
                    f"zstd: no frame begins at byte {position}, found magic {magic:#010x}"
                )
    except (IndexError, struct.error):
        position = len(payload) + 1
    if position > len(payload):
        raise DecompressionError(f"zstd: the frame goes on after the {len(payload)} bytes there")
    return bound


def _walk_zstd_frame(payload: bytes, position: int) -> tuple[int, int]:
    """Bound and end of the frame at `position`; the end may be past the payload's."""
    descriptor = payload[position + 4]
    has_window = not descriptor & 0x20
    content_size_size = _ZSTD_CONTENT_SIZE_SIZES[descriptor >> 6]
    if not has_window and content_size_size == 0:
        content_size_size = 1
    position += 5 + has_window + _ZSTD_DICTIONARY_SIZES[descriptor & 3] + content_size_size
    bound = 0
    is_last = False
    while not is_last:
        block = payload[position] | payload[position + 1] << 8 | payload[position + 2] << 16
        position += 3
        is_last = bool(block & 1)
        block_type = block >> 1 & 3
        size_bytes = block >> 3
        if block_type == _ZSTD_BLOCK_RAW:
            bound += size_bytes
            position += size_bytes
        elif block_type == _ZSTD_BLOCK_REPEAT:
            bound += size_bytes
            position += 1
        elif block_type == _ZSTD_BLOCK_COMPRESSED:
            bound += _ZSTD_BLOCK_SIZE_BYTES_MAX
            position += size_bytes
        else:
            raise DecompressionError(f"zstd: reserved block type 3 at byte {position - 3}")
    has_checksum = bool(descriptor & 4)
    return bound, position + 4 * has_checksum


def lz4_size_bound(payload: bytes) -> int:
    """Upper bound of the decompressed size in bytes of a chain of LZ4 frames.

    Raises:
        DecompressionError: the frame structure is malformed or truncated.
    """
    position = bound = 0
    try:
        while position < len(payload):
            magic = _UINT32.unpack_from(payload, position)[0]
            if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
                position += 8 + _UINT32.unpack_from(payload, position + 4)[0]
            elif magic == _LZ4_MAGIC:
                frame_bound, position = _walk_lz4_frame(payload, position)
                bound += frame_bound
            else:
                raise DecompressionError(
                    f"lz4: no frame begins at byte {position}, found magic {magic:#010x}"
                )
    except (IndexError, struct.error):
        position = len(payload) + 1
    if position > len(payload):
        raise DecompressionError(f"lz4: the frame goes on after the {len(payload)} bytes there")
    return bound


def _walk_lz4_frame(payload: bytes, position: int) -> tuple[int, int]:
    """Bound and end of the frame at `position`; the end may be past the payload's."""
    flags = payload[position + 4]
    block_size_code = payload[position + 5] >> 4 & 7
    block_size_bytes_max = LZ4_BLOCK_SIZES_BYTES.get(block_size_code)
    if block_size_bytes_max is None:
        raise DecompressionError(f"lz4: block size code {block_size_code} is not one of 4 to 7")
    has_block_checksum = bool(flags & 0x10)
    has_content_size = bool(flags & 0x08)
    has_content_checksum = bool(flags & 0x04)
    has_dictionary_id = bool(flags & 0x01)
    position += 7 + 8 * has_content_size + 4 * has_dictionary_id
    bound = 0
    while block := _UINT32.unpack_from(payload, position)[0]:
        size_bytes = block & ~_LZ4_UNCOMPRESSED_FLAG
        if block & _LZ4_UNCOMPRESSED_FLAG:
            bound += size_bytes
        else:
            bound += min(block_size_bytes_max, LZ4_RATIO_MAX * size_bytes)
        position += 4 + size_bytes + 4 * has_block_checksum
    return bound, position + 4 + 4 * has_content_checksum
