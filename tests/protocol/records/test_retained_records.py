"""Encoding of what compaction leaves of a batch."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    BatchFields,
    BatchHeader,
    Compression,
    CorruptBatchError,
    crc_is_valid,
    decode_records,
    encode_batch,
    encode_retained_records,
    parse_batch_header,
)
from tests.protocol.records.oracles import READERS, Reader
from tests.protocol.records.strategies import RecordInput, batch_fields, record_lists

KEPT_FIELDS = (
    "base_offset",
    "partition_leader_epoch",
    "last_offset_delta",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "is_transactional",
    "is_control",
    "has_log_append_time",
    "next_offset",
    "last_sequence",
)

THREE: list[RecordInput] = [
    (b"a", b"1", [("name", b"value")], 1000),
    (b"b", None, [], 1004),
    (b"c", b"3", [], 1002),
]


def assert_kept(header: BatchHeader, before: BatchHeader) -> None:
    for name in KEPT_FIELDS:
        assert getattr(header, name) == getattr(before, name), name


@given(
    inputs=record_lists,
    fields=batch_fields,
    kept=st.sets(st.integers(0, 5)),
    append_time=st.one_of(st.none(), st.integers(0, 1 << 50)),
    horizon=st.one_of(st.none(), st.integers(0, 1 << 50)),
)
def test_retained_records_and_header_fields_are_unchanged(
    inputs: list[RecordInput],
    fields: BatchFields,
    kept: set[int],
    append_time: int | None,
    horizon: int | None,
) -> None:
    encoded = encode_batch(inputs, log_append_time_ms=append_time, **fields)
    before = parse_batch_header(encoded)
    retained = [record for index, record in enumerate(decode_records(encoded)) if index in kept]
    assume(retained)

    cleaned = encode_retained_records(before, retained, delete_horizon_ms=horizon)

    header = parse_batch_header(cleaned, must_be_whole=True)
    assert_kept(header, before)
    assert crc_is_valid(cleaned, 0, header)
    assert decode_records(cleaned) == retained
    assert header.compression is before.compression
    assert header.record_count == len(retained)
    assert header.max_timestamp == max(record.timestamp for record in retained)
    assert header.has_delete_horizon == (horizon is not None)
    if horizon is not None:
        assert header.base_timestamp == horizon


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(fields=batch_fields, kept=st.sets(st.integers(0, 2), min_size=1))
def test_other_clients_read_the_retained_records(
    read: Reader, fields: BatchFields, kept: set[int]
) -> None:
    encoded = encode_batch(THREE, **fields)
    retained = [record for index, record in enumerate(decode_records(encoded)) if index in kept]
    cleaned = encode_retained_records(parse_batch_header(encoded), retained, delete_horizon_ms=500)
    assert read(bytes(cleaned)) == retained


@given(fields=batch_fields, append_time=st.one_of(st.none(), st.integers(0, 1 << 50)))
def test_an_empty_batch_keeps_its_header(fields: BatchFields, append_time: int | None) -> None:
    encoded = encode_batch(THREE, log_append_time_ms=append_time, **fields)
    before = parse_batch_header(encoded)
    cleaned = encode_retained_records(before, [])
    header = parse_batch_header(cleaned, must_be_whole=True)
    assert_kept(header, before)
    assert crc_is_valid(cleaned, 0, header)
    assert decode_records(cleaned) == []
    assert header.size_bytes == 61
    assert header.record_count == 0
    assert header.compression is Compression.NONE
    assert header.max_timestamp == before.max_timestamp
    assert not header.has_delete_horizon


def test_cleaning_twice_keeps_the_delete_horizon() -> None:
    encoded = encode_batch(THREE)
    once = encode_retained_records(
        parse_batch_header(encoded), decode_records(encoded)[1:], delete_horizon_ms=9000
    )
    twice = encode_retained_records(parse_batch_header(once), decode_records(once)[1:])
    header = parse_batch_header(twice)
    assert header.has_delete_horizon
    assert header.base_timestamp == 9000
    assert [(record.offset, record.timestamp) for record in decode_records(twice)] == [(2, 1002)]
    nothing = parse_batch_header(encode_retained_records(header, []))
    assert nothing.has_delete_horizon
    assert nothing.base_timestamp == 9000


def test_a_level_may_be_given() -> None:
    inputs: list[RecordInput] = [(None, b"%d" % (n * n), [], 1000) for n in range(1000)]
    encoded = encode_batch(inputs, compression=Compression.GZIP)
    header, records = parse_batch_header(encoded), decode_records(encoded)
    quick = encode_retained_records(header, records, level=1)
    small = encode_retained_records(header, records, level=9)
    assert len(small) < len(quick)
    assert decode_records(small) == records


def test_records_of_another_batch_or_out_of_order_are_refused() -> None:
    encoded = encode_batch(THREE, base_offset=10)
    header, records = parse_batch_header(encoded), decode_records(encoded)
    with pytest.raises(ValueError, match="offset delta 0 is not between 3"):
        encode_retained_records(header, [records[2], records[0]])
    with pytest.raises(ValueError, match="offset delta -1 is not between 0"):
        encode_retained_records(header, [records[0]._replace(offset=9)])
    with pytest.raises(ValueError, match="last_offset_delta 2 is before"):
        encode_retained_records(header, [records[0]._replace(offset=13)])


def test_an_unknown_codec_is_corrupt() -> None:
    encoded = encode_batch(THREE)
    header = parse_batch_header(encoded)._replace(attributes=7)
    with pytest.raises(CorruptBatchError, match="name compression 7"):
        encode_retained_records(header, decode_records(encoded))


class LongBytes(bytes):
    """Claims to be longer than it is, so that tests do not need gigabytes."""

    def __len__(self) -> int:
        return 0x7FFFFFFF


def test_a_record_that_exceeds_any_batch_is_refused() -> None:
    encoded = encode_batch(THREE)
    header, records = parse_batch_header(encoded), decode_records(encoded)
    with pytest.raises(ValueError, match="the record at offset 1 does not fit into its batch"):
        encode_retained_records(header, [records[0], records[1]._replace(value=LongBytes())])
