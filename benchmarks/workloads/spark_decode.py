"""Record batches to Arrow, in one process on one processor, without a broker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from minikafka.protocol.records import Compression, encode_batch
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.types import TopicPartition
from pyspark_minikafka.columns.decoder import decode_runs

from ..workload import Figure, Round, Run, Workload

RECORDS = 40_000
REPEATS = 20
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_TIMESTAMP_MS = 1_700_000_000_000

# Name, records per batch, whether their sizes differ, compression.
_SIDES = (
    ("10,000", 10_000, False, Compression.NONE),
    ("100", 100, False, Compression.NONE),
    ("10", 10, False, Compression.NONE),
    ("10,000 of many sizes", 10_000, True, Compression.NONE),
    ("100 of many sizes", 100, True, Compression.NONE),
    ("1,000 with lz4", 1_000, False, Compression.LZ4),
)


def _payload(per_batch: int, has_many_sizes: bool, compression: Compression) -> bytes:
    numbers = random.Random(1)
    batches: list[bytearray] = []
    for base_offset in range(0, RECORDS, per_batch):
        records = [
            (
                numbers.randbytes(16),
                numbers.randbytes(numbers.randrange(60, 141) if has_many_sizes else 100),
                (),
                _TIMESTAMP_MS + (base_offset + number) // 100,
            )
            for number in range(per_batch)
        ]
        batches.append(encode_batch(records, base_offset=base_offset, compression=compression))
    return b"".join(batches)


def measure(run: Run) -> Iterator[Round]:
    """Decode a fetch of each kind, repeatedly."""

    def side(name: str, payload: bytes) -> Callable[[], Round]:
        where = TopicPartition("decode", 0)
        repeats = run.scaled(REPEATS)

        def decode() -> Round:
            started = time.process_time()
            for _ in range(repeats):
                fetched: ConsumedBatch = ConsumedBatch(where, memoryview(payload), 0)
                batch = decode_runs([fetched], COLUMNS)
                if batch.num_rows != RECORDS:
                    raise AssertionError(f"{batch.num_rows} of {RECORDS} records")
            return {name: repeats * RECORDS / (time.process_time() - started)}

        decode()
        return decode

    sides = {
        name: side(name, _payload(per_batch, has_many_sizes, compression))
        for name, per_batch, has_many_sizes, compression in _SIDES
    }
    yield from run.interleaved(**sides)


WORKLOAD = Workload(
    name="spark-decode",
    measures="40,000 records of 100 bytes (or 60 to 140) with keys of 16, as fetched, to all "
    "columns of Spark's schema, checksums verified; per second of processor time.",
    function=measure,
    rounds=5,
    figures=(
        Figure(name="batches of 10,000", unit="records/s", of="10,000", at_least=3.5e6),
        Figure(name="batches of 100", unit="records/s", of="100", at_least=2e6),
        *(Figure(name=f"batches of {name}", unit="records/s", of=name) for name, *_ in _SIDES[2:]),
    ),
)
