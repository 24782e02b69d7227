"""Whatever shape records have, both ways of decoding them say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import Compression, decode_records, encode_batch, parse_batch_header
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka_client.core import record_columns
from minikafka_client.core.uniform_records import UniformBatch, decode_uniform
from minikafka_client.types import ConsumerRecord

NO_END = 1 << 63

Fields = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def uniform(records: list[Fields], **fields: object) -> UniformBatch | None:
    """The uniform decoder's answer to a batch."""
    batch = bytes(encode_batch(records, **fields))  # type: ignore[arg-type]  # fields of a batch
    return decode_uniform(batch[61:], parse_batch_header(batch))


def check_same(
    batch: bytes | bytearray, columns: record_columns.RecordColumns, first: int, end: int
) -> None:
    """The columns are what `decode_records` says."""
    expected = [record for record in decode_records(bytes(batch)) if first <= record.offset < end]
    assert len(columns) == len(expected)
    assert list(columns.offsets()) == [record.offset for record in expected]
    assert columns.timestamps_ms() == [record.timestamp for record in expected]
    assert list(columns.keys()) == [record.key for record in expected]
    assert list(columns.values()) == [record.value for record in expected]
    assert columns.headers() == [record.headers for record in expected]
    records = columns.records("t", 3)
    assert records == [("t", 3, *record) for record in expected]
    assert all(isinstance(record, ConsumerRecord) for record in records)


@given(
    count=st.integers(8, 200),
    key_size=st.sampled_from([None, 0, 1, 63, 64, 200]),
    value_size=st.sampled_from([None, 0, 1, 50, 52, 54, 56, 58, 63, 64, 8_192]),
    deltas=st.lists(st.integers(0, 63), min_size=1, max_size=5),
    base_offset=st.sampled_from([0, 5, 1 << 40]),
    log_append_time_ms=st.sampled_from([None, 99]),
    first=st.integers(-5, 210),
    end=st.integers(-5, 210) | st.just(NO_END),
)
def test_equal_records_are_decoded_as_a_matrix(
    count: int,
    key_size: int | None,
    value_size: int | None,
    deltas: list[int],
    base_offset: int,
    log_append_time_ms: int | None,
    first: int,
    end: int,
) -> None:
    def filled(size: int | None, number: int) -> bytes | None:
        return None if size is None else bytes([number % 251]) * size

    records: list[Fields] = [
        (
            filled(key_size, n),
            filled(value_size, n + 7),
            (),
            1_000 + (deltas[n % len(deltas)] if n else 0),
        )
        for n in range(count)
    ]
    batch = encode_batch(records, base_offset=base_offset, log_append_time_ms=log_append_time_ms)
    first, end = base_offset + first, base_offset + end
    columns = record_columns.decode_columns(memoryview(batch), 0, first, end, check_crc=True)
    assert isinstance(columns, record_columns.UniformRecords)
    check_same(batch, columns, first, end)


@pytest.mark.parametrize("count", [8, 63, 64, 65, 8_191, 8_192])
def test_offsets_of_both_sizes(count: int) -> None:
    batch = encode_batch([(None, b"v", (), 5)] * count)
    columns = record_columns.decode_columns(memoryview(batch), 0, 0, NO_END, check_crc=True)
    assert isinstance(columns, record_columns.UniformRecords)
    check_same(batch, columns, 0, NO_END)


@pytest.mark.parametrize(
    "records",
    [
        [(None, b"v", (), 5)] * 7,
        [(None, b"v", (), 5)] * 8_193,
        [(None, b"v" * (n % 3), (), 5) for n in range(50)],
        [(b"k" * (n % 2), b"v" * (2 - n % 2), (), 5) for n in range(50)],
        [(None, b"v", (), 5 + 64 * n) for n in range(50)],
        [(None, b"v", (), 5 - n) for n in range(50)],
        [(None, b"v", (("h", b""),), 5)] * 50,
        [(None, b"", (), 5)] * 49 + [(None, None, (), 5)],
        [(None, b"abc", (), 5)] * 49 + [(b"ab", b"", (), 5)],
    ],
)
def test_what_is_no_matrix_is_decoded_too(records: list[Fields]) -> None:
    assert uniform(records) is None
    batch = encode_batch(records, base_offset=3)
    columns = record_columns.decode_columns(memoryview(batch), 0, 5, 40, check_crc=True)
    assert isinstance(columns, record_columns.AnyRecords)
    check_same(batch, columns, 5, 40)


def test_compressed_and_compacted_batches_are_decoded_one_by_one() -> None:
    records: list[Fields] = [(None, b"v", (), 5)] * 50
    for batch in (
        encode_batch(records, compression=Compression.ZSTD),
        encode_batch(records, offset_deltas=range(0, 100, 2), last_offset_delta=99),
    ):
        columns = record_columns.decode_columns(memoryview(batch), 0, 0, NO_END, check_crc=True)
        assert isinstance(columns, record_columns.AnyRecords)
        check_same(batch, columns, 0, NO_END)


@given(
    records=st.lists(
        st.tuples(
            st.none() | st.binary(max_size=3),
            st.none() | st.binary(max_size=3),
            st.just(()),
            st.integers(0, 200),
        ),
        min_size=8,
        max_size=80,
    ),
    position=st.integers(0, 10_000),
    byte=st.integers(0, 255),
)
def test_damage_is_never_decoded_otherwise_than_by_the_decoder_that_knows_everything(
    records: list[Fields], position: int, byte: int
) -> None:
    batch = encode_batch(records[:1] * len(records) if position % 2 else records)
    batch[61 + position % (len(batch) - 61)] = byte
    try:
        expected = decode_records(bytes(batch))
    except CorruptBatchError:
        with pytest.raises(CorruptBatchError):
            record_columns.decode_columns(memoryview(batch), 0, 0, NO_END, check_crc=False)
        assert decode_uniform(bytes(batch[61:]), parse_batch_header(batch)) is None
    else:
        columns = record_columns.decode_columns(memoryview(batch), 0, 0, NO_END, check_crc=False)
        assert columns.records("t", 0) == [("t", 0, *record) for record in expected]


@pytest.mark.parametrize("records", [b"", b"\x02", b"\xff" * 9, bytes(6), b"\x10\0\0\0\x05\x05\0"])
def test_bytes_that_are_no_record_have_no_shape(records: bytes) -> None:
    header = parse_batch_header(encode_batch([(None, b"", (), 1)] * 8))
    assert decode_uniform(records, header) is None
