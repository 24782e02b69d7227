"""Record batches, message format 2: what producers send, logs store and consumers get.

    batch         header: parse, check the CRC, stamp offset and epoch
    record        batch -> records
    builder       records -> batch; assembly puts the header in front
    compaction    some records of a batch -> batch
    control       transaction markers
    compression   the five codecs; frame_bounds keeps bombs from exploding
    varint        the integers inside a record

Older message formats (magic 0 and 1) are refused.
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
from minikafka.protocol.records.builder import BatchBuilder, encode_batch
from minikafka.protocol.records.compaction import encode_retained_records
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
