"""Strategies for fetches: runs of batches as brokers send them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from hypothesis import strategies as st

from minikafka.protocol.records import (
    BatchFields,
    Compression,
    ControlType,
    encode_batch,
    encode_control_batch,
    parse_batch_header,
)
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.record_columns import decode_columns
from minikafka_client.types import ConsumerRecord, TopicPartition
from tests.protocol.records.strategies import RecordInput, record_inputs

PARTITION = TopicPartition("orders", 3)

Row = dict[str, object]

_MANY: st.SearchStrategy[list[RecordInput]] = st.builds(
    lambda sizes, count: [
        (b"k" * sizes[0], b"v" * sizes[1], [], 1_700_000_000_000 + number)
        for number in range(count)
    ],
    st.tuples(st.integers(0, 20), st.integers(0, 200)),
    st.integers(250, 700),
)
"""Records that differ only in their deltas, and enough of them for guesses."""


@dataclass(frozen=True)
class Fetch:
    """A partition's part of a fetch response.

    Attributes:
        payload: the batches.
        aborted: producer id and first offset of aborted transactions.
        next_offset: after the last batch.
    """

    payload: bytes
    aborted: tuple[tuple[int, int], ...]
    next_offset: int

    def run(
        self, first_offset: int = 0, end_offset: int | None = None, *, check_crcs: bool = True
    ) -> ConsumedBatch:
        """The client's representation."""
        found: ConsumedBatch = ConsumedBatch(
            PARTITION,
            memoryview(self.payload),
            first_offset,
            aborted=self.aborted,
            check_crcs=check_crcs,
        )
        return found if end_offset is None else found.until(end_offset)


@st.composite
def _batches(draw: st.DrawFn, base_offset: int) -> tuple[bytes, int]:
    """One batch and the offset after it."""
    producer_id = draw(st.sampled_from((-1, 7, 8)))
    if producer_id >= 0 and draw(st.integers(0, 4)) == 0:
        marker = encode_control_batch(
            draw(st.sampled_from((ControlType.COMMIT, ControlType.ABORT))),
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=base_offset,
        )
        return bytes(marker), base_offset + 1
    records: list[RecordInput] = draw(
        st.one_of(st.lists(record_inputs, min_size=1, max_size=6), _MANY)
    )
    deltas = list(range(len(records)))
    if draw(st.booleans()):  # compaction leaves gaps, and batches that end after their last record
        kept = draw(st.lists(st.integers(0, len(records) - 1), min_size=1, unique=True))
        deltas = sorted(kept)
        records = [records[delta] for delta in deltas]
    last = deltas[-1] + draw(st.sampled_from((0, 0, 5)))
    fields = BatchFields(
        base_offset=base_offset,
        compression=draw(st.sampled_from(Compression)),
        producer_id=producer_id,
        is_transactional=producer_id >= 0,
    )
    batch = encode_batch(
        records,
        offset_deltas=deltas,
        last_offset_delta=last,
        log_append_time_ms=draw(st.sampled_from((None, None, 1_700_000_000_123))),
        **fields,
    )
    return bytes(batch), base_offset + last + 1


@st.composite
def fetches(draw: st.DrawFn, batches_max: int = 6) -> Fetch:
    """Some batches in offset order, and transactions that were aborted."""
    offset = draw(st.integers(0, 1 << 40))
    firsts: list[int] = []
    payload = b""
    for _ in range(draw(st.integers(1, batches_max))):
        firsts.append(offset)
        batch, offset = draw(_batches(offset))
        payload += batch
        offset += draw(st.sampled_from((0, 0, 3)))
    aborted = draw(
        st.lists(st.tuples(st.sampled_from((7, 8)), st.sampled_from(firsts)), max_size=2)
    )
    return Fetch(payload, tuple(sorted(aborted, key=lambda each: each[1])), offset)


def microseconds(timestamp_ms: int) -> int:
    """A time, or the nearest one that 64 bits of microseconds can express."""
    last = ((1 << 63) - 1) // 1000
    return min(max(timestamp_ms, -last), last) * 1000


def expected(records: list[ConsumerRecord], run: ConsumedBatch) -> list[Row]:
    """The rows that records are, as Spark's connector has them, timestamps in microseconds."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": microseconds(record.timestamp_ms),
            "timestampType": int(is_appended),
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for record, is_appended in zip(records, _is_appended(run), strict=True)
    ]


def _is_appended(run: ConsumedBatch) -> Iterator[bool]:
    """Of each record, whether its batch has the time at which it was appended."""
    for position in run.batch_positions:
        header = parse_batch_header(run.payload, position)
        found = decode_columns(
            run.payload, position, run.first_offset, run.end_offset, check_crc=False
        )
        yield from repeat(header.has_log_append_time, len(found))
