"""The plain decoder reads what the Arrow encoder wrote."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    BATCH_HEADER_SIZE_BYTES,
    Compression,
    crc_is_valid,
    decode_records,
    parse_batch_header,
)
from minikafka_client.core.fetched import ConsumedBatch
from pyspark_minikafka.columns.decoder import decode_runs
from pyspark_minikafka.columns.encoder import encode_batches
from pyspark_minikafka.columns.headers import HEADERS_TYPE
from pyspark_minikafka.columns.large_records import encode_large_batches
from tests.protocol.records.strategies import RecordInput, record_lists
from tests.spark.columns.fetches import PARTITION

TIMESTAMP_MS = 1_700_000_000_000


def arrays(inputs: list[RecordInput], cut: int = 0) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Keys, values and headers, as slices of longer arrays."""
    filler: list[RecordInput] = [(b"x", b"y", [("z", None)], 0)] * cut
    rows = [*filler, *inputs, *filler]
    keys = pa.array([row[0] for row in rows], pa.binary())
    values = pa.array([row[1] for row in rows], pa.binary())
    headers = pa.array(
        [[{"key": name, "value": value} for name, value in row[2]] for row in rows], HEADERS_TYPE
    )
    count = len(inputs)
    return keys.slice(cut, count), values.slice(cut, count), headers.slice(cut, count)


@given(
    inputs=record_lists,
    cut=st.integers(0, 2),
    compression=st.sampled_from(Compression),
    size_bytes_max=st.integers(1, 2_000),
)
def test_encoded_records_are_decoded_unchanged(
    inputs: list[RecordInput], cut: int, compression: Compression, size_bytes_max: int
) -> None:
    keys, values, headers = arrays(inputs, cut)
    batches = list(
        encode_batches(
            keys,
            values,
            headers,
            timestamp_ms=TIMESTAMP_MS,
            batch_size_bytes_max=size_bytes_max,
            compression=compression,
        )
    )
    records = [record for batch in batches for record in decode_records(batch, check_crc=True)]
    assert [(r.key, r.value, list(r.headers), r.timestamp) for r in records] == [
        (key, value, pairs, TIMESTAMP_MS) for key, value, pairs, _ in inputs
    ]


@given(inputs=record_lists, size_bytes_max=st.integers(1, 2_000))
def test_a_batch_respects_its_size_limit_unless_it_is_one_record(
    inputs: list[RecordInput], size_bytes_max: int
) -> None:
    for batch in encode_batches(
        *arrays(inputs), timestamp_ms=TIMESTAMP_MS, batch_size_bytes_max=size_bytes_max
    ):
        header = parse_batch_header(batch)
        assert header.size_bytes == len(batch)
        is_small = len(batch) - BATCH_HEADER_SIZE_BYTES <= size_bytes_max
        assert is_small or header.record_count == 1


@given(
    inputs=record_lists,
    base_sequence=st.sampled_from((0, 5, (1 << 31) - 2)),
    size_bytes_max=st.integers(1, 300),
)
def test_sequences_continue_across_batches_and_wrap(
    inputs: list[RecordInput], base_sequence: int, size_bytes_max: int
) -> None:
    batches = list(
        encode_batches(
            *arrays(inputs),
            timestamp_ms=TIMESTAMP_MS,
            batch_size_bytes_max=size_bytes_max,
            producer_id=7,
            producer_epoch=3,
            base_sequence=base_sequence,
            is_transactional=True,
        )
    )
    headers = [parse_batch_header(batch) for batch in batches]
    assert all(crc_is_valid(each, 0, header) for each, header in zip(batches, headers, strict=True))
    assert {(h.producer_id, h.producer_epoch, h.is_transactional) for h in headers} == {
        (7, 3, True)
    }
    assert headers[0].base_sequence == base_sequence
    for before, after in pairwise(headers):
        assert after.base_sequence == (before.last_sequence + 1) & 0x7FFFFFFF


@given(
    counts=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    key_size=st.integers(0, 70),
    value_size=st.integers(0, 9_000),
)
def test_encoded_records_are_decoded_by_columns_unchanged(
    counts: list[int], key_size: int, value_size: int
) -> None:
    count = sum(counts)
    keys = pa.array([b"k" * key_size] * count, pa.binary())
    values = pa.array([number % 256 * b"v" + b"w" * value_size for number in range(count)])
    payload = b"".join(
        encode_batches(
            keys,
            values,
            None,
            timestamp_ms=TIMESTAMP_MS,
            batch_size_bytes_max=1 << 20,
        )
    )
    run: ConsumedBatch = ConsumedBatch(PARTITION, memoryview(payload), 0)
    run.batch_positions = run.batch_positions[
        :1
    ]  # every batch begins at offset 0, as producers send it
    first = parse_batch_header(payload).record_count
    batch = decode_runs([run], ["key", "value"])
    assert batch.column("key").equals(keys.slice(0, first))
    assert batch.column("value").equals(values.slice(0, first))


@given(inputs=record_lists)
def test_keys_and_headers_are_optional(inputs: list[RecordInput]) -> None:
    _, values, _ = arrays(inputs)
    [batch] = encode_batches(
        None, values, None, timestamp_ms=TIMESTAMP_MS, batch_size_bytes_max=1 << 20
    )
    records = decode_records(batch)
    assert [(r.key, r.value, r.headers) for r in records] == [(None, row[1], ()) for row in inputs]


@given(
    inputs=record_lists, cut=st.integers(0, 2), size_bytes_max=st.integers(1, 2_000), data=st.data()
)
def test_large_records_are_encoded_in_the_given_order(
    inputs: list[RecordInput], cut: int, size_bytes_max: int, data: st.DataObject
) -> None:
    keys, values, headers = arrays(inputs, cut)
    rows = data.draw(st.permutations(range(len(inputs))), "rows")
    batches = list(
        encode_large_batches(
            keys,
            values,
            headers,
            rows,
            timestamp_ms=TIMESTAMP_MS,
            batch_size_bytes_max=size_bytes_max,
        )
    )
    records = [record for batch in batches for record in decode_records(batch, check_crc=True)]
    wanted = [inputs[row] for row in rows]
    assert [(r.key, r.value, list(r.headers), r.timestamp) for r in records] == [
        (key, value, pairs, TIMESTAMP_MS) for key, value, pairs, _ in wanted
    ]
    for batch in batches:
        header = parse_batch_header(batch)
        assert header.size_bytes == len(batch)
        is_small = len(batch) - BATCH_HEADER_SIZE_BYTES <= size_bytes_max
        assert is_small or header.record_count == 1


def test_no_records_make_no_batch() -> None:
    none = pa.array([], pa.binary())
    assert not list(
        encode_batches(none, none, None, timestamp_ms=TIMESTAMP_MS, batch_size_bytes_max=100)
    )
