"""Truncation of the end of a log, or all of it; nothing of that ever reappears."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.errors import OutOfOrderSequence, StorageError
from minikafka.storage.leader_epochs import EpochEndOffset
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, value_at, values_by_offset


def log_of(count: int, **settings: int) -> LogUnderTest:
    under_test = LogUnderTest(**settings)
    under_test.append_many(count)
    under_test.log.high_watermark = count
    return under_test


@given(
    count=st.integers(0, 30),
    offset=st.integers(0, 35),
    segment_bytes=st.sampled_from((100, 300, 10_000)),
    closed=st.booleans(),
)
def test_records_below_the_cut_stay(
    count: int, offset: int, segment_bytes: int, closed: bool
) -> None:
    under_test = log_of(count, segment_bytes=segment_bytes, index_interval_bytes=80)
    if closed:
        under_test.restart()
    end = min(count, offset)
    assert under_test.log.truncate_to(offset) == end
    log = under_test.log
    assert log.log_end_offset == end
    assert log.high_watermark <= end
    assert log.recovery_point <= end
    assert values_by_offset(log) == {i: value_at(i) for i in range(end)}
    assert under_test.append("new") == end
    assert values_by_offset(under_test.kill())[end] == "new"


def test_a_batch_is_cut_as_a_whole() -> None:
    under_test = LogUnderTest()
    under_test.append("a", "b", "c")
    under_test.append("d", "e", "f")
    assert under_test.log.truncate_to(4) == 3
    assert values_by_offset(under_test.log) == {0: "a", 1: "b", 2: "c"}


def test_cut_records_do_not_reappear_after_a_power_failure() -> None:
    for seed in range(30):
        under_test = LogUnderTest(seed=seed)
        under_test.append_many(5)
        under_test.log.flush()
        under_test.log.truncate_to(2)
        under_test.disk.crash(power_loss=True)
        assert values_by_offset(under_test.open(recovery_point=2)) == {
            0: value_at(0),
            1: value_at(1),
        }
        under_test.disk.random = Random(seed + 1)


def test_a_flush_prepared_before_a_cut_proves_nothing() -> None:
    under_test = LogUnderTest()
    under_test.append_many(5)
    work = under_test.log.prepare_flush()
    assert work is not None
    work.run()
    under_test.log.truncate_to(2)
    under_test.append_many(3)
    under_test.log.complete_flush(work)
    assert under_test.log.recovery_point == 0
    assert under_test.log.prepare_flush() is not None


def test_epochs_end_with_the_log() -> None:
    under_test = LogUnderTest()
    for epoch in (1, 1, 4, 4):
        under_test.append("a", leader_epoch=epoch)
    assert under_test.log.end_offset_for_epoch(1) == EpochEndOffset(1, 2)
    under_test.log.truncate_to(2)
    assert under_test.log.leader_epochs.entries == [(1, 0)]
    assert under_test.log.end_offset_for_epoch(1) == EpochEndOffset(1, 2)
    assert under_test.log.end_offset_for_epoch(4) == EpochEndOffset(-1, -1)


def test_a_cut_that_removes_nothing_drops_an_epoch_without_records() -> None:
    """A leader that was deposed before it wrote: or it would report that epoch for ever."""
    log = log_of(3).log
    log.leader_epochs.assign(7, 3)
    assert log.truncate_to(3) == 3
    assert log.leader_epochs.latest_epoch == 0
    log.append_as_follower(batch_of("next", base_offset=3, leader_epoch=6), now_ms=NOW_MS)
    assert log.end_offset_for_epoch(6) == EpochEndOffset(6, 4)


@pytest.mark.parametrize("is_all", [False, True])
def test_quarantined_ranges_are_forgotten_when_they_are_cut(is_all: bool) -> None:
    """A follower cuts at the first damaged batch; its leader sends intact ones."""
    under_test = LogUnderTest()
    under_test.append_many(9)
    under_test.log.flush()
    path = under_test.path("00000000000000000000.log")
    size_bytes = under_test.disk.file_size(path) // 9
    for damaged in (2, 6):
        under_test.disk.flip_bit(path, (size_bytes * damaged + 70) * 8)
    log = under_test.kill()
    assert list(log.quarantined) == [(2, 3), (6, 7)]
    if is_all:
        log.truncate_fully_and_start_at(20, now_ms=NOW_MS)
        assert not list(log.quarantined)
    else:
        assert log.truncate_to(6) == 6
        assert list(log.quarantined) == [(2, 3)]
        assert log.truncate_to(2) == 2
    assert under_test.names("quarantine") == []
    under_test.append_many(3)
    assert under_test.kill().quarantined == ()


def test_producers_forget_what_was_cut() -> None:
    under_test = LogUnderTest(segment_bytes=250)
    for sequence in range(12):
        under_test.append("a", producer=(1, 0, sequence))
    under_test.log.truncate_to(7)
    with pytest.raises(OutOfOrderSequence):
        under_test.append("b", producer=(1, 0, 8))
    assert under_test.append("b", producer=(1, 0, 7)) == 7
    batch = batch_of("a", producer=(1, 0, 6))
    assert under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS).is_duplicate


def test_a_cut_below_the_log_start_removes_everything() -> None:
    under_test = log_of(10, segment_bytes=300)
    under_test.log.advance_log_start_offset(6)
    assert under_test.log.truncate_to(4) == 4
    log = under_test.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 4, 4)
    assert under_test.append("a") == 4


def test_a_batch_across_the_log_start() -> None:
    under_test = LogUnderTest()
    under_test.append("a", "b", "c", "d")
    under_test.log.high_watermark = 4
    under_test.log.advance_log_start_offset(2)
    assert under_test.log.truncate_to(3) == 2
    assert (under_test.log.log_start_offset, under_test.log.log_end_offset) == (2, 2)


def test_starting_an_empty_log_at_an_offset() -> None:
    """A follower is so far behind that the leader has deleted what it needs."""
    under_test = log_of(10, segment_bytes=300)
    under_test.append("p", producer=(1, 0, 0), leader_epoch=3)
    under_test.log.flush()
    under_test.log.truncate_fully_and_start_at(100, now_ms=NOW_MS)
    log = under_test.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert log.recovery_point == 100
    assert log.leader_epochs.entries == [(3, 100)] or log.leader_epochs.entries == []
    assert len(log.producer_state) == 0
    assert under_test.names(".snapshot") == []
    assert under_test.append("next", leader_epoch=3) == 100
    assert values_by_offset(under_test.kill(log_start_offset=100)) == {100: "next"}


def test_a_gap_at_the_end_of_a_segment_is_cut() -> None:
    under_test = LogUnderTest(segment_bytes=120)
    for offset in (0, 10):
        batch = batch_of("a" * 30, base_offset=offset, leader_epoch=0)
        under_test.log.append_as_follower(batch, now_ms=NOW_MS)
    assert under_test.log.truncate_to(8) == 1
    assert under_test.log.log_end_offset == 1


def test_a_damaged_index_does_not_stop_a_truncation(caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_of(50, index_interval_bytes=1)
    under_test.log.segments[0].index.write_tail()
    path = under_test.disk.paths(".index")[0]
    under_test.disk.open(path).pwritev([b"\xee" * under_test.disk.file_size(path)], 0)
    assert under_test.log.truncate_to(20) == 20
    assert "rebuilding the index" in caplog.text
    assert len(values_by_offset(under_test.log)) == 20


def test_a_disk_that_fails_takes_the_log_offline() -> None:
    under_test = log_of(5)
    under_test.disk.fail("truncate")
    with pytest.raises(StorageError, match="offline"):
        under_test.log.truncate_to(2)
    assert under_test.log.is_offline is not None
