"""The five codecs, and hostile payloads."""

import gzip
import random
import struct
import tracemalloc

import cramjam
import lz4.frame  # type: ignore[import-untyped]  # it has no types
import pytest
import snappy  # type: ignore[import-untyped]  # it has no types
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    Compression,
    CorruptBatchError,
    DecompressedSizeError,
    DecompressionError,
    compress,
    decompress,
)
from minikafka.protocol.records.frame_bounds import lz4_size_bound, zstd_size_bound
from tests.protocol.records.strategies import COMPRESSIONS, compressions

EVERY_CODEC = pytest.mark.parametrize("codec", COMPRESSIONS, ids=lambda codec: codec.name)
REAL_CODECS = [codec for codec in COMPRESSIONS if codec is not Compression.NONE]
EVERY_REAL_CODEC = pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: codec.name)

TEXT = b"".join(b'{"number": %d, "square": %d}\n' % (n, n * n) for n in range(20_000))
NOISE = random.Random(2).randbytes(200_000)

contents = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda piece, times: piece * times, st.binary(max_size=20), st.integers(0, 20_000)),
)


@given(codec=compressions, content=contents)
def test_compressed_content_is_decompressed(codec: Compression, content: bytes) -> None:
    compressed = compress(codec, content)
    assert decompress(codec, compressed) == content
    assert decompress(codec, memoryview(compressed), size_bytes_max=len(content)) == content
    assert compress(codec, memoryview(content)) == compressed
    assert compress(codec, bytearray(content)) == compressed


@EVERY_CODEC
@pytest.mark.parametrize("content", [b"", b"x", TEXT, NOISE], ids=["empty", "x", "text", "noise"])
def test_large_and_small_contents_are_decompressed(codec: Compression, content: bytes) -> None:
    assert decompress(codec, compress(codec, content)) == content


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Compression.GZIP, 1),
        (Compression.GZIP, 9),
        (Compression.LZ4, 1),
        (Compression.LZ4, 17),
        (Compression.ZSTD, -131072),
        (Compression.ZSTD, 22),
    ],
)
def test_the_lowest_and_highest_levels_work(codec: Compression, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT[:5000], level)) == TEXT[:5000]


@pytest.mark.parametrize(
    ("codec", "low", "high"),
    [(Compression.GZIP, 1, 6), (Compression.LZ4, 1, 9), (Compression.ZSTD, -50, 3)],
)
def test_a_higher_level_is_smaller(codec: Compression, low: int, high: int) -> None:
    assert len(compress(codec, TEXT, high)) < len(compress(codec, TEXT, low))


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Compression.GZIP, 0),
        (Compression.GZIP, 10),
        (Compression.LZ4, 0),
        (Compression.LZ4, 18),
        (Compression.ZSTD, 23),
        (Compression.ZSTD, -131073),
    ],
)
def test_a_level_that_does_not_exist(codec: Compression, level: int) -> None:
    with pytest.raises(ValueError, match=f"{codec.name} level {level} is not within"):
        compress(codec, b"content", level)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_codecs_without_levels(codec: Compression) -> None:
    with pytest.raises(ValueError, match=f"{codec.name} has no levels; got level 3"):
        compress(codec, b"content", 3)


class TestOtherWriters:
    def test_consecutive_gzip_members(self) -> None:
        payload = gzip.compress(b"one, ") + gzip.compress(b"") + gzip.compress(b"two")
        assert decompress(Compression.GZIP, payload) == b"one, two"
        assert decompress(Compression.GZIP, payload, size_bytes_max=8) == b"one, two"
        with pytest.raises(DecompressedSizeError):
            decompress(Compression.GZIP, payload, size_bytes_max=7)

    def test_many_tiny_gzip_members(self) -> None:
        assert decompress(Compression.GZIP, gzip.compress(b"x") * 10_000) == b"x" * 10_000

    def test_a_bare_snappy_block(self) -> None:
        assert decompress(Compression.SNAPPY, snappy.compress(TEXT)) == TEXT
        assert decompress(Compression.SNAPPY, snappy.compress(b"")) == b""

    def test_consecutive_snappy_streams(self) -> None:
        payload = compress(Compression.SNAPPY, b"one, ") + compress(Compression.SNAPPY, b"two")
        assert decompress(Compression.SNAPPY, payload) == b"one, two"

    def test_a_snappy_head_with_little_endian_versions(self) -> None:
        block = snappy.compress(b"content")
        head = b"\x82SNAPPY\x00" + struct.pack("<ii", 1, 1)
        payload = head + struct.pack(">i", len(block)) + block
        assert decompress(Compression.SNAPPY, payload) == b"content"

    @pytest.mark.parametrize("block_linked", [False, True])
    @pytest.mark.parametrize("store_size", [False, True])
    @pytest.mark.parametrize("checksums", [False, True])
    @pytest.mark.parametrize(
        "block_size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB]
    )
    def test_lz4_frames_of_every_kind(
        self, *, block_linked: bool, store_size: bool, checksums: bool, block_size: int
    ) -> None:
        payload = lz4.frame.compress(
            TEXT + NOISE,
            block_linked=block_linked,
            store_size=store_size,
            content_checksum=checksums,
            block_checksum=checksums,
            block_size=block_size,
        )
        assert decompress(Compression.LZ4, payload) == TEXT + NOISE
        assert lz4_size_bound(payload) >= len(TEXT + NOISE)

    @pytest.mark.parametrize("has_content_size", [False, True])
    @pytest.mark.parametrize("has_checksum", [False, True])
    @pytest.mark.parametrize("content", [b"", TEXT[:200], TEXT + NOISE, b"\0" * 3_000_000])
    def test_zstd_frames_of_every_kind(
        self, *, has_content_size: bool, has_checksum: bool, content: bytes
    ) -> None:
        compressor = zstandard.ZstdCompressor(
            write_content_size=has_content_size, write_checksum=has_checksum
        )
        payload = compressor.compress(content)
        assert decompress(Compression.ZSTD, payload) == content
        assert zstd_size_bound(payload) >= len(content)

    @pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
    def test_consecutive_frames_and_skippable_ones(self, codec: Compression) -> None:
        skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
        payload = compress(codec, b"one, ") + skippable + compress(codec, b"two")
        assert decompress(codec, payload) == b"one, two"

    def test_java_can_read_the_lz4_frames_that_are_written(self) -> None:
        info = lz4.frame.get_frame_info(compress(Compression.LZ4, TEXT))
        assert not info["block_linked"]
        assert info["block_size_id"] == lz4.frame.BLOCKSIZE_MAX64KB

    def test_java_can_read_the_snappy_stream_that_is_written(self) -> None:
        payload = compress(Compression.SNAPPY, TEXT)
        assert payload[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
        block_size_bytes = int.from_bytes(payload[16:20])
        assert snappy.decompress(payload[20 : 20 + block_size_bytes]) == TEXT[: 32 * 1024]


class TestLimit:
    @EVERY_CODEC
    @given(content=contents)
    @example(content=TEXT)
    @example(content=NOISE)
    @example(content=b"\0" * 1_000_000)
    def test_the_limit_is_exact(self, codec: Compression, content: bytes) -> None:
        compressed = compress(codec, content)
        assert decompress(codec, compressed, size_bytes_max=len(content)) == content
        assert decompress(codec, compressed, size_bytes_max=len(content) + 1) == content
        if content:
            with pytest.raises(DecompressedSizeError, match="decompress to more than"):
                decompress(codec, compressed, size_bytes_max=len(content) - 1)

    @EVERY_REAL_CODEC
    @pytest.mark.parametrize("kind", ["zeros", "zeros without a size"])
    def test_a_bomb_does_not_allocate(self, codec: Compression, kind: str) -> None:
        limit = 1 << 20
        content = bytes(64 << 20)
        if codec is Compression.SNAPPY and kind == "zeros without a size":
            bomb = snappy.compress(content)
        elif codec is Compression.ZSTD and kind == "zeros without a size":
            bomb = zstandard.ZstdCompressor(write_content_size=False).compress(content)
        elif codec is Compression.ZSTD:
            bomb = zstandard.ZstdCompressor().compress(content)
        elif codec is Compression.LZ4:
            bomb = lz4.frame.compress(content, store_size=kind == "zeros")
        else:
            bomb = compress(codec, content)
        tracemalloc.start()
        try:
            with pytest.raises(DecompressedSizeError, match=f"the {limit} bytes allowed"):
                decompress(codec, bomb, size_bytes_max=limit)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < len(bomb) + 3 * limit

    def test_a_snappy_block_that_claims_more_than_it_can_hold(self) -> None:
        claim = b"\xff\xff\xff\x3f"  # 128 MiB - 1
        with pytest.raises(DecompressionError, match="cannot hold the 134217727 they claim"):
            decompress(Compression.SNAPPY, claim + b"\0" * 100)

    def test_a_snappy_stream_is_limited_as_a_whole(self) -> None:
        payload = compress(Compression.SNAPPY, bytes(100_000))
        with pytest.raises(DecompressedSizeError, match="more than the 99999 bytes allowed"):
            decompress(Compression.SNAPPY, payload, size_bytes_max=99_999)

    @pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
    def test_a_generous_bound_does_not_refuse_content_that_fits(self, codec: Compression) -> None:
        # Flushed after every few bytes, each block could hold 64 or 128 KiB.
        if codec is Compression.LZ4:
            compressor = lz4.frame.LZ4FrameCompressor(auto_flush=True)
            payload = compressor.begin()
            for _ in range(50):
                payload += compressor.compress(TEXT[:4000])
            payload += compressor.flush()
        else:
            stream = zstandard.ZstdCompressor().compressobj()
            payload = b""
            for _ in range(50):
                payload += stream.compress(TEXT[:4000])
                payload += stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            payload += stream.flush()
        size_bound = (lz4_size_bound if codec is Compression.LZ4 else zstd_size_bound)(payload)
        assert size_bound > 50 * 4000
        assert decompress(codec, payload, size_bytes_max=50 * 4000) == TEXT[:4000] * 50
        with pytest.raises(DecompressedSizeError):
            decompress(codec, payload, size_bytes_max=50 * 4000 - 1)


class TestDamage:
    @EVERY_REAL_CODEC
    def test_an_empty_payload(self, codec: Compression) -> None:
        with pytest.raises(DecompressionError):
            decompress(codec, b"")

    @EVERY_REAL_CODEC
    @pytest.mark.parametrize("content", [TEXT[:3000], NOISE[:3000]], ids=["text", "noise"])
    def test_every_truncation(self, codec: Compression, content: bytes) -> None:
        compressed = compress(codec, content)
        framing_ends = {16} if codec is Compression.SNAPPY else set[int]()
        for end in range(len(compressed)):
            if end not in framing_ends:
                with pytest.raises(DecompressionError):
                    decompress(codec, compressed[:end])
        if codec is Compression.SNAPPY:
            assert decompress(codec, compressed[:16]) == b""

    @EVERY_REAL_CODEC
    def test_bytes_after_the_end(self, codec: Compression) -> None:
        for suffix in (b"\0", b"trailing garbage"):
            with pytest.raises(DecompressionError):
                decompress(codec, compress(codec, TEXT[:3000]) + suffix)

    @EVERY_REAL_CODEC
    @given(data=st.data())
    def test_changed_bytes_decompress_or_are_corrupt(
        self, codec: Compression, data: st.DataObject
    ) -> None:
        damaged = bytearray(compress(codec, TEXT[:2000]))
        for _ in range(data.draw(st.integers(1, 4))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        try:
            content = decompress(codec, damaged, size_bytes_max=10_000)
        except CorruptBatchError:
            return
        assert len(content) <= 10_000

    @EVERY_REAL_CODEC
    @given(payload=st.binary(max_size=100))
    def test_any_bytes_decompress_or_are_corrupt(self, codec: Compression, payload: bytes) -> None:
        try:
            content = decompress(codec, payload, size_bytes_max=1000)
        except CorruptBatchError:
            return
        assert len(content) <= 1000

    @pytest.mark.parametrize("size", [-1, -(1 << 31), 0x7FFFFFFF, 8])
    def test_a_snappy_block_of_an_invalid_size(self, size: int) -> None:
        payload = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + struct.pack(">i", size) + b"\x05\x10hello"
        with pytest.raises(DecompressionError, match=f"a block of {size} bytes at byte 20"):
            decompress(Compression.SNAPPY, payload)

    def test_damage_past_the_limit_is_damage(self) -> None:
        payload = bytearray(cramjam.zstd.compress(TEXT))
        payload[5000:5100] = bytes(100)
        assert zstd_size_bound(compress(Compression.ZSTD, TEXT)) > len(TEXT)
        with pytest.raises(DecompressionError):
            decompress(Compression.ZSTD, payload, size_bytes_max=len(TEXT))


class TestFrameBounds:
    @pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
    def test_the_bound_is_at_most_a_block_too_large(self, codec: Compression) -> None:
        bound = lz4_size_bound if codec is Compression.LZ4 else zstd_size_bound
        for content in (b"", b"x", TEXT, NOISE):
            assert len(content) <= bound(compress(codec, content)) <= len(content) + 128 * 1024

    @pytest.mark.parametrize(
        ("payload", "problem"),
        [
            (b"\x04\x22\x4d\x18\x60\x30\x00", "block size code 3"),
            (b"\x04\x22\x4d\x18\x60\xf0", "goes on after the 6 bytes"),
            (b"\x04\x22\x4d\x18\x60\xf0\x00\x05\0\0\0", "goes on after the 11 bytes"),
            (b"\x04\x22", "goes on after the 2 bytes"),
            (b"\x50\x2a\x4d\x18\x05\0\0\0abcd", "goes on after the 12 bytes"),
            (b"\x50\x2a\x4d\x18\x05", "goes on after the 5 bytes"),
            (b"\x28\xb5\x2f\xfd\x60\x40", "no frame begins at byte 0, found magic 0xfd2fb528"),
        ],
    )
    def test_malformed_lz4_frames(self, payload: bytes, problem: str) -> None:
        with pytest.raises(DecompressionError, match=problem):
            lz4_size_bound(payload)

    @pytest.mark.parametrize(
        ("payload", "problem"),
        [
            (b"\x28\xb5\x2f\xfd", "goes on after the 4 bytes"),
            (b"\x28\xb5\x2f\xfd\x20\x00\x01\x00", "goes on after the 8 bytes"),
            (b"\x28\xb5\x2f\xfd\x20\x00\x07\x00\x00", "reserved block type 3 at byte 6"),
            (b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00\x11", "goes on after the 10 bytes"),
            (b"\x28\xb5", "goes on after the 2 bytes"),
            (b"\x50\x2a\x4d\x18\x05\0\0\0abcd", "goes on after the 12 bytes"),
            (b"\x04\x22\x4d\x18\x60\x40", "no frame begins at byte 0, found magic 0x184d2204"),
        ],
    )
    def test_malformed_zstd_frames(self, payload: bytes, problem: str) -> None:
        with pytest.raises(DecompressionError, match=problem):
            zstd_size_bound(payload)

    @pytest.mark.parametrize(
        ("header", "size_bytes"),
        [
            (b"\x20\x05", 5),  # content size in one byte
            (b"\x60\x05\x00", 5),  # in two
            (b"\xa0\x05\x00\x00\x00", 5),  # in four
            (b"\xe0\x05\x00\x00\x00\x00\x00\x00\x00", 5),  # in eight
            (b"\x00\x58", 5),  # a window and no content size
            (b"\x23\x01\x02\x03\x04\x05", 5),  # a dictionary id of four bytes
        ],
    )
    def test_zstd_frame_headers_of_every_size(self, header: bytes, size_bytes: int) -> None:
        raw_block = (1 | size_bytes << 3).to_bytes(3, "little") + b"hello"
        assert zstd_size_bound(b"\x28\xb5\x2f\xfd" + header + raw_block) == size_bytes

    def test_a_repeated_byte_counts_as_often_as_it_repeats(self) -> None:
        block = (1 | 1 << 1 | 70_000 << 3).to_bytes(3, "little") + b"x"
        assert zstd_size_bound(b"\x28\xb5\x2f\xfd\x00\x58" + block) == 70_000
