"""Appending: what is stamped, what is remembered, when a segment is closed, how it fails."""

import errno

import pytest

from minikafka.protocol.records.batch import iter_batches
from minikafka.protocol.records.control import ControlType, encode_control_batch
from minikafka.protocol.records.record import decode_records
from minikafka.storage import errors
from minikafka.storage.log import AppendResult
from minikafka.storage.validation import BATCHES_PER_APPEND_MAX
from tests.storage.batches import (
    NOW_MS,
    LogUnderTest,
    batch_of,
    read_records,
    value_at,
    values_by_offset,
)


def stored_bytes(under_test: LogUnderTest) -> bytes:
    return b"".join(under_test.disk.content(path) for path in under_test.disk.paths(".log"))


def test_offset_and_epoch_are_stamped_and_nothing_else_changes() -> None:
    under_test = LogUnderTest()
    first, second = batch_of("a", "b"), batch_of("c")
    under_test.log.append_as_leader(first, leader_epoch=3, now_ms=NOW_MS)
    result = under_test.log.append_as_leader(memoryview(second), leader_epoch=4, now_ms=NOW_MS)
    assert result == AppendResult(2, 2, -1, 0, is_duplicate=False)
    stored = stored_bytes(under_test)
    (_, one), (at, two) = iter_batches(stored)
    assert (one.base_offset, one.partition_leader_epoch) == (0, 3)
    assert (two.base_offset, two.partition_leader_epoch) == (2, 4)
    assert stored[16:at] == first[16:]
    assert stored[at + 16 :] == second[16:]
    assert under_test.log.leader_epochs.entries == [(3, 0), (4, 2)]


def test_log_append_time() -> None:
    under_test = LogUnderTest(message_timestamp_type="LogAppendTime")
    batch = batch_of("a", "b", timestamp=5)
    result = under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS + 7)
    assert result.log_append_time_ms == NOW_MS + 7
    records = decode_records(stored_bytes(under_test), check_crc=True)
    assert {record.timestamp for record in records} == {NOW_MS + 7}
    assert under_test.log.segments[0].max_timestamp() == NOW_MS + 7


def test_a_retry_returns_the_original_append() -> None:
    under_test = LogUnderTest(message_timestamp_type="LogAppendTime")
    under_test.append("x")
    batch = batch_of("a", "b", producer=(1, 0, 0))
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    size_bytes = under_test.log.size_bytes
    result = under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS + 50)
    assert result == AppendResult(1, 2, NOW_MS, 0, is_duplicate=True)
    assert under_test.log.size_bytes == size_bytes


def test_a_retry_with_create_time_has_no_append_time() -> None:
    under_test = LogUnderTest()
    batch = batch_of("a", producer=(1, 0, 0))
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    result = under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert result == AppendResult(0, 0, -1, 0, is_duplicate=True)


def test_an_internal_append_may_have_several_batches() -> None:
    under_test = LogUnderTest()
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    batches = batch_of("a", "b", producer=(1, 0, 0)) + bytes(marker) + batch_of("c")
    with pytest.raises(errors.InvalidRecord):
        under_test.log.append_as_leader(batches, leader_epoch=0, now_ms=NOW_MS)
    result = under_test.log.append_as_leader(
        batches, leader_epoch=0, now_ms=NOW_MS, from_client=False
    )
    assert (result.base_offset, result.last_offset) == (0, 3)
    headers = [header for _, header in iter_batches(stored_bytes(under_test))]
    assert [header.base_offset for header in headers] == [0, 2, 3]
    assert [header.is_control for header in headers] == [False, True, False]


def test_a_retry_among_several_batches_is_refused() -> None:
    under_test = LogUnderTest()
    batch = batch_of("a", producer=(1, 0, 0))
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(errors.InvalidRecord, match="a retried batch among others"):
        under_test.log.append_as_leader(
            batch_of("b") + batch, leader_epoch=0, now_ms=NOW_MS, from_client=False
        )
    assert values_by_offset(under_test.log) == {0: "a"}


def test_a_refused_batch_changes_nothing() -> None:
    under_test = LogUnderTest(segment_bytes=300)
    under_test.append("a", producer=(1, 0, 0))
    before = (under_test.disk.paths(), stored_bytes(under_test))
    for batch, error in [
        (batch_of("b", producer=(1, 0, 5)), errors.OutOfOrderSequence),
        (batch_of("b") + b"x", errors.CorruptMessage),
        (batch_of("x" * 300), errors.RecordListTooLarge),
    ]:
        with pytest.raises(error):
            under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert (under_test.disk.paths(), stored_bytes(under_test)) == before
    assert under_test.log.log_end_offset == 1
    assert under_test.log.is_offline is None
    assert under_test.append("b", producer=(1, 0, 1)) == 1


def test_a_leader_of_an_old_epoch_is_fenced() -> None:
    under_test = LogUnderTest()
    under_test.append("a", leader_epoch=3)
    with pytest.raises(errors.FencedLeaderEpoch, match="leader of epoch 2, but epoch 3"):
        under_test.append("b", leader_epoch=2)


# --- followers ------------------------------------------------------------------------------------


def test_a_follower_keeps_offsets_and_epochs() -> None:
    leader, follower = LogUnderTest(), LogUnderTest()
    leader.append("a", "b", leader_epoch=2)
    leader.append("c", leader_epoch=5, producer=(1, 0, 0))
    content = stored_bytes(leader)
    result = follower.log.append_as_follower(content, now_ms=NOW_MS)
    assert result == AppendResult(0, 2, -1, 0, is_duplicate=False)
    assert stored_bytes(follower) == content
    assert follower.log.leader_epochs.entries == leader.log.leader_epochs.entries
    assert follower.log.producer_state.last_offsets() == {1: 2}


def test_a_follower_accepts_gaps_from_compaction() -> None:
    follower = LogUnderTest()
    batch = batch_of("a", base_offset=7, leader_epoch=0)
    follower.log.append_as_follower(batch, now_ms=NOW_MS)
    assert values_by_offset(follower.log) == {7: "a"}


def test_a_follower_may_have_smaller_segments() -> None:
    leader, follower = LogUnderTest(), LogUnderTest(segment_bytes=200)
    leader.append_many(10)
    leader.append("x" * 500)
    leader.append_many(1)
    follower.log.append_as_follower(stored_bytes(leader), now_ms=NOW_MS)
    assert values_by_offset(follower.log) == values_by_offset(leader.log)
    assert len(follower.log.segments) == 7


def test_a_follower_accepts_more_batches_than_a_leader_appends_at_once() -> None:
    follower = LogUnderTest()
    count = BATCHES_PER_APPEND_MAX + 1
    content = b"".join(batch_of("", base_offset=offset, leader_epoch=0) for offset in range(count))
    follower.log.append_as_follower(content, now_ms=NOW_MS)
    assert follower.log.log_end_offset == count


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        (batch_of("a", base_offset=0, leader_epoch=2), "where offset 1 is next"),
        (batch_of("a", base_offset=1, leader_epoch=1), "leader epoch 1, the one before it has 2"),
    ],
)
def test_a_follower_refuses_batches_that_do_not_follow(batch: bytes, match: str) -> None:
    follower = LogUnderTest()
    follower.append("a", leader_epoch=2)
    with pytest.raises(errors.UnexpectedAppendOffset, match=match):
        follower.log.append_as_follower(batch, now_ms=NOW_MS)


def test_a_follower_refuses_damaged_batches() -> None:
    follower = LogUnderTest()
    batch = bytearray(batch_of("abc", leader_epoch=0))
    batch[-2] ^= 1
    with pytest.raises(errors.CorruptMessage):
        follower.log.append_as_follower(batch, now_ms=NOW_MS)


# --- closing segments -----------------------------------------------------------------------------


def test_a_segment_never_grows_past_segment_bytes() -> None:
    under_test = LogUnderTest(segment_bytes=500)
    under_test.append_many(50)
    sizes = [segment.size_bytes for segment in under_test.log.segments]
    assert len(sizes) > 5
    assert max(sizes) <= 500
    assert [len(under_test.disk.content(path)) for path in under_test.disk.paths(".log")] == sizes
    assert values_by_offset(under_test.log) == {i: value_at(i) for i in range(50)}


def test_an_old_segment_is_closed_by_the_next_append() -> None:
    under_test = LogUnderTest(segment_ms=1000)
    under_test.append("a", timestamp=NOW_MS)
    under_test.append("b", timestamp=NOW_MS + 1000)
    assert len(under_test.log.segments) == 1
    under_test.append("c", timestamp=NOW_MS + 1001)
    assert len(under_test.log.segments) == 2


def test_segment_ms_counts_from_the_first_batch_after_a_restart() -> None:
    under_test = LogUnderTest(segment_ms=1000)
    under_test.append("a", timestamp=NOW_MS - 5000)
    under_test.restart()
    under_test.append("b", timestamp=NOW_MS - 4000)
    assert len(under_test.log.segments) == 1
    under_test.append("c", timestamp=NOW_MS - 3999)
    assert len(under_test.log.segments) == 2


def test_without_timestamps_segment_ms_counts_by_the_clock() -> None:
    under_test = LogUnderTest(segment_ms=1000)
    under_test.append("a", timestamp=-1)
    under_test.append("b", timestamp=-1, now_ms=NOW_MS + 1000)
    assert len(under_test.log.segments) == 1
    under_test.append("c", timestamp=-1, now_ms=NOW_MS + 1001)
    assert len(under_test.log.segments) == 2


def test_a_full_index_closes_the_segment() -> None:
    under_test = LogUnderTest(index_interval_bytes=1, segment_index_bytes=100)
    under_test.append_many(10)  # 8 entries of 12 bytes fit; the first batch has none
    assert [segment.next_offset for segment in under_test.log.segments] == [9, 10]


def test_relative_offsets_stay_within_31_bits() -> None:
    follower = LogUnderTest()
    for offset in (0, 2**31 - 1, 2**31):
        batch = batch_of("a", base_offset=offset, leader_epoch=0)
        follower.log.append_as_follower(batch, now_ms=NOW_MS)
    assert [segment.base_offset for segment in follower.log.segments] == [0, 2**31]
    assert [record.offset for record in read_records(follower.log)] == [0, 2**31 - 1, 2**31]


def test_roll() -> None:
    under_test = LogUnderTest()
    under_test.log.roll(NOW_MS)
    assert len(under_test.log.segments) == 1
    under_test.append("a")
    under_test.log.roll(NOW_MS)
    assert under_test.names(".log") == ["00000000000000000000.log", "00000000000000000001.log"]
    assert under_test.log.segments[-1].base_offset == 1


def test_a_leftover_file_is_emptied_by_a_new_segment() -> None:
    under_test = LogUnderTest()
    under_test.append("a")
    leftover = under_test.disk.open(under_test.path("00000000000000000001.log"), create=True)
    leftover.pwritev([batch_of("ghost")], 0)
    under_test.log.roll(NOW_MS)
    under_test.append("b")
    assert values_by_offset(under_test.log) == {0: "a", 1: "b"}


def test_settings_change_while_it_runs() -> None:
    under_test = LogUnderTest()
    under_test.append_many(10)
    under_test.log.config = LogUnderTest(segment_bytes=300).config
    under_test.append_many(10)
    assert len(under_test.log.segments) > 3


# --- failing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["pwritev", "open", "rename"])
def test_a_disk_that_fails_takes_the_log_offline(operation: str, code: int) -> None:
    under_test = LogUnderTest()
    under_test.append("a")
    under_test.disk.fail(operation, code=code)
    with pytest.raises(errors.StorageError, match="the partition is offline"):
        under_test.append("b", leader_epoch=1)
    under_test.disk.heal()
    log = under_test.log
    for call in (
        lambda: under_test.append("b"),
        lambda: log.append_as_follower(batch_of("b"), now_ms=NOW_MS),
        lambda: log.read(0, size_bytes_max=1, upper_bound_offset=1),
        lambda: log.roll(NOW_MS),
        lambda: log.truncate_to(0),
        lambda: log.offset_for_timestamp(0),
        log.flush,
    ):
        with pytest.raises(errors.StorageError, match="the partition is offline"):
            call()
    assert log.log_end_offset == 1
    assert values_by_offset(under_test.kill()) == {0: "a"}


def test_a_failed_append_that_cannot_be_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    under_test = LogUnderTest()
    under_test.append("a")
    under_test.disk.fault = lambda operation, _: (
        errno.EIO if operation in {"pwritev", "truncate"} else None
    )
    with pytest.raises(errors.StorageError):
        under_test.append("b" * 100)
    assert "could not be cut off" in caplog.text
    found = values_by_offset(under_test.kill())
    assert found in ({0: "a"}, {0: "a", 1: "b" * 100})


def test_the_first_failure_is_reported() -> None:
    under_test = LogUnderTest()
    first = under_test.log.fail(OSError(errno.EIO, "first"))
    assert under_test.log.fail(OSError(errno.EIO, "second")) is first
    assert under_test.log.is_offline is first


def test_a_closed_log_refuses() -> None:
    under_test = LogUnderTest()
    under_test.log.close()
    with pytest.raises(errors.StorageError, match="is closed"):
        under_test.append("a")
