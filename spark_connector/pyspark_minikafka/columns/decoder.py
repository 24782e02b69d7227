"""Decodes record batches into Arrow columns.

`decode_runs` takes the undecoded batches of one partition that a fetch returned (`ConsumedBatch`),
and decodes the columns that are asked for, and only those. All batches become one Arrow batch,
however small they are.

The position of each record is found first (see `positions`). NumPy reads the varints there, column
by column. Keys and values stay in place, and Arrow copies them out of the buffer in one call, as
every second slot of an array whose other slots are the bytes in between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from minikafka.protocol.crc import crc32c
from minikafka.protocol.records import Compression, decompress
from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES, CHECKED_OFFSET
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import CorruptRecordsError

from .batch_headers import BatchHeaders, joined_headers, read_headers
from .headers import HEADERS_TYPE, decode_headers
from .positions import MalformedRecordsError, Region, find_records
from .slots import Slots
from .varints import VARINT_SIZE_BYTES_MAX, Integers, MalformedVarintError, read_varints

COLUMN_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
"""All columns, in the order and with the types of Spark's own connector."""

_BUFFER_SIZE_BYTES_MAX: Final = 2**31 - 1
"""Arrow's binary arrays have offsets of 32 bits."""

_LARGE_RECORD_SIZE_BYTES: Final = 4096

_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
"""Microseconds since 1970 cannot express later times, or earlier ones than its negative."""


def decode_runs(
    runs: Sequence[ConsumedBatch], columns: Collection[str], *, check_crcs: bool = True
) -> pa.RecordBatch:
    """Decode runs of one partition, in offset order.

    Args:
        runs: at least one, all of the same partition.
        columns: the columns to decode; the result has them in this order.
        check_crcs: verify every batch's CRC-32C.

    Raises:
        CorruptRecordsError: a batch is damaged.
        KeyError: there is no such column.
    """
    types = {name: COLUMN_TYPES[name] for name in columns}
    try:
        batches = _Batches(runs, check_crcs=check_crcs)
        decoded = _Decoder(batches, runs[0]).decode(types)
    except (CorruptBatchError, MalformedRecordsError, MalformedVarintError, IndexError) as error:
        # IndexError: a damaged size led out of the buffer before it was checked.
        topic, partition = runs[0].topic_partition
        raise CorruptRecordsError(
            topic, partition, *_unreadable_offsets(runs), str(error)
        ) from error
    schema = pa.schema([pa.field(name, type_) for name, type_ in types.items()])
    return pa.RecordBatch.from_arrays(list(decoded.values()), schema=schema)


def _unreadable_offsets(runs: Sequence[ConsumedBatch]) -> tuple[int, int | None]:
    """Where the first batch is that cannot be read, and where the next one begins."""
    for run in runs:
        try:
            len(run)
        except CorruptRecordsError as error:
            return error.offset, error.next_offset
    return runs[0].first_offset, None


class _Batches:
    """Record batches with their records in one buffer."""

    def __init__(self, runs: Sequence[ConsumedBatch], *, check_crcs: bool) -> None:
        self.first_offset = runs[0].first_offset
        self.end_offset = runs[-1].end_offset
        payloads = [_indexable(run) for run in runs]
        parts = [
            read_headers(np.frombuffer(payload, np.uint8), run.batch_positions)
            for payload, run in zip(payloads, runs, strict=True)
        ]
        if check_crcs:
            for payload, headers in zip(payloads, parts, strict=True):
                _check_crcs(payload, headers)
        self.headers: BatchHeaders = joined_headers(parts)
        if len(runs) == 1 and not self.headers.compressions.any():
            self.buffer: bytes | memoryview = payloads[0]
            starts, ends = self.headers.positions + BATCH_HEADER_SIZE_BYTES, self.headers.ends
        else:
            pieces = [
                piece
                for payload, headers in zip(payloads, parts, strict=True)
                for piece in _decompressed(payload, headers)
            ]
            self.buffer = b"".join(pieces)
            ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
            starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        counts = self.headers.record_counts
        self.regions = list(map(Region, starts.tolist(), ends.tolist(), counts.tolist()))


def _indexable(run: ConsumedBatch) -> bytes | memoryview:
    """The payload of a run: small records are found faster in bytes, large ones are not copied."""
    if len(run.payload) < _LARGE_RECORD_SIZE_BYTES * run.record_count_max:
        return bytes(run.payload)
    return run.payload


def _check_crcs(payload: bytes | memoryview, headers: BatchHeaders) -> None:
    starts = (headers.positions + CHECKED_OFFSET).tolist()
    crcs, offsets = headers.crcs.tolist(), headers.base_offsets.tolist()
    for start, end, crc, offset in zip(starts, headers.ends.tolist(), crcs, offsets, strict=True):
        if crc32c(payload, start, end) != crc:
            raise CorruptBatchError(
                f"batch at offset {offset}: its CRC is not {crc:#010x}, as the header says"
            )


def _decompressed(payload: bytes | memoryview, headers: BatchHeaders) -> list[bytes | memoryview]:
    view = memoryview(payload)
    pieces: list[bytes | memoryview] = []
    starts = (headers.positions + BATCH_HEADER_SIZE_BYTES).tolist()
    codecs, offsets = headers.compressions.tolist(), headers.base_offsets.tolist()
    for start, end, codec, offset in zip(
        starts, headers.ends.tolist(), codecs, offsets, strict=True
    ):
        records = view[start:end]
        if not codec:
            pieces.append(records)
            continue
        try:
            compression = Compression(codec)
        except ValueError:
            raise CorruptBatchError(
                f"batch at offset {offset}: there is no compression {codec}"
            ) from None
        pieces.append(decompress(compression, records))
    return pieces


class _Decoder:
    def __init__(self, batches: _Batches, run: ConsumedBatch) -> None:
        self._headers = headers = batches.headers
        self._topic, self._partition = run.topic, run.partition
        buffer = batches.buffer
        if len(buffer) > _BUFFER_SIZE_BYTES_MAX:
            raise MalformedRecordsError(f"{len(buffer)} bytes are too many for one Arrow batch")
        array = np.frombuffer(buffer, np.uint8)
        starts, self._ends = find_records(buffer, array, batches.regions)
        if not len(starts) or len(array) - int(starts[-1]) < 4 * VARINT_SIZE_BYTES_MAX:
            # Sizes may be read beyond the last record.
            array = np.concatenate([array, np.zeros(8 * VARINT_SIZE_BYTES_MAX, np.uint8)])
        self._array = array
        self._arrow_buffer = pa.py_buffer(buffer)
        self._batch_of = np.repeat(np.arange(len(headers)), headers.record_counts)
        lengths, positions = read_varints(array, starts)
        if (lengths < 0).any():
            raise MalformedRecordsError("the length of a record is negative")
        self._timestamp_deltas, positions = read_varints(array, positions + 1)  # the attributes
        deltas, self._key_sizes_at = read_varints(array, positions)
        self._offsets = headers.base_offsets[self._batch_of] + deltas
        self._check(deltas)
        low, high = np.searchsorted(
            self._offsets, [batches.first_offset, min(batches.end_offset, 2**63 - 1)], side="left"
        )
        self._wanted = slice(int(low), int(high))

    def _check(self, deltas: Integers) -> None:
        """Check that offsets rise, and belong to their batch."""
        if not len(deltas):
            return
        last_deltas = self._headers.last_offset_deltas[self._batch_of]
        is_wrong = (deltas < 0) | (deltas > last_deltas)
        is_wrong[1:] |= self._offsets[1:] <= self._offsets[:-1]
        if is_wrong.any():
            index = int(is_wrong.argmax())
            raise MalformedRecordsError(
                f"batch at offset {self._headers.base_offsets[self._batch_of[index]]}: a record "
                f"has offset {self._offsets[index]}"
            )

    def decode(self, types: dict[str, pa.DataType]) -> dict[str, pa.Array]:
        wanted = self._wanted
        count = wanted.stop - wanted.start
        columns: dict[str, pa.Array] = {}
        ends = self._ends[wanted]
        needs_values = not {"value", "headers"}.isdisjoint(types)
        keys = values = None
        if needs_values or "key" in types:
            keys = Slots(self._array, self._key_sizes_at[wanted], ends)
        if keys is not None and needs_values:
            values = Slots(self._array, keys.ends, ends)
        for name, type_ in types.items():
            match name:
                case "key":
                    assert keys is not None
                    columns[name] = keys.take(self._arrow_buffer)
                case "value":
                    assert values is not None
                    columns[name] = values.take(self._arrow_buffer)
                case "topic":
                    columns[name] = pa.repeat(pa.scalar(self._topic, type_), count)
                case "partition":
                    columns[name] = pa.repeat(pa.scalar(self._partition, type_), count)
                case "offset":
                    columns[name] = pa.array(self._offsets[wanted])
                case "timestamp":
                    columns[name] = self._timestamps(wanted).cast(type_)
                case "timestampType":
                    columns[name] = self._timestamp_types(wanted)
                case _:
                    assert values is not None
                    columns[name] = decode_headers(self._array, values.ends, ends)
        return columns

    def _timestamps(self, wanted: slice) -> pa.Array:
        """Timestamps in microseconds, of the producer or of the broker (LogAppendTime)."""
        headers = self._headers
        batch_of = self._batch_of[wanted]
        if not headers.has_log_append_time.any():
            timestamps = headers.base_timestamps[batch_of] + self._timestamp_deltas[wanted]
        else:
            is_set = headers.has_log_append_time
            bases = np.where(is_set, headers.max_timestamps, headers.base_timestamps)
            timestamps = bases[batch_of]
            timestamps += np.where(is_set[batch_of], 0, self._timestamp_deltas[wanted])
        np.clip(timestamps, -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX, out=timestamps)
        return pa.array(timestamps * 1000)

    def _timestamp_types(self, wanted: slice) -> pa.Array:
        """0 for CreateTime, 1 for LogAppendTime."""
        types = self._headers.has_log_append_time.astype(np.int32)
        return pa.array(types[self._batch_of[wanted]])
