"""Storing a topic's batches in one compression (topic setting ``compression.type``).

Only the payload is re-compressed: records keep their bytes, offsets, timestamps and sequences, so
this never decodes a record.
"""

from __future__ import annotations

import struct

from ...protocol.crc import crc32c
from ...protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    COMPRESSION_MASK,
    LOG_OVERHEAD_SIZE_BYTES,
    BatchHeader,
    crc_is_valid,
    iter_batches,
)
from ...protocol.records.compression import Compression, compress, decompress
from ...protocol.records.errors import (
    CorruptBatchError,
    DecompressedSizeError,
    DecompressionError,
)
from ...storage.errors import CorruptMessage, InvalidRecord, MessageTooLarge

_CHECKED = struct.Struct(">hiqqqhii")
_UNCHECKED = struct.Struct(">qiibI")


_ATTRIBUTES_POSITION = 22
"""Of the low byte of a batch's attributes."""


def is_compressed_otherwise(records: memoryview | bytes, compression: Compression) -> bool:
    """Whether the first batch is not in ``compression``; what is no batch is refused later."""
    return (
        len(records) > _ATTRIBUTES_POSITION
        and records[_ATTRIBUTES_POSITION] & COMPRESSION_MASK != compression
    )


def recompress(
    records: memoryview | bytes,
    compression: Compression,
    level: int | None = None,
    *,
    size_bytes_max: int,
) -> memoryview | bytes:
    """Re-compress the batches that are not in ``compression``; the others stay as they are.

    Raises:
        CorruptMessage: a header or a CRC is wrong.
        InvalidRecord: the payload cannot be decompressed, though its CRC is right.
        MessageTooLarge: a batch decompresses to more than ``size_bytes_max``.
    """
    view = memoryview(records)
    out: list[bytes | memoryview] = []
    changed = False
    try:
        for position, header in iter_batches(view):
            batch = view[position : position + header.size_bytes]
            if header.compression == compression:
                out.append(batch)
                continue
            if not crc_is_valid(view, position, header):
                raise CorruptMessage(f"the batch at byte {position} has a wrong CRC")
            plain = decompress(
                header.compression,
                batch[BATCH_HEADER_SIZE_BYTES:],
                size_bytes_max=size_bytes_max,
            )
            out.append(_with_payload(header, compress(compression, plain, level), compression))
            changed = True
    except DecompressedSizeError as error:
        raise MessageTooLarge(str(error)) from None
    except DecompressionError as error:
        raise InvalidRecord(str(error)) from None
    except CorruptBatchError as error:
        raise CorruptMessage(str(error)) from None
    return b"".join(out) if changed else records


def _with_payload(header: BatchHeader, payload: bytes, compression: Compression) -> bytes:
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    checked = _CHECKED.pack(attributes, *header[6:]) + payload
    size = _UNCHECKED.size + len(checked) - LOG_OVERHEAD_SIZE_BYTES
    unchecked = _UNCHECKED.pack(
        header.base_offset, size, header.partition_leader_epoch, header.magic, crc32c(checked)
    )
    return unchecked + checked
