from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minikafka.protocol import encoder, flexible
from minikafka.protocol.exceptions import MalformedMessageError
from tests.protocol.plain_writer import varint

LARGEST = 2**32 - 1


@given(st.integers(0, LARGEST), st.binary(max_size=3))
@example(127, b"")
@example(128, b"")
@example(2**14 - 1, b"")
@example(2**14, b"")
@example(2**21, b"")
@example(2**28, b"")
@example(LARGEST, b"")
def test_a_number_is_read_back_between_other_bytes(number: int, around: bytes) -> None:
    written = flexible.unsigned_varint(number)
    assert written == varint(number)
    frame = memoryview(around + written + around)
    assert flexible.read_unsigned_varint(frame, len(around)) == (number, len(around) + len(written))


def test_the_table_holds_every_number_of_two_bytes() -> None:
    assert list(encoder.SHORT_VARINTS) == [varint(number) for number in range(2**14)]


@pytest.mark.parametrize("number", [-1, LARGEST + 1])
def test_a_number_outside_32_bits_is_not_written(number: int) -> None:
    with pytest.raises(OverflowError, match=str(number)):
        flexible.unsigned_varint(number)


@given(st.integers(0, LARGEST))
def test_a_truncated_number_is_noticed(number: int) -> None:
    written = varint(number)
    with pytest.raises(IndexError):
        flexible.read_unsigned_varint(memoryview(written[:-1]), 0)


def test_a_number_longer_than_five_bytes_is_malformed() -> None:
    with pytest.raises(MalformedMessageError, match="longer than 5 bytes"):
        flexible.read_unsigned_varint(memoryview(b"\x80\x80\x80\x80\x80\x00"), 0)


def test_a_number_of_five_bytes_past_32_bits_is_malformed() -> None:
    assert flexible.read_unsigned_varint(memoryview(b"\xff\xff\xff\xff\x0f"), 0) == (LARGEST, 5)
    with pytest.raises(MalformedMessageError, match="larger than 32 bits"):
        flexible.read_unsigned_varint(memoryview(b"\xff\xff\xff\xff\x10"), 0)


def test_padding_zeros_do_not_change_a_number() -> None:
    assert flexible.read_unsigned_varint(memoryview(b"\x81\x80\x00"), 0) == (1, 3)


def test_a_string_is_at_most_as_long_as_kafka_allows() -> None:
    assert flexible.read_string_size(memoryview(varint(32_768)), 0, "name") == (32_768, 3)
    with pytest.raises(MalformedMessageError, match="name announces 32768 bytes of text"):
        flexible.read_string_size(memoryview(varint(32_769)), 0, "name")


def test_unknown_tags_are_skipped() -> None:
    tags = b"\x02" + b"\x05\x00" + b"\x80\x01\x03abc"
    assert (
        flexible.skip_tagged_fields(memoryview(b"." + tags + b"rest"), 1, len(tags) + 5, "x") == 10
    )


def test_more_tags_than_bytes_are_refused() -> None:
    with pytest.raises(MalformedMessageError, match="x tags announces 2, but only 3 bytes remain"):
        flexible.skip_tagged_fields(memoryview(b"\x02\x01\x00\x01\x00"), 0, 4, "x")


def test_a_tag_that_reaches_past_the_end_is_refused() -> None:
    with pytest.raises(MalformedMessageError, match="x tag 1 announces 3, but only 2 bytes remain"):
        flexible.skip_tagged_fields(memoryview(b"\x01\x01\x03ab"), 0, 5, "x")


def test_the_remaining_bytes_are_never_reported_as_negative() -> None:
    with pytest.raises(MalformedMessageError, match="only 0 bytes remain"):
        flexible.announces_too_much("x", 3, -2)
