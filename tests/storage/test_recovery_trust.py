"""What a restart trusts: indexes, snapshots, epochs, synced segments, names."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES
from minikafka.protocol.records.record import decode_records
from minikafka.storage.producer_snapshots import ProducerSnapshots
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.scan import DamagedSegment, batch_crc
from tests.storage.batches import (
    NOW_MS,
    LogUnderTest,
    batch_of,
    value_at,
    values_by_offset,
)

FIRST = "00000000000000000000.log"


def log_of(count: int, **settings: int) -> LogUnderTest:
    under_test = LogUnderTest(**settings)
    under_test.append_many(count)
    return under_test


def all_but(count: int, *lost: int) -> dict[int, str]:
    return {offset: value_at(offset) for offset in range(count) if offset not in lost}


BATCH_SIZE_BYTES = len(batch_of(value_at(0)))


# --- indexes, snapshots, epochs -------------------------------------------------------------------


def lose(name: str) -> Callable[[LogUnderTest], None]:
    def change(under_test: LogUnderTest) -> None:
        under_test.disk.remove(under_test.path(name))

    return change


def scramble(name: str) -> Callable[[LogUnderTest], None]:
    def change(under_test: LogUnderTest) -> None:
        path = under_test.path(name)
        size_bytes = under_test.disk.file_size(path)
        under_test.disk.open(path).pwritev([b"\xaa" * size_bytes], 0)

    return change


def swap_indexes(under_test: LogUnderTest) -> None:
    """Each entry is intact, but of another segment."""
    first, second, *_ = under_test.disk.paths(".index")
    content = under_test.disk.content(second)
    under_test.disk.open(first).truncate(0)
    under_test.disk.open(first).pwritev([content], 0)


def stale_index(under_test: LogUnderTest) -> None:
    """Entries past the end of the log."""
    content = under_test.disk.content(under_test.disk.paths(".index")[1])
    path = under_test.disk.paths(".index")[-1]
    under_test.disk.open(path).pwritev([content], 0)


FIRST_INDEX = FIRST.replace(".log", ".index")


@pytest.mark.parametrize(
    "damage", [lose(FIRST_INDEX), scramble(FIRST_INDEX), swap_indexes, stale_index]
)
@pytest.mark.parametrize("clean", [True, False])
def test_indexes_are_hints(damage: Callable[[LogUnderTest], None], clean: bool) -> None:
    under_test = log_of(3000, segment_bytes=80_000, index_interval_bytes=300)
    under_test.log.close()
    under_test.disk.crash()
    damage(under_test)
    log = under_test.open(recovery_point=3000 if clean else 0)
    for offset in [*range(0, 3000, 97), 2999]:
        found = log.read(offset, size_bytes_max=5000, upper_bound_offset=3000)
        assert found.base_offset == offset
        assert log.offset_for_timestamp(NOW_MS) is not None
    assert len(values_by_offset(log)) == 3000
    log.truncate_to(500)
    assert log.log_end_offset == 500
    assert len(values_by_offset(log)) == 500


def test_an_index_without_its_segment_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_of(3)
    under_test.disk.open(under_test.path("00000000000000000077.index"), create=True)
    under_test.kill()
    assert under_test.names(".index") == []
    assert "removing an index without its segment" in caplog.text


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".tmp", ".rewrite"])
def test_leftovers_are_removed(suffix: str) -> None:
    under_test = log_of(3)
    under_test.disk.open(under_test.path(FIRST + suffix), create=True)
    assert values_by_offset(under_test.kill()) == all_but(3)
    assert under_test.names(suffix) == []


def test_producers_survive_kill_and_restart() -> None:
    under_test = LogUnderTest(segment_bytes=300)
    for sequence in range(20):
        under_test.append("a", producer=(1, 0, sequence))
    for reopen in (under_test.kill, under_test.restart, under_test.restart):
        log = reopen()
        for sequence in range(15, 20):
            batch = batch_of("a", producer=(1, 0, sequence))
            result = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
            assert result.is_duplicate
            assert result.base_offset == sequence


def test_a_clean_restart_reads_no_batches() -> None:
    under_test = log_of(300, segment_bytes=5000)
    under_test.log.close()
    under_test.disk.crash()
    before = under_test.disk.pread_count
    under_test.open(recovery_point=300)
    assert under_test.disk.pread_count - before < 10


def test_a_damaged_snapshot_is_replaced_by_reading(caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest(segment_bytes=300)
    for sequence in range(10):
        under_test.append("a", producer=(1, 0, sequence))
    under_test.log.close()
    for path in under_test.disk.paths(".snapshot"):
        under_test.disk.flip_bit(path, 50)
    log = under_test.kill(recovery_point=10)
    assert log.producer_state.last_offsets() == {1: 9}
    assert "reading producers from the log instead" in caplog.text


def test_a_lost_epoch_file_is_replaced_by_reading(caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest(segment_bytes=300)
    for epoch in range(10):
        under_test.append("a", leader_epoch=epoch)
    entries = list(under_test.log.leader_epochs.entries)
    under_test.log.close()
    under_test.disk.flip_bit(under_test.path("leader-epoch-checkpoint"), 99)
    log = under_test.kill(recovery_point=10)
    assert log.leader_epochs.entries == entries
    assert "taking the leader epochs from the batches" in caplog.text
    under_test.disk.remove(under_test.path("leader-epoch-checkpoint"))
    assert under_test.kill(recovery_point=10).leader_epochs.entries == entries


# --- trusting what was synced ---------------------------------------------------------------------


@given(bit=st.integers(0, 30 * BATCH_SIZE_BYTES * 8 - 1))
def test_damage_in_a_synced_segment_is_found_when_it_is_read(bit: int) -> None:
    """It is never served; the partition goes offline, and reopening it loses one batch."""
    under_test = log_of(30, segment_bytes=10 * BATCH_SIZE_BYTES)
    under_test.log.close()
    under_test.disk.crash()
    segment, bit = divmod(bit, 10 * BATCH_SIZE_BYTES * 8)
    under_test.disk.flip_bit(under_test.disk.paths(".log")[segment], bit)
    damaged = segment * 10 + bit // 8 // BATCH_SIZE_BYTES
    log = under_test.open(recovery_point=30)
    offset = 0
    try:
        while offset < log.log_end_offset:
            read = log.read(offset, size_bytes_max=1, upper_bound_offset=log.log_end_offset)
            assert read.records is not None
            for record in decode_records(read.records.read(), check_crc=True):
                assert record.value == value_at(record.offset).encode()
            offset = read.next_offset
    except DamagedSegment:
        is_offline = log.is_offline is not None and log.recovery_point <= damaged
        assert is_offline
        log = under_test.kill(recovery_point=log.recovery_point)
    assert values_by_offset(log) == all_but(30, damaged)


def test_bytes_are_checked_once() -> None:
    under_test = log_of(100)
    log = under_test.restart()
    values_by_offset(log)
    before = under_test.disk.pread_count
    found = log.read(50, size_bytes_max=10**6, upper_bound_offset=100)
    assert under_test.disk.pread_count - before <= 2
    assert found.records is not None


def test_bytes_that_this_process_wrote_are_not_checked() -> None:
    under_test = log_of(10)
    under_test.restart()
    under_test.append_many(10)
    before = under_test.disk.pread_count
    under_test.log.read(19, size_bytes_max=10**6, upper_bound_offset=20)
    assert under_test.disk.pread_count - before <= 2


def test_damage_found_during_start_up_is_repaired(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The producers have to be read from a trusted segment that turns out to be damaged."""
    under_test = log_of(30, segment_bytes=10 * BATCH_SIZE_BYTES)
    under_test.log.close()
    for path in under_test.disk.paths(".snapshot"):
        under_test.disk.remove(path)
    under_test.disk.crash()
    under_test.disk.flip_bit(under_test.path(FIRST), (4 * BATCH_SIZE_BYTES + 16) * 8)
    log = under_test.open(recovery_point=30)
    assert values_by_offset(log) == all_but(30, 4)
    assert "checking the segment at 0" in caplog.text


def test_damage_found_while_reading_lost_epochs_is_repaired() -> None:
    under_test = log_of(30, segment_bytes=10 * BATCH_SIZE_BYTES)
    under_test.log.close()
    under_test.disk.remove(under_test.path("leader-epoch-checkpoint"))
    under_test.disk.crash()
    under_test.disk.flip_bit(under_test.path(FIRST), (4 * BATCH_SIZE_BYTES + 16) * 8)
    assert values_by_offset(under_test.open(recovery_point=30)) == all_but(30, 4)


def test_damage_that_reappears_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be recovered from a disk that reads differently each time."""
    under_test = log_of(3)

    def restore(*_args: object, **_kwargs: object) -> None:
        raise DamagedSegment("flaky", under_test.path(FIRST), 0)

    monkeypatch.setattr(ProducerSnapshots, "restore", restore)
    with pytest.raises(DamagedSegment, match="flaky"):
        under_test.kill()


def test_snapshots_from_before_the_first_segment_are_not_used() -> None:
    under_test = LogUnderTest(segment_bytes=200)
    for sequence in range(6):
        under_test.append("abc", producer=(1, 0, sequence))
    stray = under_test.path("00000000000000000001.snapshot")
    first, *later = under_test.disk.paths(".log")
    for path in [first, *under_test.disk.paths(".snapshot")]:
        under_test.disk.remove(path)
    under_test.disk.replace_file(stray, ProducerStateManager().encode(1), sync=False)
    log = under_test.kill(log_start_offset=2)
    assert under_test.disk.paths(".log") == later
    assert log.producer_state.last_offsets() == {1: 5}


def test_a_snapshot_in_a_gap() -> None:
    """There may be a gap between the last batch of a segment and the next segment."""
    follower = LogUnderTest(segment_bytes=120)
    batch = batch_of("a" * 30, base_offset=0, leader_epoch=0, producer=(1, 0, 0))
    follower.log.append_as_follower(batch, now_ms=NOW_MS)
    follower.restart()
    batch = batch_of("a" * 30, base_offset=10, leader_epoch=0, producer=(1, 0, 1))
    follower.log.append_as_follower(batch, now_ms=NOW_MS)
    follower.disk.remove(follower.path("00000000000000000010.snapshot"))
    log = follower.kill(recovery_point=10)
    assert log.producer_state.last_offsets() == {1: 10}


def test_a_batch_that_lies_across_a_chunk_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.storage.scan._INTACT_CHUNK_SIZE_BYTES", 220)
    under_test = log_of(20)
    assert values_by_offset(under_test.kill()) == all_but(20)
    under_test.disk.flip_bit(under_test.path(FIRST), (4 * BATCH_SIZE_BYTES - 5) * 8)
    assert values_by_offset(under_test.kill()) == all_but(20, 3)


def test_the_crc_of_a_batch_in_a_file_that_shrank() -> None:
    under_test = log_of(1)
    file = under_test.disk.open(under_test.path(FIRST))
    crc = batch_crc(file, 0, BATCH_SIZE_BYTES)
    file.truncate(BATCH_SIZE_BYTES - 1)
    assert batch_crc(file, 0, BATCH_SIZE_BYTES) != crc


def test_a_closed_segment_that_compaction_emptied() -> None:
    under_test = log_of(3)
    under_test.log.roll(NOW_MS)
    under_test.append_many(2)
    under_test.disk.open(under_test.path(FIRST)).truncate(0)
    under_test.config = LogUnderTest(cleanup_compact=True).config
    log = under_test.kill()
    assert values_by_offset(log) == all_but(5, 0, 1, 2)
    assert log.quarantined == ()


def test_a_recovery_point_past_the_end_trusts_nothing() -> None:
    under_test = log_of(10)
    under_test.log.flush()
    under_test.disk.open(under_test.path(FIRST)).truncate(5 * BATCH_SIZE_BYTES)
    log = under_test.kill(recovery_point=10)
    assert log.log_end_offset == log.recovery_point == 5 or log.recovery_point < 5
    assert values_by_offset(log) == all_but(5)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "copy of 00000000000000000000.log",
        "1.log",
        "-0000000000000000001.log",
        "00000000000000000000-00000000000000000001.log",
        "old.snapshot",
        "notes.quarantine",
        "1-2.swap",
        "00000000000000000000.swap",
        "readme.txt",
        "noextension",
    ],
)
def test_foreign_files_are_left_alone(name: str, caplog: pytest.LogCaptureFixture) -> None:
    under_test = LogUnderTest()
    under_test.append("a")
    under_test.append("b")
    under_test.disk.open(under_test.path(name), create=True).pwritev([b"not ours"], 0)
    for reopen in (under_test.kill, under_test.restart):
        log = reopen()
        assert values_by_offset(log) == {0: "a", 1: "b"}
        assert log.quarantined == ()
    assert under_test.disk.content(under_test.path(name)) == b"not ours"
    is_reported = name.endswith((".log", ".snapshot"))
    assert (f"{name} is not a file of this log: ignoring it" in caplog.text) == is_reported


def test_an_empty_directory_is_an_empty_log() -> None:
    under_test = LogUnderTest()
    assert under_test.names() == [FIRST]
    under_test.disk.remove(under_test.path(FIRST))
    log = under_test.kill(log_start_offset=42)
    assert (log.log_start_offset, log.log_end_offset) == (42, 42)


def test_a_log_that_ends_before_it_starts_is_emptied(caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_of(3)
    log = under_test.kill(log_start_offset=10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert "the log ends at offset 3 but starts at 10" in caplog.text
    assert under_test.append("new") == 10


def test_one_scan_finds_a_header_only_batch_intact() -> None:
    assert BATCH_HEADER_SIZE_BYTES < BATCH_SIZE_BYTES
    under_test = log_of(3)
    under_test.disk.flip_bit(under_test.path(FIRST), 70 * 8)
    under_test.kill()
    assert values_by_offset(under_test.kill()) == all_but(3, 0)
