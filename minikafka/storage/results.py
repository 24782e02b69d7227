"""What a log answers with: small named tuples, made on every append and read."""

from typing import Final, NamedTuple

from minikafka.storage.disk import FileSlice

NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class AppendResult(NamedTuple):
    """Where an append went.

    Attributes:
        base_offset: Offset of the first record; of the original, for a duplicate.
        last_offset: Offset of the last record.
        log_append_time_ms: The timestamp every record got, or -1 with CreateTime.
        log_start_offset: The log's start at that moment.
        is_duplicate: Nothing was written: the producer sent these records before.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class LogRead(NamedTuple):
    """Whole batches from one segment.

    Attributes:
        records: The bytes, or None when there is no batch between the offset and the bound (or the
            first one is larger than the limit and `minimum_one_batch` was not asked for).
        base_offset: Base offset of the first batch, at or below the offset asked for; without
            records the offset asked for.
        next_offset: Where the next read goes on; the offset asked for without records.
    """

    records: FileSlice | None
    base_offset: int
    next_offset: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEndOffset(NamedTuple):
    """Answer to OffsetForLeaderEpoch (KIP-101, KIP-279): (-1, -1) when nothing is known."""

    leader_epoch: int
    end_offset: int


class ActiveProducer(NamedTuple):
    """One producer of a partition, for DescribeProducers (KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class QuarantinedRange(NamedTuple):
    """Offsets whose batch recovery found damaged and set aside: [first_offset, next_offset)."""

    first_offset: int
    next_offset: int
