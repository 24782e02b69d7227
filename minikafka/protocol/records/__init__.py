"""Record batches, message format 2: what producers send, logs store and consumers get.

    batch         the header: parse it, check the CRC, stamp offset and epoch
    record        batch -> records
    builder       records -> batch; assembly adds the header
    control       transaction markers
    compression   the five codecs; frame_bounds stops decompression bombs
    payload_bounds: what a header may claim of its payload
    varint        the zigzag integers inside a record

Message formats 0 and 1 are refused.
"""

from minikafka.protocol.records.assembly import BatchFields, assemble_batch
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BatchHeader,
    Buffer,
    compute_crc,
    crc_is_valid,
    iter_batches,
    parse_batch_header,
    rewrite_header,
)
from minikafka.protocol.records.builder import (
    BatchBuilder,
    encode_batch,
    encode_retained_records,
)
from minikafka.protocol.records.compression import Compression, compress, decompress
from minikafka.protocol.records.control import (
    ControlType,
    TransactionMarker,
    decode_control_type,
    decode_transaction_marker,
    encode_control_batch,
)
from minikafka.protocol.records.errors import (
    CorruptBatchError,
    DecompressedSizeError,
    DecompressionError,
    UnsupportedMagicError,
)
from minikafka.protocol.records.record import Headers, Record, decode_records

__all__ = [
    "BATCH_HEADER_SIZE_BYTES",
    "BatchBuilder",
    "BatchFields",
    "BatchHeader",
    "Buffer",
    "Compression",
    "ControlType",
    "CorruptBatchError",
    "DecompressedSizeError",
    "DecompressionError",
    "Headers",
    "Record",
    "TransactionMarker",
    "UnsupportedMagicError",
    "assemble_batch",
    "compress",
    "compute_crc",
    "crc_is_valid",
    "decode_control_type",
    "decode_records",
    "decode_transaction_marker",
    "decompress",
    "encode_batch",
    "encode_control_batch",
    "encode_retained_records",
    "iter_batches",
    "parse_batch_header",
    "rewrite_header",
]
