"""Every byte of a batch with all features is damaged, one at a time."""

from __future__ import annotations

import pytest

from minikafka.protocol.records import (
    BATCH_HEADER_SIZE_BYTES,
    CorruptBatchError,
    encode_batch,
    encode_retained_records,
    parse_batch_header,
)
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import CorruptRecordsError
from pyspark_minikafka.columns.decoder import decode_runs
from tests.spark.columns.fetches import PARTITION, Row, expected
from tests.spark.columns.rows import ALL, rows_of

EVERYTHING = encode_batch(
    [
        (b"k", b"va", (), 1_000),
        (None, b"", [("h", b"x"), ("i", None)], 1_001),
        (b"", None, (), 999),
        (b"k", b"w" * 61, (), 1_200),
    ],
    base_offset=7,
)


def run_of(payload: bytes) -> ConsumedBatch:
    return ConsumedBatch(PARTITION, memoryview(payload), 0, check_crcs=False)


def plain(payload: bytes) -> list[Row] | None:
    """The result of the plain decoder; None if it refuses the bytes."""
    try:
        run = run_of(payload)
        return expected(list(run.records), run)
    except (CorruptRecordsError, CorruptBatchError):
        return None


def by_columns(payload: bytes) -> list[Row] | None:
    try:
        return rows_of(decode_runs([run_of(payload)], ALL, check_crcs=False))
    except (CorruptRecordsError, CorruptBatchError):
        return None


@pytest.mark.parametrize(
    "position",
    range(BATCH_HEADER_SIZE_BYTES, len(EVERYTHING) - 55),  # the rest is a long value
)
def test_every_byte_is_damaged(position: int) -> None:
    payload = bytearray(EVERYTHING)
    different: list[int] = []
    for byte in range(256):
        payload[position] = byte
        if plain(bytes(payload)) != by_columns(bytes(payload)):
            different.append(byte)
    assert not different


@pytest.mark.parametrize("position", [57, 58, 59, 60, 23, 24, 25, 26])
def test_wrong_counts_in_the_header_are_handled(position: int) -> None:
    payload = bytearray(EVERYTHING)
    for byte in (0, 1, 2, 3, 5, 0x7F, 0x80, 0xFF):
        payload[position] = byte
        assert plain(bytes(payload)) == by_columns(bytes(payload))


def test_lengths_that_differ_in_their_second_byte_are_distinguished() -> None:
    sizes = [70] * 300 + [70 + 64] * 300 + [70, 70 + 64] * 200 + [70 + 128] * 300
    records = [(None, b"v" * size, (), 1_000) for size in sizes]
    payload = bytes(encode_batch(records))
    batch = decode_runs([run_of(payload)], ["value"])
    assert [len(value) for value in batch.column("value").to_pylist()] == sizes


def test_lengths_of_three_and_four_bytes_are_found() -> None:
    sizes = [3, 9_000, 70, 1_100_000, 5, *[9_000] * 260]
    records = [(b"k", b"v" * size, (), 1_000) for size in sizes]
    batch = decode_runs([run_of(bytes(encode_batch(records)))], ["value", "offset"])
    assert [len(value) for value in batch.column("value").to_pylist()] == sizes
    assert batch.column("offset").to_pylist() == list(range(len(sizes)))


def test_a_batch_that_compaction_emptied_has_no_rows() -> None:
    first = encode_batch([(None, b"gone", (), 1_000)] * 3, base_offset=10)
    emptied = encode_retained_records(parse_batch_header(first), [])
    second = encode_batch([(None, b"here", (), 1_000)], base_offset=13)
    for payload in (emptied, emptied + second, second + emptied):
        assert by_columns(bytes(payload)) == plain(bytes(payload))


def test_a_value_that_fills_its_record_is_refused_if_only_values_are_read() -> None:
    payload = bytearray(encode_batch([(b"k", b"va", (), 1_000)] * 2))
    position = payload.index(b"va") - 1
    assert payload[position] == 2 << 1
    payload[position] = 3 << 1
    with pytest.raises(CorruptRecordsError, match="a key or value exceeds its record"):
        decode_runs([run_of(bytes(payload))], ["value"], check_crcs=False)


@pytest.mark.parametrize("record", [0, 1, 40, 298, 299])
@pytest.mark.parametrize("length", [b"\xff" * 6, b"\x80\x80\x80\x80\x10", b"\xfe\xff\x7f", b"\0"])
def test_records_of_any_length_are_found_among_equal_ones(record: int, length: bytes) -> None:
    payload = encode_batch([(None, b"value", (), 1_000)] * 300)
    values = [index for index in range(len(payload)) if payload.startswith(b"value", index)]
    # Before the value: length, attributes, two deltas, two sizes; the second delta is longer soon.
    start = values[record] - (6 if record < 64 else 7)
    payload[start : start + len(length)] = length
    assert by_columns(bytes(payload)) is None
    assert plain(bytes(payload)) is None
