"""Splits a batch that a broker found too large, without the application noticing.

A batch is limited before compression, a topic (``max.message.bytes``) after it, and the producer
does not know that limit. So a batch that was refused is split in halves, again if need be, and
later batches of the topic are opened no larger than the halves were: their compression will be
about the same. A single record that is too large is the application's to hear of.
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
    """Two batches in place of one of several records, and the uncompressed size of the larger one.

    They are encoded, in state RETRY, and have no producer id and sequence yet.
    """
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
    """At most what a record takes in a batch."""
    size_bytes = RECORD_OVERHEAD_SIZE_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size_bytes += 4 * len(name) + len(value or b"") + 10  # as `Appender` reckons
    return size_bytes


def _middle(sizes: list[int]) -> int:
    """How many records go into the first half; at least one, and not all."""
    index = bisect_left(list(accumulate(sizes)), sum(sizes) / 2)
    return min(index + 1, len(sizes) - 1)
