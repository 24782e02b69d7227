"""Splits a batch that a broker found too large, without the application noticing.

The client limits a batch before compression, and the topic (``max.message.bytes``) after it, with a
limit that the producer does not know. So a refused batch is split in halves, again if necessary,
and later batches of the topic are opened no larger than the halves were: they will compress about
as well. A single record that is too large is an error for the application.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_records
from minikafka_client.core.producer_batch import (
    RECORD_OVERHEAD_SIZE_BYTES,
    BatchState,
    ProducerBatch,
)


def split_batch(
    batch: ProducerBatch, compression: Compression, level: int | None
) -> tuple[list[ProducerBatch], int]:
    """Returns the halves, in state RETRY and without an identity, and the larger one's raw size."""
    assert batch.payload is not None
    assert batch.record_count > 1
    records = decode_records(bytes(batch.payload))
    sizes = [_size_bytes(record) for record in records]
    middle = _middle(sizes)
    halves: list[ProducerBatch] = []
    largest = 0
    for first, end in ((0, middle), (middle, len(records))):
        half = ProducerBatch(
            batch.topic,
            batch.partition,
            BATCH_HEADER_SIZE_BYTES + sum(sizes[first:end]),
            now=batch.created_at,
            deadline=batch.deadline,
        )
        for _, timestamp_ms, key, value, headers in records[first:end]:
            half.append(key, value, timestamp_ms, headers)
        largest = max(largest, len(half))
        half.build(compression, level)
        half.reserved_bytes = len(half)
        half.state = BatchState.RETRY
        half.attempts = batch.attempts
        half.ordinal = batch.ordinal
        half.last_error = batch.last_error
        halves.append(half)
    batch.become(halves)
    return halves, largest


def _size_bytes(record: Record) -> int:
    size_bytes = RECORD_OVERHEAD_SIZE_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size_bytes += 4 * len(name) + len(value or b"") + 10  # as `Appender` counts
    return size_bytes


def _middle(sizes: list[int]) -> int:
    """At least one, and not all."""
    index = bisect_left(list(accumulate(sizes)), sum(sizes) / 2)
    return min(index + 1, len(sizes) - 1)
