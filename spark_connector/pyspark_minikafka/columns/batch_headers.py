"""The headers of many record batches at once, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    COMPRESSION_MASK,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_SIZE_BYTES,
)

from .positions import MalformedRecordsError
from .varints import Bytes, Integers

_LAYOUT: Final = np.dtype(
    {
        "names": [
            "base_offset",
            "batch_length",
            "crc",
            "attributes",
            "last_offset_delta",
            "base_timestamp",
            "max_timestamp",
            "record_count",
        ],
        "formats": [">i8", ">i4", ">u4", ">i2", ">i4", ">i8", ">i8", ">i4"],
        "offsets": [0, 8, 17, 21, 23, 27, 35, 57],
        "itemsize": BATCH_HEADER_SIZE_BYTES,
    }
)
"""Of message format 2 (KIP-98); unused fields are left out."""


@dataclass(frozen=True)
class BatchHeaders:
    """Columns of equal length, a row for each batch.

    Attributes:
        positions: of the batches in their buffer.
        ends: of the batches.
    """

    positions: Integers
    ends: Integers
    base_offsets: Integers
    last_offset_deltas: Integers
    crcs: Integers
    compressions: Integers
    has_log_append_time: NDArray[np.bool_]
    base_timestamps: Integers
    max_timestamps: Integers
    record_counts: Integers

    def __len__(self) -> int:
        return len(self.positions)


def read_headers(buffer: Bytes, positions: Sequence[int]) -> BatchHeaders:
    """Read the headers of batches, except for those without records.

    The caller guarantees complete batches of format 2 at the positions.

    Raises:
        MalformedRecordsError: a batch without records has bytes after its header.
    """
    places = np.array(positions, np.int64)
    rows = buffer[places[:, None] + np.arange(BATCH_HEADER_SIZE_BYTES)]
    fields = rows.view(_LAYOUT).reshape(len(places))
    has_records = fields["record_count"] != 0
    if not has_records.all():
        sizes = fields["batch_length"][~has_records] + LOG_OVERHEAD_SIZE_BYTES
        if (sizes != BATCH_HEADER_SIZE_BYTES).any():
            raise MalformedRecordsError("a batch has records, but its header says that it has none")
        fields, places = fields[has_records], places[has_records]

    def column(name: str) -> Integers:
        values: Integers = fields[name].astype(np.int64)
        return values

    attributes = column("attributes")
    return BatchHeaders(
        positions=places,
        ends=places + LOG_OVERHEAD_SIZE_BYTES + column("batch_length"),
        base_offsets=column("base_offset"),
        last_offset_deltas=column("last_offset_delta"),
        crcs=column("crc"),
        compressions=attributes & COMPRESSION_MASK,
        has_log_append_time=(attributes & LOG_APPEND_TIME_FLAG).astype(bool),
        base_timestamps=column("base_timestamp"),
        max_timestamps=column("max_timestamp"),
        record_counts=column("record_count"),
    )


def joined_headers(parts: Sequence[BatchHeaders]) -> BatchHeaders:
    """Concatenate the headers of several buffers; positions stay relative to each buffer."""
    if len(parts) == 1:
        return parts[0]
    names = BatchHeaders.__dataclass_fields__
    return BatchHeaders(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )
