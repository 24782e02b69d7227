"""Record headers: lists of a name and bytes.

Few topics have them, so they are decoded one record at a time; records without headers are free.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from minikafka.protocol.records.record import decode_headers as decode_record_headers

from .positions import MalformedRecordsError
from .varints import Bytes, Integers, read_varints

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


def decode_headers(array: Bytes, positions: Integers, record_ends: Integers) -> pa.Array:
    """Decode the headers of each record.

    Args:
        array: the buffer.
        positions: of the number of each record's headers.
        record_ends: of the records.

    Returns:
        An array of `HEADERS_TYPE`; null for records without headers, as in Spark's own connector.

    Raises:
        CorruptBatchError, IndexError: they are damaged.
        MalformedRecordsError: headers do not end at the end of their record.
    """
    counts, starts = read_varints(array, positions)
    rows: list[list[dict[str, object]] | None] = [None] * len(counts)
    is_without = counts == 0
    if (starts[is_without] != record_ends[is_without]).any():
        raise MalformedRecordsError("bytes are left after a record without headers")
    if not is_without.all():
        buffer = array.data
        for row in np.flatnonzero(~is_without).tolist():
            rows[row] = _decode(bytes(buffer[int(positions[row]) : int(record_ends[row])]))
    return pa.array(rows, HEADERS_TYPE)


def _decode(encoded: bytes) -> list[dict[str, object]]:
    headers, end = decode_record_headers(encoded, 0, len(encoded))
    if end != len(encoded):
        raise MalformedRecordsError("bytes are left after the headers of a record")
    return [{"key": name, "value": value} for name, value in headers]
