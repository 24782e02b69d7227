"""The Arrow decoder agrees with the plain decoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import BATCH_HEADER_SIZE_BYTES, CorruptBatchError, encode_batch
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import CorruptRecordsError
from pyspark_minikafka.columns import COLUMN_NAMES
from pyspark_minikafka.columns.decoder import COLUMN_TYPES, decode_runs
from tests.protocol.records.strategies import RecordInput
from tests.spark.columns.fetches import PARTITION, Fetch, expected, fetches, microseconds
from tests.spark.columns.rows import ALL, rows_of


def test_the_names_are_known_without_arrow() -> None:
    assert tuple(COLUMN_TYPES) == COLUMN_NAMES


@given(fetch=fetches())
def test_all_columns_of_a_run_are_those_of_its_records(fetch: Fetch) -> None:
    run = fetch.run()
    assert rows_of(decode_runs([run], ALL)) == expected(list(run.records), run)


@given(fetch=fetches(), data=st.data())
def test_a_run_is_cut_at_its_first_and_its_end_offset(fetch: Fetch, data: st.DataObject) -> None:
    offsets = [record.offset for record in fetch.run().records] or [0]
    edges = st.integers(min(offsets), fetch.next_offset)
    first, end = sorted((data.draw(edges, "first"), data.draw(edges, "end")))
    run = fetch.run(first, end)
    assert rows_of(decode_runs([run], ALL)) == expected(list(run.records), run)


@given(fetch=fetches(), columns=st.lists(st.sampled_from(ALL), min_size=1, unique=True))
def test_selected_columns_come_in_their_order(fetch: Fetch, columns: list[str]) -> None:
    whole = rows_of(decode_runs([fetch.run()], ALL))
    batch = decode_runs([fetch.run()], columns)
    assert batch.schema.names == columns
    assert [field.type for field in batch.schema] == [COLUMN_TYPES[name] for name in columns]
    assert rows_of(batch) == [{name: row[name] for name in columns} for row in whole]


@given(
    sizes=st.lists(st.integers(3_000, 20_000), min_size=1, max_size=4),
    nulls=st.sets(st.integers(0, 3)),
    data=st.data(),
)
def test_large_values_are_decoded_unchanged(
    sizes: list[int], nulls: set[int], data: st.DataObject
) -> None:
    records: list[RecordInput] = [
        (None if number % 2 else b"key", None if number in nulls else bytes([number]) * size, [], 0)
        for number, size in enumerate(sizes)
    ]
    fetch = Fetch(bytes(encode_batch(records)), (), len(records))
    first = data.draw(st.integers(0, len(records) - 1), "first")
    run = fetch.run(first, data.draw(st.integers(first, len(records)), "end"))
    assert rows_of(decode_runs([run], ALL)) == expected(list(run.records), run)


@given(first=fetches(batches_max=3), second=fetches(batches_max=3))
def test_several_runs_become_one_arrow_batch(first: Fetch, second: Fetch) -> None:
    runs = sorted((first.run(), second.run()), key=lambda run: run.next_offset)
    if runs[0].next_offset > min([each.offset for each in runs[1].records] or [1 << 62]):
        runs = runs[1:]
    wanted = [row for run in runs for row in expected(list(run.records), run)]
    assert rows_of(decode_runs(runs, ALL)) == wanted


@given(fetch=fetches(batches_max=3), data=st.data())
def test_damaged_records_are_an_error_or_decoded_like_the_plain_decoder_does(
    fetch: Fetch, data: st.DataObject
) -> None:
    payload = bytearray(fetch.payload)
    for _ in range(data.draw(st.integers(1, 3), "damages")):
        position = data.draw(st.integers(BATCH_HEADER_SIZE_BYTES, len(payload) - 1), "position")
        payload[position] = data.draw(st.integers(0, 255), "byte")
    damaged = Fetch(bytes(payload), fetch.aborted, fetch.next_offset)
    try:
        run = damaged.run(check_crcs=False)
        batch = decode_runs([run], ALL, check_crcs=False)
    except (
        CorruptRecordsError,
        CorruptBatchError,
    ):  # the latter: there is no batch where one should begin
        return
    assert rows_of(batch) == expected(list(run.records), run)


@given(fetch=fetches(batches_max=3), data=st.data())
def test_a_wrong_crc_is_reported_with_partition_and_offset(
    fetch: Fetch, data: st.DataObject
) -> None:
    run = fetch.run()
    if not run.batch_positions:
        return
    start = data.draw(st.sampled_from(run.batch_positions), "batch")
    payload = bytearray(fetch.payload)
    payload[start + 17] ^= 0xFF
    damaged = Fetch(bytes(payload), fetch.aborted, fetch.next_offset).run()
    with pytest.raises(CorruptRecordsError, match=r"partition 3 of .*: its CRC is not"):
        decode_runs([damaged], ALL)
    assert decode_runs([damaged], ALL, check_crcs=False).equals(decode_runs([run], ALL))


def test_every_truncated_batch_is_an_error() -> None:
    batch = encode_batch([(b"key", b"value" * 100, [("h", b"x")], 5)] * 3)
    records = bytes(batch[BATCH_HEADER_SIZE_BYTES:])
    for size in range(len(records)):
        cut = bytearray(batch[:BATCH_HEADER_SIZE_BYTES]) + records[:size]
        cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
        run: ConsumedBatch = ConsumedBatch(PARTITION, memoryview(bytes(cut)), 0)
        with pytest.raises(CorruptRecordsError, match="do not end where their batch ends"):
            decode_runs([run], ALL, check_crcs=False)


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 253_402_300_799_999, (1 << 63) - 1, -(1 << 63)])
def test_timestamps_out_of_range_become_the_nearest_in_range(timestamp_ms: int) -> None:
    batch = encode_batch([(None, b"v", (), timestamp_ms)])
    run: ConsumedBatch = ConsumedBatch(PARTITION, memoryview(bytes(batch)), 0)
    [row] = rows_of(decode_runs([run], ["timestamp"]))
    assert row["timestamp"] == microseconds(timestamp_ms)
