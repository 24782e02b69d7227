"""Encode records into a batch.

`BatchBuilder` takes records one by one until the batch is full: it is the client's accumulator.
`encode_batch` is for records that are all there already.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Unpack

from minikafka.protocol.records.assembly import BatchFields, assemble_batch
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BATCH_SIZE_BYTES_MAX,
    NO_TIMESTAMP,
)
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
"""Shapes that a builder remembers; one that it forgets is only computed again."""


class BatchBuilder:
    """A record batch in the making.

    Args:
        size_bytes_max: Size the batch may have, header included and not compressed. The first
            record is taken even if it is larger: a limit for single records is the caller's.
            (Kafka's client does the same with batch.size.)
        delete_horizon_ms: From when on tombstones in this batch may be removed (KIP-534); only
            compaction sets it.
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
        # Attributes and timestamp delta, which depend on the timestamp alone. Records tend to have
        # that of the record before.
        self._timestamp: int | None = None
        self._timestamp_part = b""
        # Records with this timestamp, a null key, no headers and values of one length differ in
        # nothing but offset delta and value. For each length of values: the bytes before the
        # offset delta, those between it and the value, and the size of the record in bytes.
        self._shapes: dict[int, tuple[bytes, bytes, int]] = {}
        self._shapes_end = 0  # an offset delta that takes more bytes than those in the shapes
        self._fragments: list[bytes] = []
        self._size_bytes = BATCH_HEADER_SIZE_BYTES
        self._record_count = 0
        self._next_offset_delta = 0

    @property
    def size_bytes(self) -> int:
        """Exact size of the batch, header included, if it is built without compression."""
        return self._size_bytes

    @property
    def record_count(self) -> int:
        """How many records have been appended."""
        return self._record_count

    @property
    def next_offset_delta(self) -> int:
        """Offset of the next record, relative to the base offset."""
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
            Whether there was room. When there was not, nothing has changed.

        Raises:
            ValueError: the timestamp has more than 64 bits, or the first record fits into no
                batch.
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
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderSequence,
    ) -> bool:
        """Append any record; one with null key and no headers leaves its shape for the next."""
        if timestamp != self._timestamp:
            self._use_timestamp(timestamp)
        offset_delta = self._next_offset_delta
        # A call per varint would take longer than all the rest of this function.
        offset_part = (
            ENCODED_LENGTHS[offset_delta]
            if offset_delta < ENCODED_LENGTHS_COUNT
            else encode_varint(offset_delta)
        )
        if key is None:
            key_part = b""
            key_length_part = _NULL
        else:
            key_part = key
            size_bytes = len(key)
            key_length_part = (
                ENCODED_LENGTHS[size_bytes]
                if size_bytes < ENCODED_LENGTHS_COUNT
                else encode_varint(size_bytes)
            )
        if value is None:
            value_part = b""
            value_length_part = _NULL
        else:
            value_part = value
            size_bytes = len(value)
            value_length_part = (
                ENCODED_LENGTHS[size_bytes]
                if size_bytes < ENCODED_LENGTHS_COUNT
                else encode_varint(size_bytes)
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
        length_part = (
            ENCODED_LENGTHS[length] if length < ENCODED_LENGTHS_COUNT else encode_varint(length)
        )
        record_size_bytes = len(length_part) + length
        size_bytes = self._size_bytes + record_size_bytes
        if size_bytes > self._size_bytes_max or offset_delta > _OFFSET_DELTA_MAX:
            if self._record_count > 0:
                return False
            if size_bytes > BATCH_SIZE_BYTES_MAX:
                raise ValueError(f"a record of {record_size_bytes} bytes fits into no batch")
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
        """Encode what depends on the timestamp, relative to the first one unless this is it."""
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise ValueError(f"timestamp {timestamp} does not fit into 64 bits")
        if self._record_count == 0 and not self._has_delete_horizon:
            self._base_timestamp = timestamp
        timestamp_delta = wrap_int64(timestamp - self._base_timestamp)
        self._timestamp_part = _NO_ATTRIBUTES + encode_varint(timestamp_delta)
        self._timestamp = timestamp
        self._shapes.clear()

    def append_many(self, values: Iterable[bytes], timestamp: int) -> int:
        """Append records that are nothing but a value, with one timestamp, until it is full.

        Returns:
            How many there was room for.

        Raises:
            ValueError: as `append`.
        """
        if timestamp != self._timestamp:
            self._use_timestamp(timestamp)
        shapes = self._shapes
        fragments = self._fragments
        first_offset_delta = offset_delta = self._next_offset_delta
        size_bytes = self._size_bytes
        # The shortcut of `append`, with its state in local names between calls of `_append`.
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
        finally:  # `values` may raise anything
            self._save(size_bytes, offset_delta)
        return offset_delta - first_offset_delta

    def _save(self, size_bytes: int, next_offset_delta: int) -> None:
        """Count the records that the loop of `append_many` has appended."""
        self._record_count += next_offset_delta - self._next_offset_delta
        self._next_offset_delta = next_offset_delta
        self._size_bytes = size_bytes

    def skip_to(self, offset_delta: int) -> None:
        """Leave a gap: the next record gets this offset, relative to the base offset.

        Raises:
            ValueError: the offset lies behind the last record, or does not fit into 32 bits.
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
        """Encode the batch. It may be built again, with other fields, and appended to as before.

        Args:
            last_offset_delta: Offset of the last record the batch ever had, relative to its base
                offset; when None that of the last record appended.
            log_append_time_ms: Timestamp of all records, in place of their own.
            **fields: See `BatchFields`.

        Raises:
            ValueError: a field does not fit into the header, `last_offset_delta` lies before the
                last record, or the codec has no such level.
        """
        if last_offset_delta is None:
            last_offset_delta = max(self._next_offset_delta - 1, 0)
        elif last_offset_delta < self._next_offset_delta - 1:
            raise ValueError(
                f"last_offset_delta {last_offset_delta} lies before the last record, which has "
                f"offset delta {self._next_offset_delta - 1}"
            )
        base_timestamp = self._base_timestamp
        if self._record_count == 0 and not self._has_delete_horizon:
            base_timestamp = NO_TIMESTAMP  # whatever has been tried to append
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
    """Encode the end of a record: how many headers it has, and these."""
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
        ValueError: a value does not fit, the offset deltas do not rise or are not as many as the
            records, or the codec has no such level.
    """
    records = list(records)
    deltas = range(len(records)) if offset_deltas is None else list(offset_deltas)
    if len(deltas) != len(records):
        raise ValueError(f"{len(deltas)} offset deltas do not fit {len(records)} records")
    builder = BatchBuilder(delete_horizon_ms=delete_horizon_ms)
    for (key, value, headers, timestamp), delta in zip(records, deltas, strict=True):
        builder.skip_to(delta)
        if not builder.append(key, value, timestamp, headers):
            raise ValueError(f"more than {builder.record_count} records do not fit into a batch")
    return builder.build(
        last_offset_delta=last_offset_delta, log_append_time_ms=log_append_time_ms, **fields
    )
