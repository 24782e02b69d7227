"""Decoding of records, and the errors of malformed ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    Compression,
    CorruptBatchError,
    DecompressedSizeError,
    Record,
    UnsupportedMagicError,
    assemble_batch,
    decode_records,
    encode_batch,
)
from minikafka.protocol.records.varint import encode_varint
from tests.protocol.records.strategies import COMPRESSIONS, RecordInput, compressions, record_lists

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

EVERY_BUFFER = pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
EVERY_CODEC = pytest.mark.parametrize("codec", COMPRESSIONS, ids=lambda codec: codec.name)


def batch_of(
    records: bytes,
    *,
    record_count: int = 1,
    last_offset_delta: int = 0,
    base_offset: int = 50,
    base_timestamp: int = 1000,
    has_log_append_time: bool = False,
    **fields: int,
) -> bytes:
    """A batch of these encoded records, which may be malformed."""
    return bytes(
        assemble_batch(
            records,
            record_count=record_count,
            last_offset_delta=last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=2000,
            has_log_append_time=has_log_append_time,
            base_offset=base_offset,
        )
    )


def record_of(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


# attributes, timestamp delta, offset delta, key, value, headers
SIMPLE = record_of(b"\x00" + b"\x06" + b"\x00" + b"\x02k" + b"\x04vv" + b"\x00")


def test_the_fields_of_a_record() -> None:
    assert decode_records(batch_of(SIMPLE)) == [Record(50, 1003, b"k", b"vv", ())]


def test_a_record_of_nulls_takes_seven_bytes() -> None:
    nulls = record_of(b"\x00\x00\x00\x01\x01\x00")
    assert len(nulls) == 7
    assert decode_records(batch_of(nulls)) == [Record(50, 1000, None, None, ())]


def test_empty_is_not_null() -> None:
    empty = record_of(b"\x00\x00\x00\x00\x00\x04" + b"\x00\x00" + b"\x02a\x01")
    assert decode_records(batch_of(empty)) == [Record(50, 1000, b"", b"", (("", b""), ("a", None)))]


def test_attributes_of_a_record_are_ignored() -> None:
    assert decode_records(batch_of(SIMPLE.replace(b"\x00\x06", b"\x7f\x06"))) == decode_records(
        batch_of(SIMPLE)
    )


@EVERY_BUFFER
@given(codec=compressions, inputs=record_lists)
def test_a_batch_between_others(
    buffer_type: type[bytes], codec: Compression, inputs: list[RecordInput]
) -> None:
    encoded = encode_batch(inputs, compression=codec)
    buffer = buffer_type(SIMPLE + encoded + SIMPLE)
    found = decode_records(buffer, len(SIMPLE))
    assert found == decode_records(encoded)
    assert [type(record.value) for record in found] == [type(value) for _, value, *_ in inputs]


@given(
    delta=st.one_of(
        st.integers(-70, 70), st.integers(-9000, 9000), st.integers(INT64_MIN, INT64_MAX)
    ),
    has_log_append_time=st.booleans(),
)
def test_timestamp_deltas_of_every_size(delta: int, *, has_log_append_time: bool) -> None:
    records = record_of(b"\x00" + encode_varint(delta) + b"\x00\x01\x01\x00")
    encoded = batch_of(records, base_timestamp=0, has_log_append_time=has_log_append_time)
    assert decode_records(encoded)[0].timestamp == (2000 if has_log_append_time else delta)


@pytest.mark.parametrize("padding", [b"\x80\x00", b"\x80\x80\x80\x80\x00"])
def test_varints_longer_than_they_need_to_be(padding: bytes) -> None:
    zero = padding
    body = b"\x00" + zero + zero + zero + zero + zero
    assert decode_records(batch_of(record_of(body))) == [Record(50, 1000, b"", b"", ())]
    body = b"\x00\x00\x00\x01\x01" + b"\x02" + zero + zero
    assert decode_records(batch_of(record_of(body)))[0].headers == (("", b""),)
    long_length = bytes((len(body) << 1 | 0x80, 0x80, 0x00))
    assert decode_records(batch_of(long_length + body))[0].headers == (("", b""),)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8191, 8192, 100_000])
def test_lengths_of_every_size(length: int) -> None:
    text = "h" * length
    inputs: list[RecordInput] = [
        (b"k" * length, b"v" * length, [(text, text.encode()), ("", None)], 1000)
    ]
    assert decode_records(encode_batch(inputs)) == [
        Record(0, 1000, b"k" * length, b"v" * length, ((text, text.encode()), ("", None)))
    ]


def test_a_hundred_headers() -> None:
    headers = tuple((f"name {number}", b"%d" % number) for number in range(100))
    assert decode_records(encode_batch([(None, None, headers, 0)]))[0].headers == headers


def test_a_batch_may_be_all_header() -> None:
    assert decode_records(batch_of(b"", record_count=0, last_offset_delta=9)) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\x00\x00\x00\x01\x01\x00\x00", "its fields end at byte 68, the record at byte 69"),
        (b"\x00\x00\x00\x01\x03\x00", "length -2 at byte"),
        (b"\x00\x00\x00\x03\x01\x00", "length -2 at byte"),
        (b"\x00\x00\x00\x81\x00\x01\x00", "length -1 at byte"),
        (b"\x00\x00\x00\x01\x08vv\x00", "length 4 at byte .*, where 3 bytes are left"),
        (b"\x00\x00\x00\x08kk\x01\x00", "length 4 at byte .*, where 4 bytes|end at byte|truncated"),
        (b"\x00\x00\x00\x01\x80\x80\x04vv\x00", "length 32768 at byte"),
        (b"\x00\x00\x00\x01\xff\xff\xff\xff\xff\x01", "no varint of at most 32 bits"),
        (b"\x00" + b"\xff" * 10 + b"\x01\x00\x01\x01\x00", "no varint of at most 64 bits"),
        (b"\x00\x00\x01\x01\x01\x00", "offset delta -1 comes after -1"),
        (b"\x00\x00\x02\x01\x01\x00", "offset delta 1 comes after -1, and 0 is the last"),
        (b"\x00\x00\x80\x80\x02\x01\x01\x00", "offset delta 16384 comes after"),
        (b"\x00\x00\x00\x01\x01\x01", "-1 headers cannot fit in 0 bytes"),
        (b"\x00\x00\x00\x01\x01\x02", "1 headers cannot fit in 0 bytes"),
        (b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f\x00\x00", "2147483647 headers cannot fit in 2"),
        (b"\x00\x00\x00\x01\x01\x02\x01\x00", "length -1 at byte"),
        (b"\x00\x00\x00\x01\x01\x02\x02a\x03", "length -2 at byte"),
        (b"\x00\x00\x00\x01\x01\x02\x02a\x08b", "length 4 at byte"),
        (b"\x00\x00\x00\x01\x01\x02\x08a\x00", "length 4 at byte"),
        (b"\x00\x00\x00\x01\x01\x02\x02\xff\x00", "not UTF-8: invalid start byte"),
        (b"\x00\x00\x00\x01\x01\x02\x04ab", "truncated"),
    ],
)
def test_a_malformed_record(body: bytes, problem: str) -> None:
    with pytest.raises(CorruptBatchError, match=problem):
        decode_records(batch_of(record_of(body)))
    # The bytes of the next batch do not complete it either.
    encoded = batch_of(record_of(body))
    with pytest.raises(CorruptBatchError):
        decode_records(encoded + b"\x00" * 100)
    with pytest.raises(CorruptBatchError):
        decode_records(encoded + batch_of(SIMPLE) * 2)


@pytest.mark.parametrize("first", [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x01\x01"])
def test_a_record_that_ends_too_early(first: bytes) -> None:
    second = record_of(b"\x00\x00\x02\x01\x20" + b"v" * 16 + b"\x00")
    with pytest.raises(CorruptBatchError, match=r"no varint|length|end at byte|headers cannot"):
        decode_records(batch_of(record_of(first) + second, record_count=2, last_offset_delta=1))


@pytest.mark.parametrize("length", [b"\x80\x01" + SIMPLE[1:], b"\x01" + SIMPLE[1:], b"\x80" * 20])
def test_a_record_longer_than_its_batch(length: bytes) -> None:
    for after in (b"", batch_of(SIMPLE)):
        with pytest.raises(CorruptBatchError, match=r"length -?[0-9]+ at byte 61|no varint"):
            decode_records(batch_of(length) + after)


@pytest.mark.parametrize("record_count", [-(1 << 31), -1, 2, 1000, (1 << 31) - 1])
def test_a_wrong_record_count(record_count: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"{record_count} records cannot fit in"):
        decode_records(batch_of(SIMPLE, record_count=record_count, last_offset_delta=5))


def test_one_record_more_than_there_is() -> None:
    long_record = record_of(b"\x00\x00\x00\x01\x20" + b"v" * 16 + b"\x00")
    for after in (b"", batch_of(SIMPLE)):
        with pytest.raises(CorruptBatchError, match=r"truncated|no varint|length"):
            decode_records(batch_of(long_record, record_count=2, last_offset_delta=5) + after)


@pytest.mark.parametrize("record_count", [0, 1])
def test_bytes_after_the_last_record(record_count: int) -> None:
    with pytest.raises(CorruptBatchError, match=r"bytes follow the last of its|0 records"):
        decode_records(batch_of(SIMPLE * 2, record_count=record_count))


@pytest.mark.parametrize("second", [0, 1])
def test_offsets_must_increase(second: int) -> None:
    first = record_of(b"\x00\x00\x02\x01\x01\x00")
    other = record_of(b"\x00\x00" + encode_varint(second) + b"\x01\x01\x00")
    with pytest.raises(CorruptBatchError, match=f"offset delta {second} comes after 1"):
        decode_records(batch_of(first + other, record_count=2, last_offset_delta=5))


@pytest.mark.parametrize(
    ("base_offset", "last_offset_delta"), [(-1, 0), (INT64_MAX, 1), (0, -1), (INT64_MIN, -1)]
)
def test_invalid_offsets(base_offset: int, last_offset_delta: int) -> None:
    encoded = batch_of(SIMPLE, base_offset=base_offset, last_offset_delta=last_offset_delta)
    with pytest.raises(CorruptBatchError, match=f"no batch can begin at offset {base_offset}"):
        decode_records(encoded)


def test_the_largest_offset() -> None:
    assert decode_records(batch_of(SIMPLE, base_offset=INT64_MAX))[0].offset == INT64_MAX


@pytest.mark.parametrize(
    ("base_timestamp", "delta", "timestamp"),
    [
        (INT64_MAX, 1, INT64_MIN),
        (INT64_MAX - 100, 200, INT64_MIN + 99),
        (INT64_MIN, -1, INT64_MAX),
        (1 << 60, INT64_MAX, INT64_MIN + (1 << 60) - 1),
        (-(1 << 60), INT64_MIN, INT64_MIN + 7 * (1 << 60) + (1 << 63)),
    ],
)
def test_timestamps_wrap_as_in_java(base_timestamp: int, delta: int, timestamp: int) -> None:
    records = record_of(b"\x00" + encode_varint(delta) + b"\x00\x01\x01\x00")
    (found,) = decode_records(batch_of(records, base_timestamp=base_timestamp))
    assert found.timestamp == timestamp


@pytest.mark.parametrize("base_timestamp", [INT64_MAX, INT64_MIN, INT64_MAX - 3])
def test_an_absurd_timestamp_is_still_a_timestamp(base_timestamp: int) -> None:
    records = record_of(b"\x00\x00\x00\x01\x01\x00")
    found = decode_records(batch_of(records, base_timestamp=base_timestamp))
    assert found[0].timestamp == base_timestamp


def test_the_crc_is_checked_when_asked_to() -> None:
    encoded = bytearray(batch_of(SIMPLE))
    assert decode_records(encoded, check_crc=True) == [Record(50, 1003, b"k", b"vv", ())]
    encoded[-2] ^= 1
    assert decode_records(encoded)[0].value == b"vw"
    with pytest.raises(CorruptBatchError, match="batch at offset 50: its CRC is not 0x"):
        decode_records(encoded, check_crc=True)


def test_a_batch_must_be_whole_and_of_format_2() -> None:
    encoded = bytearray(batch_of(SIMPLE))
    with pytest.raises(CorruptBatchError):
        decode_records(encoded[:-1])
    encoded[16] = 1
    with pytest.raises(UnsupportedMagicError):
        decode_records(encoded)


@EVERY_CODEC
def test_compressed_records_are_limited_in_size(codec: Compression) -> None:
    encoded = encode_batch([(None, b"v" * 10_000, [], 0)], compression=codec)
    size_bytes = len(encode_batch([(None, b"v" * 10_000, [], 0)])) - 61
    assert len(decode_records(encoded, size_bytes_max=size_bytes)) == 1
    if codec is not Compression.NONE:
        with pytest.raises(DecompressedSizeError):
            decode_records(encoded, size_bytes_max=size_bytes - 1)


def test_an_unknown_codec() -> None:
    encoded = bytearray(batch_of(SIMPLE))
    encoded[22] = 5
    with pytest.raises(CorruptBatchError, match="name compression 5"):
        decode_records(encoded)
