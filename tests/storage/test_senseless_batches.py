"""Batches with a correct CRC whose records make no sense: the producer's doing, not the disk's."""

import logging

import pytest

from minikafka.protocol.records.assembly import assemble_batch
from minikafka.storage.results import TimestampOffset
from minikafka.storage.scan import DamagedSegment
from tests.storage.batches import NOW_MS, LogUnderTest


def senseless_batch() -> bytes:
    """Whole and with the right CRC, but its one record is none."""
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
    under_test.log.append_as_leader(senseless_batch(), leader_epoch=0, now_ms=NOW_MS)
    under_test.append("after", timestamp=NOW_MS + 9)
    return under_test


def test_a_search_by_timestamp_answers_with_what_its_header_says() -> None:
    log = log_with_a_senseless_batch().log
    assert log.offset_for_timestamp(NOW_MS + 3) == TimestampOffset(NOW_MS + 5, 1, 0)
    assert log.offset_for_timestamp(NOW_MS + 6) == TimestampOffset(NOW_MS + 9, 2, 0)
    assert log.is_offline is None


def test_damage_on_the_disk_is_still_told_from_it(caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_with_a_senseless_batch()
    log = under_test.restart()
    caplog.set_level(logging.CRITICAL)
    path = under_test.path("00000000000000000000.log")
    under_test.disk.flip_bit(path, (under_test.disk.file_size(path) - 1) * 8)
    with pytest.raises(DamagedSegment, match="wrong CRC"):
        log.offset_for_timestamp(NOW_MS + 9)
    assert log.is_offline is not None
    assert under_test.kill().log_end_offset == 2
