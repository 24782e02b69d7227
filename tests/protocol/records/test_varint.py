"""Zigzag varints: the tables of the hot loops and the slow functions."""

import pytest
from aiokafka.record.util import decode_varint, encode_varint_py
from hypothesis import example, given
from hypothesis import strategies as st

from minikafka.protocol.records import varint
from minikafka.protocol.records.errors import CorruptBatchError

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

int64s = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(-20_000, 20_000),
    st.sampled_from([INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX]),
)


def encoded_by_aiokafka(value: int) -> bytes:
    encoded = bytearray()
    encode_varint_py(value, encoded.append)
    return bytes(encoded)


@given(int64s)
@example(8191)
@example(8192)
@example(-1)
def test_encodes_as_aiokafka_does_and_reads_it_back(value: int) -> None:
    encoded = varint.encode_varint(value)
    assert encoded == encoded_by_aiokafka(value)
    assert decode_varint(memoryview(encoded), 0) == (value, len(encoded))
    assert varint.read_varlong(b"?" + encoded + b"?", 1, len(encoded) + 2) == (
        value,
        len(encoded) + 1,
    )


@given(st.integers(INT32_MIN, INT32_MAX))
def test_a_32_bit_varint_is_read_back(value: int) -> None:
    encoded = varint.encode_varint(value)
    assert varint.read_varint(encoded + b"?", 0, len(encoded)) == (value, len(encoded))


@pytest.mark.parametrize("value", [INT64_MIN - 1, INT64_MAX + 1])
def test_more_than_64_bits_are_not_encoded(value: int) -> None:
    with pytest.raises(ValueError, match=f"{value} does not fit"):
        varint.encode_varint(value)


def test_every_length_in_the_tables() -> None:
    assert len(varint.ENCODED_LENGTHS) == varint.ENCODED_LENGTHS_COUNT
    for length, encoded in enumerate(varint.ENCODED_LENGTHS):
        assert encoded == encoded_by_aiokafka(length)
        if len(encoded) == 1:
            assert varint.ONE_BYTE_LENGTH[encoded[0]] == length
        else:
            assert varint.FIRST_OF_TWO[encoded[0]] + varint.SECOND_OF_TWO[encoded[1]] == length


def test_entries_that_are_not_lengths_exceed_any_buffer() -> None:
    for byte in range(256):
        is_negative, has_more = byte & 1, byte & 0x80
        assert (varint.ONE_BYTE_LENGTH[byte] >= varint.NOT_A_LENGTH) == bool(
            is_negative or has_more
        )
        assert (varint.FIRST_OF_TWO[byte] >= varint.NOT_A_LENGTH) == bool(
            is_negative or not has_more
        )
        assert (varint.SECOND_OF_TWO[byte] >= varint.NOT_A_LENGTH) == bool(has_more)


def test_every_signed_integer_in_the_table() -> None:
    for byte, value in enumerate(varint.ONE_BYTE_SIGNED):
        assert encoded_by_aiokafka(value) == bytes((byte,))


@pytest.mark.parametrize(
    "encoded",
    [b"", b"\x80", b"\xff" * 4, b"\xff" * 5 + b"\x01", b"\xff\xff\xff\xff\x1f"],
    ids=["nothing", "truncated", "truncated later", "six bytes", "33 bits"],
)
def test_a_malformed_varint_is_corrupt(encoded: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="no varint of at most 32 bits at byte 0"):
        varint.read_varint(encoded, 0, len(encoded))


@pytest.mark.parametrize(
    "encoded",
    [b"", b"\xff" * 9, b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x03"],
    ids=["nothing", "truncated", "eleven bytes", "65 bits"],
)
def test_a_malformed_varlong_is_corrupt(encoded: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="no varint of at most 64 bits at byte 0"):
        varint.read_varlong(encoded, 0, len(encoded))


def test_a_varint_may_not_go_past_the_end_of_its_record() -> None:
    with pytest.raises(CorruptBatchError):
        varint.read_varint(b"\x80\x01", 0, 1)


def test_an_extent_is_the_range_of_the_bytes() -> None:
    assert varint.read_extent(b"?\x04ab?", 1, 4) == (2, 4)
    assert varint.read_extent(b"\x84\x00ab", 0, 4) == (2, 4)  # padded
    assert varint.read_extent(b"\x00", 0, 1) == (1, 1)


@pytest.mark.parametrize("encoded", [b"\x06ab", b"\x01", b"\x81\x00ab"])
def test_an_extent_is_neither_negative_nor_past_the_end(encoded: bytes) -> None:
    with pytest.raises(CorruptBatchError, match=r"length -?[0-9]+ at byte 0"):
        varint.read_extent(encoded, 0, len(encoded))
