"""Rows into record batches: the right partition, the right bytes, the order kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import Compression, crc_is_valid, decode_records, iter_batches
from minikafka_client.partitioner import murmur2, partition_for_key
from pyspark_minikafka.sink.errors import RefusedRowError
from pyspark_minikafka.sink.input_schema import InputColumns
from pyspark_minikafka.sink.partitioner import murmur2_column
from pyspark_minikafka.sink.row_encoder import RowEncoder, gathered

NOW_MS = 1_700_000_000_000
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER)),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
    ]
)
COLUMNS = InputColumns(value=1, key=0, headers=2, topic=3, partition=4)
PARTITIONS = {"a": 1, "b": 3}


def rows_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def encode(
    batches: Iterable[pa.RecordBatch],
    columns: InputColumns = COLUMNS,
    topic: str | None = None,
    **options: Any,
) -> dict[tuple[str, int], list[Any]]:
    """What the plain decoder reads in each partition."""
    settings = {"batch_size_bytes_max": 10_000, "clock_ms": lambda: NOW_MS, **options}
    encoder = RowEncoder(columns, topic, PARTITIONS.__getitem__, **settings)
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for name, partition, payload, record_count in encoder.encode(batches):
        [(position, header)] = iter_batches(payload)
        assert crc_is_valid(payload, position, header)
        records = decode_records(bytes(payload))
        assert len(records) == record_count
        found[name, partition] += records
    return found


@given(st.lists(st.none() | st.binary(max_size=40), max_size=60), st.integers(0, 5))
def test_keys_are_hashed_like_one_by_one(keys: list[bytes | None], skipped: int) -> None:
    column = pa.array(keys, pa.binary()).slice(skipped)
    assert murmur2_column(column).tolist() == [murmur2(key or b"") for key in keys[skipped:]]


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=9, max_size=40))
def test_keys_of_one_length_are_hashed_like_one_by_one(keys: list[bytes]) -> None:
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == [murmur2(key) for key in keys]


headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=5)}),
    max_size=3,
)
row: st.SearchStrategy[dict[str, Any]] = st.sampled_from(sorted(PARTITIONS)).flatmap(
    lambda topic: st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=9),
            "value": st.none() | st.binary(max_size=30),
            "headers": headers,
            "topic": st.just(topic),
            "partition": st.none() | st.integers(0, PARTITIONS[topic] - 1),
        }
    )
)


@given(
    batches=st.lists(st.lists(row, max_size=12), max_size=4),
    size=st.sampled_from([70, 300, 100_000]),
    compression=st.sampled_from(list(Compression)),
)
def test_every_row_becomes_a_record_of_its_partition(
    batches: list[list[dict[str, Any]]], size: int, compression: Compression
) -> None:
    found = encode(map(rows_of, batches), batch_size_bytes_max=size, compression=compression)
    rows = [row for batch in batches for row in batch]
    assert sum(map(len, found.values())) == len(rows)
    for (topic, partition), records in found.items():
        seen = [(r.key, r.value, list(r.headers), r.timestamp) for r in records]
        fixed = [r for r in rows if r["topic"] == topic and _where(r) == partition]
        expected = [_record(row) for row in fixed]
        # Rows that are free to go anywhere may stand in between; the others keep their order.
        rest: Iterator[object] = iter(seen)
        assert all(each in rest for each in expected)


def _where(row: dict[str, Any]) -> int | None:
    if row["partition"] is not None:
        return int(row["partition"])
    if row["key"] is not None:
        return partition_for_key(row["key"], PARTITIONS[row["topic"]])
    return None


def _record(row: dict[str, Any]) -> tuple[object, ...]:
    named = [(each["key"], each["value"]) for each in row["headers"] or ()]
    return row["key"], row["value"], named, NOW_MS


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_rows_with_large_values_keep_their_order(compression: Compression) -> None:
    rows = [
        {"key": b"k%d" % (number % 5), "value": b"%05d" % number * 5_000, "partition": None}
        for number in range(200)
    ]
    batch = pa.RecordBatch.from_pylist(rows)
    columns = InputColumns(value=1, key=0, partition=2)
    found = encode([batch], columns, "b", batch_size_bytes_max=100_000, compression=compression)
    assert len(found) > 1
    for (_, partition), records in found.items():
        wanted = [
            (row["key"], row["value"])
            for row in rows
            if partition_for_key(row["key"], PARTITIONS["b"]) == partition
        ]
        assert [(each.key, each.value) for each in records] == wanted


def test_rows_without_a_key_stick_to_a_partition_and_then_go_to_the_next() -> None:
    batch = rows_of([{"value": b"x" * 1_000} for _ in range(1_200)])
    columns = InputColumns(value=1)
    found = encode([batch] * 3, columns, "b", batch_size_bytes_max=1_000_000)
    assert {where: len(records) for where, records in found.items()} == {
        ("b", partition): 1_200 for partition in range(3)
    }


def test_strings_are_sent_as_utf8() -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["ключ"]), pa.array(["значение"], pa.large_string())], names=["key", "value"]
    )
    [record] = encode([batch], InputColumns(value=1, key=0), "a")["a", 0]
    assert (record.key, record.value) == ("ключ".encode(), "значение".encode())


def test_a_row_without_a_topic_is_refused() -> None:
    with pytest.raises(RefusedRowError, match="null in the column 'topic'"):
        encode([rows_of([{"value": b"v", "topic": None}])])


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"v"}])
def test_a_header_without_a_key_is_refused(header: object) -> None:
    good = {"value": b"v", "topic": "a", "headers": [{"key": "k", "value": None}]}
    assert len(encode([rows_of([good])])["a", 0]) == 1
    with pytest.raises(RefusedRowError, match="header without a key"):
        encode([rows_of([good, {**good, "headers": [header]}])])


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_does_not_exist_is_refused(partition: int) -> None:
    with pytest.raises(RefusedRowError, match="'b' has the partitions 0 to 2"):
        encode([rows_of([{"value": b"v", "topic": "b", "partition": partition}])])


def test_small_batches_of_rows_are_joined_and_empty_ones_dropped() -> None:
    one, none = rows_of([{"value": b"v" * 100}]), rows_of([])
    joined = list(gathered([one, none, one, one, none, one], 2 * one.nbytes))
    assert [batch.num_rows for batch in joined] == [2, 2]
    assert list(gathered([none], 100)) == []


def test_keys_can_be_ignored() -> None:
    rows = rows_of([{"key": b"%d" % n, "value": b"v", "topic": "b"} for n in range(20)])
    found = encode([rows], partitioning="sticky")
    assert [len(records) for records in found.values()] == [20]


def test_round_robin_takes_one_partition_after_the_other() -> None:
    batches = [
        rows_of([{"key": b"k", "value": b"%d" % n, "topic": "b"} for n in range(first, first + 7)])
        for first in (0, 7)
    ]
    encoder = RowEncoder(
        COLUMNS,
        None,
        PARTITIONS.__getitem__,
        batch_size_bytes_max=10_000,
        partitioning="round-robin",
    )
    where: dict[int, int] = {}
    for batch in batches:
        for _, partition, payload, _ in encoder.encode([batch]):
            for record in decode_records(bytes(payload)):
                where[int(record.value or b"")] = partition
    assert [(where[n + 1] - where[n]) % 3 for n in range(13)] == [1] * 13
