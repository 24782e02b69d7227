"""Decode the records of a batch.

    size field
       v length            bytes after this field
       1 attributes        unused
       v timestamp_delta   against base_timestamp
       v offset_delta      against base_offset
       v key length        -1: null
         key
       v value length      -1: null
         value
       v header count      each: key length, key (UTF-8), value length (-1: null), value

v is a zigzag varint (see varint.py). In a compressed batch, all records are compressed as one.
Message format: KIP-98; headers: KIP-82.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BatchHeader,
    Buffer,
    crc_is_valid,
    parse_batch_header,
)
from minikafka.protocol.records.compression import (
    DECOMPRESSED_SIZE_BYTES_MAX,
    Compression,
    decompress,
)
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.varint import (
    ENCODED_LENGTHS_COUNT,
    FIRST_OF_TWO,
    NOT_A_LENGTH,
    ONE_BYTE_LENGTH,
    ONE_BYTE_SIGNED,
    SECOND_OF_TWO,
    read_extent,
    read_varint,
    read_varlong,
    wrap_int64,
)

RECORD_SIZE_BYTES_MIN: Final = 7  # one byte for each field, null key and value

Headers = tuple[tuple[str, bytes | None], ...]

_NULL: Final = 1  # the byte of the varint -1
_HEADER_SIZE_BYTES_MIN: Final = 2
_NO_TIMESTAMP_DELTA: Final = [0] * 0x80
_INT64_MAX: Final = (1 << 63) - 1
# Only from here on can a delta of one or two bytes lead to a timestamp of more than 64 bits.
_NEAR_INT64_MAX: Final = _INT64_MAX - ENCODED_LENGTHS_COUNT


class Record(NamedTuple):
    """What a producer sent, with its offset and timestamp in the log."""

    offset: int
    timestamp: int
    """Milliseconds since 1970, or -1; with LogAppendTime that of the batch.

    Base and delta are added as wrapping 64-bit integers, as in Kafka, so that even absurd
    timestamps survive a round trip.
    """
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# What Record(...) calls, without the Python function in between.
_new_record: Final = cast(
    "Callable[[type[Record], tuple[int, int, bytes | None, bytes | None, Headers]], Record]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType] - a generic method, not yet bound
)


def decode_records(
    batch: Buffer,
    position: int = 0,
    *,
    size_bytes_max: int = DECOMPRESSED_SIZE_BYTES_MAX,
    check_crc: bool = False,
) -> list[Record]:
    """Decode the records of the batch that begins at `position`.

    Control batches are decoded too; their records are markers (see control.py).

    Args:
        batch: A buffer with the whole batch; more may follow it.
        position: Where in `batch` the batch begins.
        size_bytes_max: Limit for the decompressed records.
        check_crc: Check the CRC first.

    Returns:
        The records, by ascending offset; compaction may have removed some.

    Raises:
        CorruptBatchError: the batch or one of its records is malformed, or the CRC is wrong.
        UnsupportedMagicError: a message format version other than 2.
        DecompressionError: the records cannot be decompressed.
        DecompressedSizeError: decompressed they would exceed `size_bytes_max`.
    """
    header = parse_batch_header(batch, position, must_be_whole=True)
    if check_crc and not crc_is_valid(batch, position, header):
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: its CRC is not {header.crc:#010x}, as claimed"
        )
    start = position + BATCH_HEADER_SIZE_BYTES
    end = position + header.size_bytes
    if header.record_count == 0 and start == end:
        return []  # compaction keeps the header for the producer's last sequence
    if header.compression is not Compression.NONE:
        records = decompress(
            header.compression, memoryview(batch)[start:end], size_bytes_max=size_bytes_max
        )
        start, end = 0, len(records)
    elif isinstance(batch, bytes):
        records = batch
    else:
        records = bytes(memoryview(batch)[start:end])
        start, end = 0, len(records)
    _check_counts(header, end - start)
    try:
        decoded = _decode(records, start, end, header)
    except IndexError:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: its last record is truncated"
        ) from None
    if abs(header.base_timestamp) > _NEAR_INT64_MAX:
        decoded = [record._replace(timestamp=wrap_int64(record.timestamp)) for record in decoded]
    return decoded


def _check_counts(header: BatchHeader, size_bytes: int) -> None:
    """Compare the counts in the header with the size of the records, before decoding."""
    if not 0 <= header.record_count <= size_bytes // RECORD_SIZE_BYTES_MIN:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: {header.record_count} records cannot fit in "
            f"{size_bytes} bytes"
        )
    base_offset_max = _INT64_MAX - header.last_offset_delta
    if header.last_offset_delta < 0 or not 0 <= header.base_offset <= base_offset_max:
        raise CorruptBatchError(
            f"no batch can begin at offset {header.base_offset} with last offset delta "
            f"{header.last_offset_delta}"
        )


def _decode(  # noqa: C901 - one loop without calls: a call per field would halve its speed
    buffer: bytes, position: int, limit: int, header: BatchHeader
) -> list[Record]:
    """Decode the records in `buffer[position:limit]`.

    Every extent is compared with the end of its record before it is sliced, and the end of the
    record with `limit`, so nothing of another record is returned. Reading a single byte past the
    end of the buffer is an IndexError; reading one past the end of the record is noticed because
    the record then does not end where it should.
    """
    records: list[Record] = []
    append = records.append
    new = _new_record
    one_byte, first_of_two, second_of_two = ONE_BYTE_LENGTH, FIRST_OF_TWO, SECOND_OF_TWO
    base_offset = header.base_offset
    last_offset_delta = header.last_offset_delta
    previous_offset_delta = -1
    if header.has_log_append_time:
        base_timestamp = header.max_timestamp
        signed = _NO_TIMESTAMP_DELTA
    else:
        base_timestamp = header.base_timestamp
        signed = ONE_BYTE_SIGNED

    for _ in range(header.record_count):
        byte = buffer[position]
        if byte < 0x80:
            start = position + 1
            end = start + one_byte[byte]
        else:
            start = position + 2
            end = start + first_of_two[byte] + second_of_two[buffer[position + 1]]
        if end > limit:
            start, end = read_extent(buffer, position, limit)
        position = start + 1  # past the attributes

        byte = buffer[position]
        if byte < 0x80:
            timestamp = base_timestamp + signed[byte] if byte else base_timestamp
            position += 1
        else:
            timestamp_delta = first_of_two[byte] + second_of_two[buffer[position + 1]]
            if timestamp_delta < NOT_A_LENGTH:
                position += 2
                timestamp = base_timestamp + timestamp_delta
            else:
                timestamp_delta, position = read_varlong(buffer, position, end)
                timestamp = wrap_int64(base_timestamp + timestamp_delta)
            if signed is _NO_TIMESTAMP_DELTA:
                timestamp = base_timestamp

        byte = buffer[position]
        if byte < 0x80:
            start = position + 1
            offset_delta = one_byte[byte]
        else:
            start = position + 2
            offset_delta = first_of_two[byte] + second_of_two[buffer[position + 1]]
        if offset_delta > last_offset_delta:
            offset_delta, start = read_varint(buffer, position, end)
        if not previous_offset_delta < offset_delta <= last_offset_delta:
            raise CorruptBatchError(
                f"batch at offset {base_offset}: offset delta {offset_delta} comes after "
                f"{previous_offset_delta}, and {last_offset_delta} is the last"
            )
        previous_offset_delta = offset_delta
        position = start

        byte = buffer[position]
        if byte == _NULL:
            key = None
            position += 1
        else:
            if byte < 0x80:
                start = position + 1
                stop = start + one_byte[byte]
            else:
                start = position + 2
                stop = start + first_of_two[byte] + second_of_two[buffer[position + 1]]
            if stop > end:
                start, stop = read_extent(buffer, position, end)
            key = buffer[start:stop]
            position = stop

        byte = buffer[position]
        if byte == _NULL:
            value = None
            position += 1
        else:
            if byte < 0x80:
                start = position + 1
                stop = start + one_byte[byte]
            else:
                start = position + 2
                stop = start + first_of_two[byte] + second_of_two[buffer[position + 1]]
            if stop > end:
                start, stop = read_extent(buffer, position, end)
            value = buffer[start:stop]
            position = stop

        headers: Headers = ()
        if buffer[position]:
            headers, position = decode_headers(buffer, position, end)
        else:
            position += 1
        if position != end:
            raise CorruptBatchError(
                f"record at offset {base_offset + offset_delta}: its fields end at byte "
                f"{position}, the record at byte {end}"
            )
        append(new(Record, (base_offset + offset_delta, timestamp, key, value, headers)))

    if position != limit:
        raise CorruptBatchError(
            f"batch at offset {base_offset}: {limit - position} bytes follow the last of its "
            f"{header.record_count} records"
        )
    return records


def decode_headers(buffer: bytes, position: int, end: int) -> tuple[Headers, int]:
    """Decode the headers of the record that ends at `end`; returns them and where they end.

    Raises:
        CorruptBatchError: a count or length exceeds the record, or a key is not UTF-8.
        IndexError: the buffer ends inside the record.
    """
    one_byte = ONE_BYTE_LENGTH
    count = one_byte[buffer[position]]
    if count < NOT_A_LENGTH:
        position += 1
    else:
        count, position = read_varint(buffer, position, end)
    if not 0 <= count <= (end - position) // _HEADER_SIZE_BYTES_MIN:
        raise CorruptBatchError(f"{count} headers cannot fit in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        start = position + 1
        stop = start + one_byte[buffer[position]]
        if stop > end:
            start, stop = read_extent(buffer, position, end)
        try:
            key = buffer[start:stop].decode()
        except UnicodeDecodeError as error:
            raise CorruptBatchError(
                f"the key of a header at byte {start} is not UTF-8: {error.reason}"
            ) from None
        position = stop
        byte = buffer[position]
        if byte == _NULL:
            headers.append((key, None))
            position += 1
        else:
            start = position + 1
            stop = start + one_byte[byte]
            if stop > end:
                start, stop = read_extent(buffer, position, end)
            headers.append((key, buffer[start:stop]))
            position = stop
    return tuple(headers), position
