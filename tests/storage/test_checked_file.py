"""Checked files: every flipped bit and every torn byte is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.crc import crc32c
from minikafka.storage.checked_file import DamagedFile, decode_checked, encode_checked

CONTENT = encode_checked("kind", ["text", 7, b"bytes", None, [1, 2], {"a": True}])


def test_decoding_returns_what_was_encoded() -> None:
    value = decode_checked("kind", CONTENT, path="file")
    assert value == ["text", 7, b"bytes", None, [1, 2], {"a": True}]


@pytest.mark.parametrize("size_bytes", range(len(CONTENT)))
def test_a_torn_file_is_damaged(size_bytes: int) -> None:
    with pytest.raises(DamagedFile, match="file: "):
        decode_checked("kind", CONTENT[:size_bytes], path="file")


@given(st.integers(0, len(CONTENT) * 8 - 1))
def test_a_flipped_bit_is_noticed(bit: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedFile, match="file: the CRC"):
        decode_checked("kind", bytes(damaged), path="file")


def test_another_kind_is_refused() -> None:
    with pytest.raises(DamagedFile, match="its kind is not other"):
        decode_checked("other", CONTENT, path="file")


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x01\x02", b"\x92\xa4kind"])
def test_a_correct_crc_over_something_else(body: bytes) -> None:
    with pytest.raises(DamagedFile, match="not the content of a kind file"):
        decode_checked("kind", crc32c(body).to_bytes(4, "big") + body, path="file")


@given(st.binary(max_size=100))
def test_anything_else_is_damaged(content: bytes) -> None:
    with pytest.raises(DamagedFile):
        decode_checked("kind", content, path="file")
