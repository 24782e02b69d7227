"""What the header of a batch may claim about its payload, without reading the records.

The CRC proves that a batch arrived as its producer sent it, not that there is anything in it. Kafka
walks all records of a batch before it appends it. The checks here read a few bytes, however large
the batch is, so a broker can make them for each batch, and they bound what a false claim can cost:

    record count    at most one record for every `RECORD_SIZE_BYTES_MIN` bytes of the payload, or of
                    what it can decompress to: the smaller of its size times its codec's highest
                    ratio, and `DECOMPRESSED_SIZE_BYTES_MAX`
    codec           the payload begins with the codec's magic and a header that its decoders accept
    first record    its length leaves room for the others (a single record fills the payload), and
                    its offset delta is 0

So the offsets of a log never advance further than the bytes of its batches allow.
"""

from typing import Final

from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    BatchHeader,
    Buffer,
)
from minikafka.protocol.records.compression import (
    DECOMPRESSED_SIZE_BYTES_MAX,
    SNAPPY_HEAD_MAGIC,
    SNAPPY_HEAD_SIZE_BYTES,
    SNAPPY_RATIO_MAX,
    Compression,
)
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.frame_bounds import LZ4_BLOCK_SIZES_BYTES, LZ4_RATIO_MAX
from minikafka.protocol.records.record import RECORD_SIZE_BYTES_MIN
from minikafka.protocol.records.varint import (
    FIRST_OF_TWO,
    ONE_BYTE_LENGTH,
    SECOND_OF_TWO,
    read_varint,
)

_HEAD_SIZE_BYTES: Final = 32
"""Bytes of the payload that are looked at: the longest codec header, and a record's first fields
(5 bytes of length, 1 of attributes, 10 of timestamp delta, 5 of offset delta), are shorter."""

_GZIP_MAGIC: Final = b"\x1f\x8b\x08"  # the third byte is deflate, the only method there is
_GZIP_SIZE_BYTES_MIN: Final = 20
_GZIP_RATIO_MAX: Final = 1032  # two bits for 258 bytes
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_SIZE_BYTES_MIN: Final = 11
_LZ4_VERSION: Final = 1
_SNAPPY_TAG_MASK: Final = 3  # 0 is a literal; a copy needs something before it
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC: Final = b"\x2a\x4d\x18"  # after a byte of 0x50 to 0x5f
_ZSTD_SIZE_BYTES_MIN: Final = 8
_ZSTD_RATIO_MAX: Final = 128 * 1024 // 4  # a block that repeats one byte
_UINT32_SIZE_BYTES: Final = 4


def check_payload(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare what a header claims with the payload behind it, in constant time.

    Args:
        buffer: The whole batch; more may follow it.
        position: Where in `buffer` it begins.
        header: Of the batch; its record count is at least 1.

    Raises:
        CorruptBatchError: the payload cannot be what the header claims.
    """
    start = position + BATCH_HEADER_SIZE_BYTES
    size_bytes = header.batch_length - BATCH_LENGTH_MIN
    head = bytes(buffer[start : start + min(size_bytes, _HEAD_SIZE_BYTES)])
    records_size_bytes_min = header.record_count * RECORD_SIZE_BYTES_MIN
    if not header.attributes & COMPRESSION_MASK:
        if records_size_bytes_min > size_bytes:
            raise _too_many(header, size_bytes)
        _check_first_record(head, size_bytes, records_size_bytes_min - RECORD_SIZE_BYTES_MIN)
        return
    size_bytes_max = _decompressed_size_bytes_max(header.compression, head, size_bytes)
    if records_size_bytes_min > size_bytes_max or (
        records_size_bytes_min > DECOMPRESSED_SIZE_BYTES_MAX
    ):
        raise _too_many(header, size_bytes)


def _too_many(header: BatchHeader, size_bytes: int) -> CorruptBatchError:
    return CorruptBatchError(
        f"{header.record_count} records cannot fit in {size_bytes} bytes "
        f"(compression: {header.compression.name})"
    )


def _check_first_record(head: bytes, size_bytes: int, others_size_bytes_min: int) -> None:
    try:
        first = head[0]
        if first < 0x80:
            length, position = ONE_BYTE_LENGTH[first], 1
        else:
            length, position = FIRST_OF_TWO[first] + SECOND_OF_TWO[head[1]], 2
        if length > size_bytes:
            length, position = read_varint(head, 0, len(head))
        others_size_bytes = size_bytes - position - length
        position += 1  # past the attributes
        while head[position] >= 0x80:
            position += 1
        position += 1  # past the timestamp delta
        offset_delta = head[position] and read_varint(head, position, len(head))[0]
    except IndexError:
        raise CorruptBatchError("the first record ends inside its fields") from None
    if (
        length < RECORD_SIZE_BYTES_MIN - 1
        or others_size_bytes < others_size_bytes_min
        or (others_size_bytes and not others_size_bytes_min)
    ):
        raise CorruptBatchError(
            f"the first record claims {length} of {size_bytes} bytes, and those after it need "
            f"{others_size_bytes_min}"
        )
    if offset_delta:
        raise CorruptBatchError(f"the first record has the offset delta {offset_delta}, not 0")


def _decompressed_size_bytes_max(codec: Compression, head: bytes, size_bytes: int) -> int:
    """What a payload can decompress to at most.

    Raises:
        CorruptBatchError: it does not begin as the codec's payloads do.
    """
    if codec is Compression.GZIP:
        is_right = head.startswith(_GZIP_MAGIC) and size_bytes >= _GZIP_SIZE_BYTES_MIN
        ratio = _GZIP_RATIO_MAX
    elif codec is Compression.LZ4:
        is_right = (
            head.startswith(_LZ4_MAGIC)
            and size_bytes >= _LZ4_SIZE_BYTES_MIN
            and head[4] >> 6 == _LZ4_VERSION
            and head[5] >> 4 & 7 in LZ4_BLOCK_SIZES_BYTES
        )
        ratio = LZ4_RATIO_MAX
    elif codec is Compression.ZSTD:
        is_skippable = head[1:4] == _ZSTD_SKIPPABLE_MAGIC and head[0] >> 4 == 5
        is_right = size_bytes >= _ZSTD_SIZE_BYTES_MIN and (
            head.startswith(_ZSTD_MAGIC) or is_skippable
        )
        ratio = _ZSTD_RATIO_MAX
    elif head.startswith(SNAPPY_HEAD_MAGIC):
        size_at = SNAPPY_HEAD_SIZE_BYTES
        block_size_bytes = int.from_bytes(head[size_at : size_at + _UINT32_SIZE_BYTES], "big")
        version_at = len(SNAPPY_HEAD_MAGIC)
        version = head[version_at : version_at + _UINT32_SIZE_BYTES]
        # Java reads versions from 1 on; one that was written little-endian is such a version, too.
        is_right = int.from_bytes(version, "big", signed=True) >= 1
        is_right &= 0 < block_size_bytes <= size_bytes - size_at - _UINT32_SIZE_BYTES
        ratio = SNAPPY_RATIO_MAX
    else:  # a bare block has no magic: its decompressed size, then a literal
        claimed, position = _read_unsigned(head)
        is_literal = position < len(head) and not head[position] & _SNAPPY_TAG_MASK
        if is_literal and claimed <= size_bytes * SNAPPY_RATIO_MAX:
            return claimed
        is_right, ratio = False, 0
    if not is_right:
        raise CorruptBatchError(
            f"the {size_bytes} bytes of a batch compressed with {codec.name} begin with "
            f"{head[:8].hex()}, which {codec.name} does not"
        )
    return size_bytes * ratio


def _read_unsigned(head: bytes) -> tuple[int, int]:
    """The base-128 number of up to 5 bytes that `head` begins with, and where it ends."""
    number = 0
    for index, byte in enumerate(head[:5]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, index + 1
    return 0, len(head)
