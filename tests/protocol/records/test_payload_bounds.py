"""What a batch's header may claim about its payload: true claims pass, and lies do not."""

from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.crc import crc32c
from minikafka.protocol.records.assembly import assemble_batch
from minikafka.protocol.records.batch import parse_batch_header
from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.compression import (
    DECOMPRESSED_SIZE_BYTES_MAX,
    Compression,
    decompress,
)
from minikafka.protocol.records.errors import CorruptBatchError, DecompressionError
from minikafka.protocol.records.payload_bounds import check_payload
from minikafka.protocol.records.record import RECORD_SIZE_BYTES_MIN, decode_records
from tests.protocol.records.strategies import RecordInput, compressions, record_lists

RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"  # the smallest there is


def check(batch: bytes | bytearray) -> None:
    check_payload(memoryview(b"before" + batch), 6, parse_batch_header(batch, 0))


def claiming(payload: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    """A batch with a payload that no encoder looked at."""
    batch = assemble_batch(
        payload,
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
    )
    batch[22] |= codec
    batch[17:21] = crc32c(batch, 21).to_bytes(4, "big")
    return bytes(batch)


@given(record_lists, compressions)
def test_whatever_the_encoder_makes_passes(records: list[RecordInput], codec: Compression) -> None:
    check(encode_batch(records, compression=codec))


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("count", [1, 2, 100_000])
def test_the_smallest_records_pass_in_every_codec(codec: Compression, count: int) -> None:
    check(encode_batch([(None, None, (), 0)] * count, compression=codec))


@pytest.mark.parametrize("size_bytes", [0, 64, 8191, 8192, 3_000_000])
def test_lengths_of_every_size_pass(size_bytes: int) -> None:
    check(encode_batch([(b"k", bytes(size_bytes), (), 0)]))


@given(st.binary(min_size=1, max_size=60), st.integers(1, 3))
def test_what_is_refused_cannot_be_decoded(payload: bytes, count: int) -> None:
    batch = claiming(payload, count)
    try:
        check(batch)
    except CorruptBatchError:
        try:
            decoded = decode_records(batch)
        except CorruptBatchError:
            return
        assert decoded[0].offset != 0


@pytest.mark.parametrize(
    ("payload", "count", "why"),
    [
        (RECORD, 2**31 - 1, "2147483647 records cannot fit in 7 bytes"),
        (RECORD * 2 + b"1" * 6, 3, "3 records cannot fit in 20 bytes"),
        (b"\x00" * 40, 1, "claims 0 of 40"),
        (b"\xff" * 40, 1, "no varint"),
        (b"\x0c\x00\xff\xff\xff\xff\xff", 1, "ends inside its fields"),
        (RECORD + b"x", 1, "claims 6 of 8 bytes"),
        (b"\x10" + RECORD + RECORD[:-1], 2, "claims 8 of 14 bytes, and those after it need 7"),
        (b"\x0c\x00\x00\x02\x01\x01\x00", 1, "the offset delta 1, not 0"),
    ],
)
def test_uncompressed_lies(payload: bytes, count: int, why: str) -> None:
    with pytest.raises(CorruptBatchError, match=why):
        check(claiming(payload, count))


@pytest.mark.parametrize("codec", [one for one in Compression if one is not Compression.NONE])
def test_a_codec_that_the_payload_is_not_in(codec: Compression) -> None:
    for payload in (b"\xff" * 100, b"\x82SNAPPY\x00" + bytes(92), b"\x40\x01" * 20):
        with pytest.raises(CorruptBatchError, match=f"compressed with {codec.name} begin with"):
            check(claiming(payload, 1, codec))


def gzip(size_bytes: int) -> bytes:
    return bytes(cramjam.gzip.compress(bytes(size_bytes)))


def snappy_block(size_bytes: int) -> bytes:
    return bytes(cramjam.snappy.compress_raw(bytes(size_bytes)))


def snappy(size_bytes: int) -> bytes:
    block = snappy_block(size_bytes)
    head = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    return head + len(block).to_bytes(4, "big") + block


def lz4(size_bytes: int) -> bytes:
    return bytes(cramjam.lz4.compress(bytes(size_bytes)))


def zstd(size_bytes: int) -> bytes:
    return bytes(cramjam.zstd.compress(bytes(size_bytes)))


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (Compression.GZIP, gzip),
        (Compression.SNAPPY, snappy),
        (Compression.SNAPPY, snappy_block),
        (Compression.LZ4, lz4),
        (Compression.ZSTD, zstd),
    ],
)
def test_a_compressed_payload_has_at_most_the_records_that_it_can_hold(
    codec: Compression, compress: Callable[[int], bytes]
) -> None:
    """Nothing compresses better than zeros, and even those are within the bound."""
    payload = compress(RECORD_SIZE_BYTES_MIN * 50_000)
    check(claiming(payload, 50_000, codec))
    most = DECOMPRESSED_SIZE_BYTES_MAX // RECORD_SIZE_BYTES_MIN
    for count in (most + 1, 2**31 - 1):
        with pytest.raises(CorruptBatchError, match=f"cannot fit in .*: {codec.name}"):
            check(claiming(payload, count, codec))


def test_a_bare_snappy_block_says_what_it_can_hold() -> None:
    payload = snappy_block(RECORD_SIZE_BYTES_MIN * 1000)
    with pytest.raises(CorruptBatchError, match="1001 records cannot fit"):
        check(claiming(payload, 1001, Compression.SNAPPY))
    for claim in (b"\xff" * 4 + b"\x0f", b"\xff" * 6):
        with pytest.raises(CorruptBatchError, match="SNAPPY does not"):
            check(claiming(claim + bytes(20), 1, Compression.SNAPPY))


@pytest.mark.parametrize("version", [1, 1 << 24, 0, -1])
def test_as_in_java_snappy_streams_have_versions_from_one_on(version: int) -> None:
    """Its readers refuse others, so they must not be stored; some write 1 little-endian."""
    payload = snappy(RECORD_SIZE_BYTES_MIN)
    payload = payload[:8] + version.to_bytes(4, "big", signed=True) + payload[12:]
    batch = claiming(payload, 1, Compression.SNAPPY)
    if version >= 1:
        check(batch)
        assert len(decompress(Compression.SNAPPY, payload)) == RECORD_SIZE_BYTES_MIN
        return
    with pytest.raises(CorruptBatchError, match="compressed with SNAPPY begin with"):
        check(batch)
    with pytest.raises(DecompressionError, match="version"):
        decompress(Compression.SNAPPY, payload)
