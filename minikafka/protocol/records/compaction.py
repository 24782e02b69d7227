"""Encode what compaction leaves of a batch."""

from collections.abc import Iterable

from minikafka.protocol.records.assembly import BatchFields, assemble_batch
from minikafka.protocol.records.batch import NO_TIMESTAMP, BatchHeader
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.record import Record


def encode_retained_records(
    header: BatchHeader,
    records: Iterable[Record],
    *,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Encode a batch again with some of its records gone.

    The records keep their offsets, timestamps and headers, the batch its first and last offset,
    leader epoch, codec, timestamp type and producer: id, epoch and sequences. So no offset ever
    names another record, and the producer state that is rebuilt from the log stays the same. With
    no records left the batch is a header alone.

    Args:
        header: The header of the batch as it was.
        records: Some of its records, in their order, as `decode_records` returned them.
        level: Effort of the codec; its default when None.
        delete_horizon_ms: From when on tombstones in the batch may be removed (KIP-534); when None,
            a horizon that the batch has already is kept.

    Raises:
        CorruptBatchError: the attributes name no known codec.
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
        # No codec: readers that would decompress no bytes at all exist. And the largest timestamp
        # stays, for retention by time.
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
