"""Finding records by timestamp, against a list; records that make no sense, damaged batches."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.crc import crc32c
from minikafka.protocol.records.assembly import assemble_batch
from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.compression import Compression
from minikafka.storage.scan import DamagedSegment
from minikafka.storage.segment import TimestampOffset
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of

Batches = list[list[int]]
batches_of_timestamps = st.lists(
    st.lists(st.integers(0, 40), min_size=1, max_size=5), min_size=1, max_size=20
)


def append_timestamps(
    under_test: LogUnderTest, timestamps: list[int], compression: Compression = Compression.NONE
) -> None:
    batch = encode_batch(
        [(b"key", b"value", (), timestamp) for timestamp in timestamps], compression=compression
    )
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)


@given(
    batches=batches_of_timestamps,
    compression=st.sampled_from((Compression.NONE, Compression.GZIP)),
    segment_bytes=st.sampled_from((300, 10_000)),
    restart=st.booleans(),
    start=st.integers(0, 20),
)
def test_against_a_list(
    batches: Batches, compression: Compression, segment_bytes: int, restart: bool, start: int
) -> None:
    under_test = LogUnderTest(segment_bytes=segment_bytes, index_interval_bytes=1)
    timestamps: list[int] = []
    for batch in batches:
        append_timestamps(under_test, batch, compression)
        timestamps += batch
    under_test.log.high_watermark = len(timestamps)
    start = under_test.log.advance_log_start_offset(min(start, len(timestamps)))
    if restart:
        under_test.restart()
    for timestamp in range(42):
        expected = next(
            (
                TimestampOffset(timestamps[offset], offset, 0)
                for offset in range(start, len(timestamps))
                if timestamps[offset] >= timestamp
            ),
            None,
        )
        assert under_test.log.offset_for_timestamp(timestamp) == expected
    found = under_test.log.max_timestamp()
    left = timestamps[start:]
    if left:
        assert found == TimestampOffset(max(left), start + left.index(max(left)), 0)
    else:
        assert found is None


def test_an_empty_log_has_none() -> None:
    under_test = LogUnderTest()
    assert under_test.log.offset_for_timestamp(0) is None
    assert under_test.log.max_timestamp() is None


def test_a_log_that_begins_after_the_last_batch_of_a_segment() -> None:
    under_test = LogUnderTest(segment_bytes=100)
    for offset in (0, 10):
        batch = batch_of("a" * 20, base_offset=offset, leader_epoch=0, timestamp=NOW_MS - offset)
        under_test.log.append_as_follower(batch, now_ms=NOW_MS)
    under_test.log.high_watermark = 11
    under_test.log.advance_log_start_offset(5)
    assert under_test.log.max_timestamp() == TimestampOffset(NOW_MS - 10, 10, 0)


def test_nonsense_in_the_batch_where_the_log_begins() -> None:
    under_test = LogUnderTest()
    batch = bytearray(batch_of("abc", "def"))
    batch[61:65] = b"\xff\xff\xff\xff"
    batch[17:21] = crc32c(batch, 21).to_bytes(4, "big")
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, from_client=False)
    under_test.log.high_watermark = 2
    under_test.log.advance_log_start_offset(1)
    assert under_test.log.max_timestamp() == TimestampOffset(NOW_MS, 1, 0)


def test_records_without_timestamps_are_never_found() -> None:
    under_test = LogUnderTest()
    append_timestamps(under_test, [-1, -1])
    assert under_test.log.offset_for_timestamp(0) is None
    assert under_test.log.max_timestamp() is None


def test_log_append_time_needs_no_decoding() -> None:
    under_test = LogUnderTest(message_timestamp_type="LogAppendTime")
    append_timestamps(under_test, [1, 2, 3])
    assert under_test.log.offset_for_timestamp(NOW_MS) == TimestampOffset(NOW_MS, 0, 0)
    under_test.log.high_watermark = 3
    under_test.log.advance_log_start_offset(1)
    assert under_test.log.offset_for_timestamp(NOW_MS) == TimestampOffset(NOW_MS, 1, 0)
    assert under_test.log.max_timestamp() == TimestampOffset(NOW_MS, 1, 0)


def test_the_epoch_is_that_of_the_batch() -> None:
    under_test = LogUnderTest()
    under_test.append("a", leader_epoch=2)
    under_test.append("b", leader_epoch=7, timestamp=NOW_MS + 5)
    assert under_test.log.offset_for_timestamp(NOW_MS + 1) == TimestampOffset(NOW_MS + 5, 1, 7)


def senseless_batch() -> bytes:
    """Whole and with the right CRC, but its producer sent nonsense as its one record."""
    return bytes(
        assemble_batch(
            b"\xff" * 40,
            record_count=1,
            last_offset_delta=0,
            base_timestamp=NOW_MS + 5,
            max_timestamp=NOW_MS + 5,
        )
    )


def log_with_a_senseless_batch() -> LogUnderTest:
    under_test = LogUnderTest()
    under_test.append("before")
    log = under_test.log
    log.append_as_leader(senseless_batch(), leader_epoch=0, now_ms=NOW_MS, from_client=False)
    under_test.append("after", timestamp=NOW_MS + 9)
    return under_test


def test_for_records_that_cannot_be_decoded_the_header_counts() -> None:
    log = log_with_a_senseless_batch().log
    assert log.offset_for_timestamp(NOW_MS + 3) == TimestampOffset(NOW_MS + 5, 1, 0)
    assert log.offset_for_timestamp(NOW_MS + 6) == TimestampOffset(NOW_MS + 9, 2, 0)
    assert log.is_offline is None


def test_a_damaged_batch_takes_the_log_offline(caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_with_a_senseless_batch()
    log = under_test.restart()
    caplog.set_level(logging.CRITICAL)
    path = under_test.path("00000000000000000000.log")
    under_test.disk.flip_bit(path, (under_test.disk.file_size(path) - 1) * 8)
    with pytest.raises(DamagedSegment, match="wrong CRC"):
        log.offset_for_timestamp(NOW_MS + 9)
    assert log.is_offline is not None
    assert under_test.kill().log_end_offset == 2
