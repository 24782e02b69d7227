"""CRC-32C over every kind of buffer."""

import random

import google_crc32c
import pytest

from minikafka.protocol.crc import crc32c, extend_crc32c

CHECK_VALUE = 0xE3069283  # of b"123456789", from the catalogue of CRC algorithms
BUFFERS = pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
Buffer = bytes | bytearray | memoryview


@BUFFERS
def test_the_check_value(buffer_type: type[bytes]) -> None:
    assert crc32c(buffer_type(b"123456789")) == CHECK_VALUE
    assert crc32c(buffer_type(b"??123456789??"), 2, 11) == CHECK_VALUE


def test_the_crc_of_no_bytes_is_zero() -> None:
    assert crc32c(b"") == 0
    assert extend_crc32c(CHECK_VALUE, b"") == CHECK_VALUE


@BUFFERS
def test_extending_continues_a_crc(buffer_type: type[bytes]) -> None:
    start = crc32c(b"1234")
    assert extend_crc32c(start, buffer_type(b"56789")) == CHECK_VALUE
    assert extend_crc32c(start, buffer_type(b"?56789?"), 1, 6) == CHECK_VALUE


@BUFFERS
def test_a_large_buffer_is_checked_in_pieces(buffer_type: type[bytes]) -> None:
    large = random.Random(1).randbytes(1_000_003)
    assert crc32c(buffer_type(large), 1) == google_crc32c.value(large[1:])
    assert extend_crc32c(7, buffer_type(large)) == google_crc32c.extend(7, large)
