"""Encoded records to a batch: compress them and add the header."""

import struct
from typing import TypedDict, Unpack

from minikafka.protocol.crc import crc32c, extend_crc32c
from minikafka.protocol.records.batch import (
    BATCH_LENGTH_MIN,
    CHECKED_PART,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    UNCHECKED_PART,
)
from minikafka.protocol.records.compression import Compression, compress


class BatchFields(TypedDict, total=False):
    """Optional fields of a batch header."""

    base_offset: int
    """Offset of the first record that the batch ever had; default 0, for the leader to assign."""
    partition_leader_epoch: int
    """Epoch of the leader that appends the batch; default -1, for the leader to assign."""
    compression: Compression
    level: int | None
    """Compression level, on the codec's own scale; default the codec's default."""
    producer_id: int
    """Default -1: the producer is not idempotent."""
    producer_epoch: int
    base_sequence: int
    """Sequence of the first record that the batch ever had; default -1: no sequences."""
    is_transactional: bool
    is_control: bool
    """Whether its record is a control record, such as a transaction marker."""


def assemble_batch(
    records: bytes | bytearray,
    *,
    record_count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    has_log_append_time: bool = False,
    has_delete_horizon: bool = False,
    **fields: Unpack[BatchFields],
) -> bytearray:
    """Compress encoded records and add a batch header with the right CRC.

    Args:
        records: The encoded records, uncompressed; empty for a batch that only keeps its producer's
            state.
        record_count: The number of records.
        last_offset_delta: Offset of the last record that the batch ever had, minus base_offset.
        base_timestamp: What the timestamp deltas in `records` are relative to.
        max_timestamp: The largest timestamp of a record, or the time of the append.
        has_log_append_time: Whether max_timestamp is the timestamp of every record.
        has_delete_horizon: Whether base_timestamp is a delete horizon (KIP-534).
        **fields: See `BatchFields`.

    Raises:
        ValueError: a field does not fit into the header, the batch is 2 GiB or more, or the codec
            has no such level.
    """
    compression = fields.get("compression", Compression.NONE)
    level = fields.get("level")
    if level is not None or (records and compression):
        compressed = compress(compression, records, level)  # checks the level even without records
        records = compressed if records else records
    attributes = (
        compression
        | has_log_append_time * LOG_APPEND_TIME_FLAG
        | fields.get("is_transactional", False) * TRANSACTIONAL_FLAG
        | fields.get("is_control", False) * CONTROL_FLAG
        | has_delete_horizon * DELETE_HORIZON_FLAG
    )
    try:
        checked_part = CHECKED_PART.pack(
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            fields.get("producer_id", NO_PRODUCER_ID),
            fields.get("producer_epoch", NO_PRODUCER_EPOCH),
            fields.get("base_sequence", NO_SEQUENCE),
            record_count,
        )
        unchecked_part = UNCHECKED_PART.pack(
            fields.get("base_offset", 0),
            BATCH_LENGTH_MIN + len(records),
            fields.get("partition_leader_epoch", NO_PARTITION_LEADER_EPOCH),
            CURRENT_MAGIC,
            extend_crc32c(crc32c(checked_part), records),
        )
    except struct.error as error:
        raise ValueError(
            f"a value does not fit into a batch header: {error}; {len(records)} bytes of records, "
            f"last_offset_delta {last_offset_delta}, timestamps {base_timestamp} and "
            f"{max_timestamp}, {fields}"
        ) from None
    return bytearray().join((unchecked_part, checked_part, records))
