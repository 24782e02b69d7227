"""Damaged logs are repaired before their replica leads."""

import logging

import pytest

from minikafka.broker.replicas.partition import settle_losses
from tests.storage.batches import NOW_MS, LogUnderTest, value_at, values_by_offset


def damaged_log() -> LogUnderTest:
    under_test = LogUnderTest()
    under_test.append_many(9)
    path = under_test.path("00000000000000000000.log")
    size_bytes = under_test.disk.file_size(path) // 9
    under_test.disk.flip_bit(path, (size_bytes * 4 + 70) * 8)
    under_test.kill(high_watermark=7)
    return under_test


def test_the_only_replica_keeps_intact_records(caplog: pytest.LogCaptureFixture) -> None:
    under_test = damaged_log()
    caplog.clear()
    settle_losses(under_test.log, replica_count=1, leader_epoch=1, now_ms=NOW_MS)
    kept = {offset: value_at(offset) for offset in range(9) if offset != 4}
    assert values_by_offset(under_test.log) == kept
    assert caplog.text == ""
    assert under_test.kill().quarantined == ()


def test_one_of_several_truncates_and_skips_what_was_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    under_test = damaged_log()
    caplog.clear()
    caplog.set_level(logging.ERROR)
    settle_losses(under_test.log, replica_count=3, leader_epoch=1, now_ms=NOW_MS)
    log = under_test.log
    assert values_by_offset(log) == {offset: value_at(offset) for offset in range(4)}
    assert log.log_end_offset == 7
    assert "damaged at offset 4, truncating there" in caplog.text
    assert "the last 3 offsets are lost and stay empty" in caplog.text
