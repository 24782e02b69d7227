"""Kafka's rules for the batches that a log accepts, checked on the header and the CRC.

From a client (Produce): exactly one batch; magic 2; the CRC; whole; at most max.message.bytes; a
codec the request version allows; at least one record and last_offset_delta == record_count - 1; no
control batch; a producer id comes with an epoch and a sequence; timestamps within the topic's
bounds. Internal appends may contain several batches and control batches, without a size limit.

Records are neither decompressed nor decoded: the timestamp bounds are checked on the batch's base
and largest timestamp, and the payload is compared with the header in constant time (see
`check_payload`). Kafka reads all records instead, and so does this module in two cases: a compacted
topic refuses records without a key, and with ``minikafka.validate.records=all`` every record of a
client's batch must be well formed, have the next offset, and a timestamp within bounds. Malformed
records are INVALID_RECORD, as in Kafka, which names none of them; a refusal because of keys or
timestamps names the records (KIP-467).

Decoding takes as long as the client wants it to, so an event loop asks for `Inspection.ELSEWHERE`:
then `RecordsUnread` is raised instead, and the batch can be validated again in a worker thread.
What a batch may become there is bounded (`DECOMPRESSED_RATIO_MAX`, `INSPECTED_RECORDS_MAX`); a
larger one is MESSAGE_TOO_LARGE, upon which Kafka's producers split it.
"""

from collections.abc import Callable
from enum import Enum, auto
from itertools import islice
from typing import Final

from minikafka.protocol.crc import crc32c
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    CHECKED_OFFSET,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    LOG_OVERHEAD_SIZE_BYTES,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    parse_batch_header,
)
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.errors import (
    CorruptBatchError,
    DecompressedSizeError,
    UnsupportedMagicError,
)
from minikafka.protocol.records.payload_bounds import check_payload
from minikafka.protocol.records.record import Record, decode_records
from minikafka.storage.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from minikafka.storage.log_config import LogConfig

ZSTD_PRODUCE_VERSION_MIN: Final = 7
"""First version of Produce that may carry zstd (KIP-110)."""

BATCHES_PER_APPEND_MAX: Final = 10_000
"""Batches in one append by a leader; their headers are parsed before anything is written."""

RECORD_ERRORS_MAX: Final = 1000
"""Most records of one batch that a refusal names."""

INSPECTED_RECORDS_MAX: Final = 250_000
"""Most records of a batch that are decoded in order to validate it; they take about 60 MB."""

INSPECTED_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest batch that is decompressed in order to validate or re-compress it."""

INSPECTED_SIZE_BYTES_FREE: Final = 16 * 1024 * 1024
"""What the batches of one request may decompress to together, however small they are."""

DECOMPRESSED_RATIO_MAX: Final = 100
"""Further bytes that each byte of a request may decompress to."""

_INSPECTED_HERE_SIZE_BYTES_MAX: Final = 16 * 1024

_COMPRESSION_MAX: Final = int(max(Compression))
_ZSTD: Final = int(Compression.ZSTD)


class Inspection(Enum):
    """Where the records of a batch are looked at."""

    HERE = auto()
    """In this call, however long it takes."""
    ELSEWHERE = auto()
    """Raise `RecordsUnread` unless it is quick."""
    DONE = auto()
    """They have been looked at."""


class RecordsUnread(Exception):
    """Records have to be decompressed, or many of them decoded, before the batch is appended."""


def split_batches(
    records: Buffer, *, batches_max: int = BATCHES_PER_APPEND_MAX
) -> list[tuple[int, BatchHeader]]:
    """Positions and headers of all batches in `records`, each with a correct CRC.

    Args:
        records: Whole batches.
        batches_max: An append of more is refused.

    Raises:
        InvalidRecord: no batch at all, or too many.
        UnsupportedForMessageFormat: another message format version than 2.
        CorruptMessage: anything that is not a whole, intact batch.
    """
    batches: list[tuple[int, BatchHeader]] = []
    position = 0
    size_bytes = len(records)
    if not size_bytes:
        raise InvalidRecord("an append without a record batch")
    while position < size_bytes:
        header = _read_header(records, position)
        batches.append((position, header))
        if len(batches) > batches_max:
            raise InvalidRecord(f"more than {batches_max} batches in one append")
        position += LOG_OVERHEAD_SIZE_BYTES + header.batch_length
    return batches


def _read_header(records: Buffer, position: int) -> BatchHeader:
    """The header of a whole batch with a correct CRC.

    Raises:
        UnsupportedForMessageFormat: another message format version than 2.
        CorruptMessage: anything that is not a whole, intact batch.
    """
    try:
        header = parse_batch_header(records, position, must_be_whole=True)
    except UnsupportedMagicError as error:
        raise UnsupportedForMessageFormat(str(error)) from error
    except CorruptBatchError as error:
        raise CorruptMessage(str(error)) from error
    crc = crc32c(
        records,
        position + CHECKED_OFFSET,
        position + LOG_OVERHEAD_SIZE_BYTES + header.batch_length,
    )
    if crc != header.crc:
        raise CorruptMessage(
            f"batch at position {position}: the CRC {header.crc:#010x} does not match its "
            f"{header.size_bytes} bytes"
        )
    return header


def validate_batch(header: BatchHeader) -> None:
    """Rules for every batch that a leader appends, from a client or not.

    Raises:
        InvalidRecord: which rule is broken.
    """
    if header.attributes & COMPRESSION_MASK > _COMPRESSION_MAX:
        raise InvalidRecord(f"attributes {header.attributes:#06x} name an unknown compression")
    record_count = header.record_count
    if record_count < 1 or header.last_offset_delta != record_count - 1:
        raise InvalidRecord(
            f"record_count {record_count} with last_offset_delta "
            f"{header.last_offset_delta}; the delta of the last record is the count minus one"
        )
    if header.batch_length + LOG_OVERHEAD_SIZE_BYTES <= BATCH_HEADER_SIZE_BYTES:
        raise InvalidRecord(f"{record_count} records in a batch without a payload")


def validate_client_batch(
    records: Buffer,
    config: LogConfig,
    *,
    now_ms: int,
    request_version: int,
    inspection: Inspection = Inspection.HERE,
    decompressed_size_bytes_max: int = INSPECTED_SIZE_BYTES_MAX,
) -> BatchHeader:
    """Parse and check the records in a Produce request for one partition.

    Args:
        records: The partition's records as received: one batch.
        config: The topic's settings.
        now_ms: The broker's clock.
        request_version: Version of the Produce request.
        inspection: Where the records themselves are looked at, if they have to be.
        decompressed_size_bytes_max: The largest batch to decompress.

    Returns:
        The header of the batch.

    Raises:
        LogError: one class per rule, see the module.
        RecordsUnread: the records have to be looked at elsewhere.
    """
    size_bytes = len(records)
    header = _read_header(records, 0) if size_bytes else None
    if header is None or LOG_OVERHEAD_SIZE_BYTES + header.batch_length != size_bytes:
        raise InvalidRecord(
            f"{len(split_batches(records))} record batches; a produce request has exactly one per "
            "partition"
        )
    if size_bytes > config.max_message_bytes:
        raise MessageTooLarge(
            f"a batch of {size_bytes} bytes; max.message.bytes is {config.max_message_bytes}"
        )
    attributes, producer_id = header.attributes, header.producer_id
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("a control batch from a client; only the broker writes those")
    validate_batch(header)
    # Coordinators write in a producer's name without a sequence; clients do not.
    if producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise InvalidRecord(
                f"producer {producer_id} with epoch {header.producer_epoch} and sequence "
                f"{header.base_sequence}; neither may be negative"
            )
    elif attributes & TRANSACTIONAL_FLAG:
        raise InvalidRecord("a transactional batch without a producer id")
    if attributes & COMPRESSION_MASK == _ZSTD and request_version < ZSTD_PRODUCE_VERSION_MIN:
        raise UnsupportedCompressionType(
            f"zstd in produce version {request_version}; it needs {ZSTD_PRODUCE_VERSION_MIN}"
        )
    try:
        check_payload(records, 0, header)
    except CorruptBatchError as error:
        raise InvalidRecord(str(error)) from error
    if config.message_timestamp_type == "CreateTime":
        _validate_timestamps(
            records, header, config, now_ms, inspection, decompressed_size_bytes_max
        )
    if (
        config.cleanup_compact or config.validates_every_record
    ) and inspection is not Inspection.DONE:
        decoded = _decode(records, header, inspection, decompressed_size_bytes_max)
        _validate_records(decoded, config, now_ms)
    return header


def _validate_timestamps(
    records: Buffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    inspection: Inspection,
    decompressed_size_bytes_max: int,
) -> None:
    if header.has_log_append_time:
        raise InvalidTimestamp("the batch claims LogAppendTime; only the broker sets that")
    if header.max_timestamp < 0:
        return  # records without a timestamp
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    earliest_ms = now_ms - config.message_timestamp_before_max_ms
    if header.max_timestamp > latest_ms:
        reason = (
            f"timestamp {header.max_timestamp} is more than message.timestamp.after.max.ms = "
            f"{config.message_timestamp_after_max_ms} ahead of the broker's clock {now_ms}"
        )
    elif header.base_timestamp < earliest_ms:
        reason = (
            f"timestamp {header.base_timestamp} is more than message.timestamp.before.max.ms = "
            f"{config.message_timestamp_before_max_ms} behind the broker's clock {now_ms}"
        )
    else:
        return
    found: list[RecordError] = []
    if inspection is not Inspection.DONE:
        decoded = _decode(records, header, inspection, decompressed_size_bytes_max)
        found = _wrong_timestamps(decoded, earliest_ms, latest_ms)
    raise InvalidTimestamp(reason, record_errors=found)


def _validate_records(decoded: list[Record], config: LogConfig, now_ms: int) -> None:
    if config.cleanup_compact:
        found = _record_errors(decoded, lambda record: record.key is None, "the record has no key")
        if found:
            raise InvalidRecord(
                f"record {found[0].batch_index} of the batch has no key; a topic with "
                f"cleanup.policy=compact needs one",
                record_errors=found,
            )
    if config.validates_every_record and config.message_timestamp_type == "CreateTime":
        earliest_ms = now_ms - config.message_timestamp_before_max_ms
        latest_ms = now_ms + config.message_timestamp_after_max_ms
        found = _wrong_timestamps(decoded, earliest_ms, latest_ms)
        if found:
            index = found[0].batch_index
            raise InvalidTimestamp(
                f"record {index} of the batch has timestamp {decoded[index].timestamp}, not one "
                f"between {earliest_ms} and {latest_ms}, although the batch's own bounds are right",
                record_errors=found,
            )


def _wrong_timestamps(decoded: list[Record], earliest_ms: int, latest_ms: int) -> list[RecordError]:
    return _record_errors(
        decoded,
        lambda record: record.timestamp >= 0 and not earliest_ms <= record.timestamp <= latest_ms,
        f"the timestamp is not between {earliest_ms} and {latest_ms}",
    )


def _record_errors(
    decoded: list[Record], is_wrong: Callable[[Record], bool], message: str
) -> list[RecordError]:
    """The wrong records of a batch, at most `RECORD_ERRORS_MAX`."""
    wrong = (index for index, record in enumerate(decoded) if is_wrong(record))
    return [RecordError(index, message) for index in islice(wrong, RECORD_ERRORS_MAX)]


def _decode(
    records: Buffer, header: BatchHeader, inspection: Inspection, decompressed_size_bytes_max: int
) -> list[Record]:
    if inspection is Inspection.ELSEWHERE and (
        header.compression is not Compression.NONE
        or header.size_bytes > _INSPECTED_HERE_SIZE_BYTES_MAX
    ):
        raise RecordsUnread
    if header.record_count > INSPECTED_RECORDS_MAX:
        raise MessageTooLarge(
            f"a batch of {header.record_count} records; at most {INSPECTED_RECORDS_MAX} "
            "can be validated one by one"
        )
    try:
        return decode_records(records, size_bytes_max=decompressed_size_bytes_max)
    except DecompressedSizeError as error:
        raise MessageTooLarge(str(error)) from error
    except CorruptBatchError as error:
        raise InvalidRecord(str(error)) from error
