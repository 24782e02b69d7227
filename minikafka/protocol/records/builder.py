"""Encode records into a batch.

`BatchBuilder` takes records one by one until the batch is full: the client accumulates with it.
`encode_batch` is for a list of records, `encode_retained_records` for what compaction leaves.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Unpack

from minikafka.protocol.records.assembly import BatchFields, assemble_batch
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BATCH_SIZE_BYTES_MAX,
    NO_TIMESTAMP,
    BatchHeader,
)
from minikafka.protocol.records.record import Record
from minikafka.protocol.records.varint import (
    ENCODED_LENGTHS,
    ENCODED_LENGTHS_COUNT,
    encode_varint,
    wrap_int64,
)

HeaderSequence = Sequence[tuple[str, bytes | None]]

_OFFSET_DELTA_MAX: Final = 0x7FFFFFFF
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_ONE_BYTE_DELTAS_COUNT: Final = 64  # offset deltas from here on take two bytes
_NO_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = b"\x00"
_NULL: Final = b"\x01"

_SHAPES_MAX: Final = 1024
"""How many shapes a builder caches."""


class BatchBuilder:
    """Builds a record batch, record by record.

    Args:
        size_bytes_max: Largest size of the batch, header included, before compression. The first
            record is accepted even if it is larger, as in Kafka's client with batch.size; the
            caller limits the size of single records.
        delete_horizon_ms: When tombstones in this batch may be removed (KIP-534); only compaction
            sets it.
    """

    __slots__ = (
        "_base_timestamp",
        "_fragments",
        "_has_delete_horizon",
        "_max_timestamp",
        "_next_offset_delta",
        "_record_count",
        "_shapes",
        "_shapes_end",
        "_size_bytes",
        "_size_bytes_max",
        "_timestamp",
        "_timestamp_part",
    )

    def __init__(
        self,
        *,
        size_bytes_max: int = BATCH_SIZE_BYTES_MAX,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self._size_bytes_max = min(size_bytes_max, BATCH_SIZE_BYTES_MAX)
        self._has_delete_horizon = delete_horizon_ms is not None
        self._base_timestamp = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        # Attributes and timestamp delta, which depend on the timestamp alone. Consecutive records
        # often have the same one.
        self._timestamp: int | None = None
        self._timestamp_part = b""
        # Records with this timestamp, a null key, no headers and values of the same length differ
        # only in offset delta and value: they have the same shape. By length of the value: the
        # bytes before the offset delta, those between it and the value, and the record's size.
        self._shapes: dict[int, tuple[bytes, bytes, int]] = {}
        self._shapes_end = 0  # the first offset delta that takes more bytes than the shapes assume
        self._fragments: list[bytes] = []
        self._size_bytes = BATCH_HEADER_SIZE_BYTES
        self._record_count = 0
        self._next_offset_delta = 0

    @property
    def size_bytes(self) -> int:
        """Exact size of the batch when built without compression, header included."""
        return self._size_bytes

    @property
    def record_count(self) -> int:
        return self._record_count

    @property
    def next_offset_delta(self) -> int:
        return self._next_offset_delta

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp appended; -1 before the first record."""
        return self._max_timestamp

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderSequence = (),
    ) -> bool:
        """Append a record, unless the batch is full.

        Args:
            key: None for null.
            value: None for null, which is a tombstone in a compacted topic.
            timestamp: Milliseconds since 1970; -1 for none.
            headers: Names and values, in order; names may repeat.

        Returns:
            Whether there was room; if not, nothing has changed.

        Raises:
            ValueError: the timestamp has more than 64 bits, or the first record is too large for
                any batch.
        """
        offset_delta = self._next_offset_delta
        if key is None and timestamp == self._timestamp and value is not None and not headers:
            shape = self._shapes.get(len(value))
            if shape is not None and offset_delta < self._shapes_end:
                size_bytes = self._size_bytes + shape[2]
                if size_bytes > self._size_bytes_max:
                    return False
                self._fragments += (
                    shape[0],
                    ENCODED_LENGTHS[offset_delta],
                    shape[1],
                    value,
                    _NO_HEADERS,
                )
                self._size_bytes = size_bytes
                self._next_offset_delta = offset_delta + 1
                self._record_count += 1
                return True
        return self._append(key, value, timestamp, headers)

    def _append(
        self, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderSequence
    ) -> bool:
        """Append any record; one with a null key and no headers leaves its shape for the next."""
        if timestamp != self._timestamp:
            self._use_timestamp(timestamp)
        offset_delta = self._next_offset_delta
        # Varints are looked up here: a call for each would take longer than the rest together.
        short, count = ENCODED_LENGTHS, ENCODED_LENGTHS_COUNT
        offset_part = short[offset_delta] if offset_delta < count else encode_varint(offset_delta)
        if key is None:
            key_part = b""
            key_length_part = _NULL
        else:
            key_part = key
            size_bytes = len(key)
            key_length_part = short[size_bytes] if size_bytes < count else encode_varint(size_bytes)
        if value is None:
            value_part = b""
            value_length_part = _NULL
        else:
            value_part = value
            size_bytes = len(value)
            value_length_part = (
                short[size_bytes] if size_bytes < count else encode_varint(size_bytes)
            )
        headers_part = encode_headers(headers) if headers else _NO_HEADERS
        length = (
            len(self._timestamp_part)
            + len(offset_part)
            + len(key_length_part)
            + len(key_part)
            + len(value_length_part)
            + len(value_part)
            + len(headers_part)
        )
        length_part = short[length] if length < count else encode_varint(length)
        record_size_bytes = len(length_part) + length
        size_bytes = self._size_bytes + record_size_bytes
        if size_bytes > self._size_bytes_max or offset_delta > _OFFSET_DELTA_MAX:
            if self._record_count > 0:
                return False
            if size_bytes > BATCH_SIZE_BYTES_MAX:
                raise ValueError(f"a record of {record_size_bytes} bytes exceeds any batch")
        head = length_part + self._timestamp_part
        self._fragments += (
            head,
            offset_part,
            key_length_part,
            key_part,
            value_length_part,
            value_part,
            headers_part,
        )
        self._size_bytes = size_bytes
        self._next_offset_delta = offset_delta + 1
        self._record_count += 1
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        if key is None and value is not None and not headers:
            shape = (head, _NULL + value_length_part, record_size_bytes)
            self._remember_shape(len(value_part), shape)
        return True

    def _remember_shape(self, value_size_bytes: int, shape: tuple[bytes, bytes, int]) -> None:
        offset_delta = self._next_offset_delta - 1
        if offset_delta >= self._shapes_end:
            self._shapes.clear()
            is_one_byte = offset_delta < _ONE_BYTE_DELTAS_COUNT
            self._shapes_end = _ONE_BYTE_DELTAS_COUNT if is_one_byte else ENCODED_LENGTHS_COUNT
        if offset_delta < self._shapes_end and len(self._shapes) < _SHAPES_MAX:
            self._shapes[value_size_bytes] = shape

    def _use_timestamp(self, timestamp: int) -> None:
        """Encode the timestamp relative to the batch's base, which the first record sets."""
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise ValueError(f"timestamp {timestamp} does not fit into 64 bits")
        if self._record_count == 0 and not self._has_delete_horizon:
            self._base_timestamp = timestamp
        timestamp_delta = wrap_int64(timestamp - self._base_timestamp)
        self._timestamp_part = _NO_ATTRIBUTES + encode_varint(timestamp_delta)
        self._timestamp = timestamp
        self._shapes.clear()

    def append_many(self, values: Iterable[bytes], timestamp: int) -> int:
        """Append records of just a value, all with one timestamp, until the batch is full.

        Returns:
            How many were appended.

        Raises:
            ValueError: as `append`.
        """
        if timestamp != self._timestamp:
            self._use_timestamp(timestamp)
        shapes = self._shapes
        fragments = self._fragments
        first_offset_delta = offset_delta = self._next_offset_delta
        size_bytes = self._size_bytes
        # The fast path of `append`, with the state in local variables between calls of `_append`.
        try:
            for value in values:
                shape = shapes.get(len(value))
                if shape is not None and offset_delta < self._shapes_end:
                    if size_bytes + shape[2] > self._size_bytes_max:
                        break
                    fragments += (
                        shape[0],
                        ENCODED_LENGTHS[offset_delta],
                        shape[1],
                        value,
                        _NO_HEADERS,
                    )
                    size_bytes += shape[2]
                else:
                    self._save(size_bytes, offset_delta)
                    if not self._append(None, value, timestamp, ()):
                        break
                    size_bytes = self._size_bytes
                offset_delta += 1
        finally:  # iterating over `values` may raise
            self._save(size_bytes, offset_delta)
        return offset_delta - first_offset_delta

    def _save(self, size_bytes: int, next_offset_delta: int) -> None:
        """Count the records that the loop of `append_many` has appended."""
        self._record_count += next_offset_delta - self._next_offset_delta
        self._next_offset_delta = next_offset_delta
        self._size_bytes = size_bytes

    def skip_to(self, offset_delta: int) -> None:
        """Leave a gap before the next record, which gets this offset delta.

        Raises:
            ValueError: the offset delta is not after the last record's, or exceeds 32 bits.
        """
        if not self._next_offset_delta <= offset_delta <= _OFFSET_DELTA_MAX:
            raise ValueError(
                f"offset delta {offset_delta} is not between {self._next_offset_delta}, the next, "
                f"and {_OFFSET_DELTA_MAX}, the largest"
            )
        self._next_offset_delta = offset_delta

    def build(
        self,
        *,
        last_offset_delta: int | None = None,
        log_append_time_ms: int | None = None,
        **fields: Unpack[BatchFields],
    ) -> bytearray:
        """Encode the batch. The builder may be appended to and built again.

        Args:
            last_offset_delta: Offset delta of the last record that the batch ever had; default is
                that of the last record appended.
            log_append_time_ms: Replaces the timestamps of all records.
            **fields: See `BatchFields`.

        Raises:
            ValueError: a field does not fit into the header, `last_offset_delta` is less than the
                last record's, or the codec has no such level.
        """
        if last_offset_delta is None:
            last_offset_delta = max(self._next_offset_delta - 1, 0)
        elif last_offset_delta < self._next_offset_delta - 1:
            raise ValueError(
                f"last_offset_delta {last_offset_delta} is before the last record, which has "
                f"offset delta {self._next_offset_delta - 1}"
            )
        base_timestamp = self._base_timestamp
        if self._record_count == 0 and not self._has_delete_horizon:
            base_timestamp = NO_TIMESTAMP  # a refused record may have set one
        max_timestamp = self._max_timestamp if log_append_time_ms is None else log_append_time_ms
        return assemble_batch(
            b"".join(self._fragments),
            record_count=self._record_count,
            last_offset_delta=last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            has_log_append_time=log_append_time_ms is not None,
            has_delete_horizon=self._has_delete_horizon,
            **fields,
        )


def encode_headers(headers: HeaderSequence) -> bytes:
    """Encode the end of a record: the number of headers, and the headers."""
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        encoded_name = name.encode()
        parts.append(encode_varint(len(encoded_name)))
        parts.append(encoded_name)
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(encode_varint(len(value)))
            parts.append(value)
    return b"".join(parts)


def encode_batch(
    records: Iterable[tuple[bytes | None, bytes | None, HeaderSequence, int]],
    *,
    offset_deltas: Iterable[int] | None = None,
    last_offset_delta: int | None = None,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    **fields: Unpack[BatchFields],
) -> bytearray:
    """Encode records into a batch.

    Args:
        records: Key, value, headers and timestamp of each.
        offset_deltas: Offset of each record, relative to the base offset; 0, 1, 2, ... when None.
        last_offset_delta: See `BatchBuilder.build`.
        log_append_time_ms: See `BatchBuilder.build`.
        delete_horizon_ms: See `BatchBuilder`.
        **fields: See `BatchFields`.

    Raises:
        ValueError: a value does not fit, the offset deltas do not increase or are not as many as
            the records, or the codec has no such level.
    """
    builder = BatchBuilder(delete_horizon_ms=delete_horizon_ms)
    deltas = None
    if offset_deltas is not None:
        records, deltas = list(records), list(offset_deltas)
        if len(deltas) != len(records):
            raise ValueError(f"{len(deltas)} offset deltas for {len(records)} records")
    for number, (key, value, headers, timestamp) in enumerate(records):
        if deltas is not None:
            builder.skip_to(deltas[number])
        if not builder.append(key, value, timestamp, headers):
            raise ValueError(f"more than {builder.record_count} records do not fit into a batch")
    return builder.build(
        last_offset_delta=last_offset_delta, log_append_time_ms=log_append_time_ms, **fields
    )


def encode_retained_records(
    header: BatchHeader,
    records: Iterable[Record],
    *,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Encode what compaction leaves of a batch.

    The records keep their offsets, timestamps and headers; the batch keeps its first and last
    offset, leader epoch, codec, timestamp type, producer id, epoch and sequences. So no offset ever
    names another record, and the producer state that is rebuilt from the log stays the same. A
    batch without records is just a header.

    Args:
        header: The header of the original batch.
        records: The retained records, in order, as `decode_records` returned them.
        level: Effort of the codec; its default when None.
        delete_horizon_ms: When tombstones in the batch may be removed (KIP-534); when None, the
            batch keeps the horizon that it has.

    Raises:
        CorruptBatchError: the attributes name an unknown codec.
        ValueError: a record is not from this batch, the records are not in order, or the codec has
            no such level.
    """
    if delete_horizon_ms is None and header.has_delete_horizon:
        delete_horizon_ms = header.base_timestamp
    builder = BatchBuilder(delete_horizon_ms=delete_horizon_ms)
    for record in records:
        builder.skip_to(record.offset - header.base_offset)
        if not builder.append(record.key, record.value, record.timestamp, record.headers):
            raise ValueError(f"the record at offset {record.offset} does not fit into its batch")
    fields: BatchFields = {
        "base_offset": header.base_offset,
        "partition_leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }
    if builder.record_count == 0:
        # No codec, because some readers would decompress the zero bytes. The largest timestamp is
        # kept for retention by time.
        return assemble_batch(
            b"",
            record_count=0,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms,
            max_timestamp=header.max_timestamp,
            has_log_append_time=header.has_log_append_time,
            has_delete_horizon=delete_horizon_ms is not None,
            **fields,
        )
    fields["compression"] = header.compression
    fields["level"] = level
    return builder.build(
        last_offset_delta=header.last_offset_delta,
        log_append_time_ms=header.max_timestamp if header.has_log_append_time else None,
        **fields,
    )
