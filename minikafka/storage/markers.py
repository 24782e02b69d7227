"""Transaction markers in a log."""

import logging
from functools import lru_cache
from typing import Final

from minikafka.protocol.records.assembly import assemble_batch
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    COMPRESSION_MASK,
    BatchHeader,
)
from minikafka.protocol.records.control import TransactionMarker, decode_transaction_marker
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import decode_records
from minikafka.storage.disk import Buffer

logger = logging.getLogger(__name__)


_REMEMBERED_MAX: Final = 128
_REMEMBERED_SIZE_BYTES_MAX: Final = 64


def read_marker(
    batches: Buffer, position: int = 0, header: BatchHeader | None = None
) -> TransactionMarker | None:
    """The marker in the control batch at `position`; None when it is not a transaction marker.

    Only coordinators write control batches, so one that makes no sense is logged and left alone.
    Given the batch's header it takes a fraction of the time: the markers of one coordinator differ
    only in their headers.
    """
    if header is not None and _is_plain(header):
        records = memoryview(batches)[
            position + BATCH_HEADER_SIZE_BYTES : position + header.size_bytes
        ]
        return _decode_plain(bytes(records))
    return _decode(batches, position)


def _is_plain(header: BatchHeader) -> bool:
    return (
        header.record_count == 1
        and header.last_offset_delta == 0
        and header.attributes & COMPRESSION_MASK == 0
        and header.size_bytes <= BATCH_HEADER_SIZE_BYTES + _REMEMBERED_SIZE_BYTES_MAX
    )


@lru_cache(_REMEMBERED_MAX)
def _decode_plain(records: bytes) -> TransactionMarker | None:
    """The marker in a single uncompressed record, whatever its header was."""
    batch = assemble_batch(
        records, record_count=1, last_offset_delta=0, base_timestamp=0, max_timestamp=0
    )
    return _decode(batch, 0)


def _decode(batches: Buffer, position: int) -> TransactionMarker | None:
    try:
        records = decode_records(batches, position)
        return decode_transaction_marker(records[0]) if records else None
    except CorruptBatchError as error:
        logger.warning("a control batch that is no transaction marker: %s", error)
        return None
