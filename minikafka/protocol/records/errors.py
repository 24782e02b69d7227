"""The errors of reading record batches.

All are `CorruptBatchError`: whatever the bytes, the functions of this package decode them or raise
it. In responses it is CORRUPT_MESSAGE (2), and `UnsupportedMagicError` is
UNSUPPORTED_FOR_MESSAGE_FORMAT (43).
"""


class CorruptBatchError(ValueError):
    """The bytes are not a record batch of message format 2 (KIP-98)."""


class UnsupportedMagicError(CorruptBatchError):
    """The batch has a message format version other than 2 (magic 0 and 1 predate Kafka 0.11)."""


class DecompressionError(CorruptBatchError):
    """The records of a batch cannot be decompressed."""


class DecompressedSizeError(DecompressionError):
    """The decompressed records would exceed the caller's limit."""
