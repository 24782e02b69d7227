"""What can be wrong with a record batch.

Everything that is found while reading one is a `CorruptBatchError`: whatever bytes arrive, the
functions of this package decode them or raise it. Kafka's protocol calls it CORRUPT_MESSAGE (2);
`UnsupportedMagicError` is UNSUPPORTED_FOR_MESSAGE_FORMAT (43) when a request handler reports it.
"""


class CorruptBatchError(ValueError):
    """The bytes are not a record batch as the message format (KIP-98, magic 2) defines it."""


class UnsupportedMagicError(CorruptBatchError):
    """The batch has a message format version other than 2 (magic 0 and 1 predate Kafka 0.11)."""


class DecompressionError(CorruptBatchError):
    """The compressed part of a batch cannot be decompressed."""


class DecompressedSizeError(DecompressionError):
    """Decompressed, the batch would be larger than the caller allows."""
