"""Fills a topic quickly, by repeating pre-encoded record batches."""

from __future__ import annotations

import random

import pyarrow as pa

from minikafka_client.sync import AdminClient, Writer
from minikafka_client.types import NewTopic
from pyspark_minikafka.columns.encoder import encode_batches

KEY_BYTES = 16
_DISTINCT_RECORDS = 20_000
_TIMESTAMP_MS = 1_700_000_000_000


def fill(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    records: int,
    value_bytes: int,
    batch_size_bytes: int = 256 * 1024,
) -> None:
    """Create a topic with this many records in each partition, with keys of 16 bytes."""
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    numbers = random.Random(1)
    chunk = min(_DISTINCT_RECORDS, records)
    keys = pa.array([numbers.randbytes(KEY_BYTES) for _ in range(chunk)])
    values = pa.array([numbers.randbytes(value_bytes) for _ in range(chunk)])
    with Writer(bootstrap, max_request_size=2 * 1024 * 1024) as writer:
        for partition in range(partitions):
            left = records
            while left:
                count = min(chunk, left)
                for batch in encode_batches(
                    keys.slice(0, count),
                    values.slice(0, count),
                    None,
                    timestamp_ms=_TIMESTAMP_MS,
                    batch_size_bytes_max=batch_size_bytes,
                ):
                    writer.send_batch(topic, partition, batch, int.from_bytes(batch[57:61], "big"))
                left -= count
        writer.flush()
