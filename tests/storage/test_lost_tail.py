"""A log that lost its end: offsets that may have been read are not assigned again."""

import pytest

from minikafka.storage import log as log_module
from minikafka.storage.log import Log
from minikafka.storage.repair import QuarantinedRange
from tests.storage.batches import NOW_MS, LogUnderTest, values_by_offset


def log_without_its_end(kept: int, *, high_watermark: int = 10, **settings: int) -> LogUnderTest:
    under_test = LogUnderTest(**settings)
    under_test.append_many(10)
    (path,) = under_test.disk.paths(".log")
    size_bytes = under_test.disk.file_size(path)
    under_test.disk.open(path).truncate(size_bytes * kept // 10 + 3)
    under_test.kill(high_watermark=high_watermark)
    return under_test


def skip(log: Log) -> int:
    return log.skip_lost(leader_epoch=0, now_ms=NOW_MS)


@pytest.mark.parametrize("kept", [0, 4, 9])
def test_lost_offsets_stay_empty(kept: int) -> None:
    under_test = log_without_its_end(kept)
    assert skip(under_test.log) == 10 - kept
    assert under_test.append("new") == 10
    for reopen in (under_test.kill, under_test.restart):
        log = reopen()
        found = values_by_offset(log)
        assert found == {**{offset: f"v{offset:06d}" for offset in range(kept)}, 10: "new"}
        assert log.log_end_offset == 11
    assert QuarantinedRange(kept, 10) not in under_test.log.quarantined


def test_lost_offsets_are_reported_while_the_log_is_open() -> None:
    under_test = log_without_its_end(4)
    skip(under_test.log)
    assert under_test.log.quarantined == (QuarantinedRange(4, 10),)


def test_a_whole_log_skips_nothing() -> None:
    under_test = LogUnderTest()
    under_test.append_many(10)
    for high_watermark in (0, 5, 10):
        assert skip(under_test.kill(high_watermark=high_watermark)) == 0
    assert under_test.log.log_end_offset == 10
    assert under_test.log.quarantined == ()


def test_more_offsets_than_one_batch_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    under_test = log_without_its_end(0)
    monkeypatch.setattr(log_module, "RELATIVE_OFFSET_MAX", 4)
    assert skip(under_test.log) == 10
    assert under_test.append("new") == 10
    assert values_by_offset(under_test.kill()) == {10: "new"}
