"""What a scan after an unclean stop finds: torn tails, flipped bits, changed fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.errors import StorageError
from minikafka.storage.repair import QuarantinedRange
from tests.storage.batches import (
    NOW_MS,
    LogUnderTest,
    batch_of,
    read_records,
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


# --- torn tails -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", range(1, BATCH_SIZE_BYTES))
def test_a_torn_last_batch_is_cut(size_bytes: int, caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_of(3)
    path = under_test.path(FIRST)
    under_test.disk.open(path).truncate(2 * BATCH_SIZE_BYTES + size_bytes)
    log = under_test.kill()
    assert values_by_offset(log) == all_but(3, 2)
    assert log.log_end_offset == 2
    assert f"cutting the last {size_bytes} bytes, a torn write" in caplog.text
    assert under_test.disk.file_size(path) == 2 * BATCH_SIZE_BYTES
    assert under_test.names("quarantine") == []
    assert under_test.append("new") == 2


def test_zeros_behind_the_last_batch_are_cut() -> None:
    """A file system may have written the new size but not the bytes."""
    under_test = log_of(3)
    under_test.disk.open(under_test.path(FIRST)).truncate(10_000)
    log = under_test.kill()
    assert values_by_offset(log) == all_but(3)
    assert under_test.names("quarantine") == ["00000000000000000003-tail0.quarantine"]


# --- flipped bits ---------------------------------------------------------------------------------


@given(bit=st.integers(0, 10 * BATCH_SIZE_BYTES * 8 - 1), interval=st.sampled_from((1, 4096)))
def test_a_flipped_bit_costs_one_batch(bit: int, interval: int) -> None:
    under_test = log_of(10, index_interval_bytes=interval)
    under_test.disk.crash()
    under_test.disk.flip_bit(under_test.path(FIRST), bit)
    log = under_test.open()
    damaged = bit // 8 // BATCH_SIZE_BYTES
    assert values_by_offset(log) == all_but(10, damaged)
    if damaged < 9:
        assert log.log_end_offset == 10
        assert log.quarantined == (QuarantinedRange(damaged, damaged + 1),)
    else:
        assert log.log_end_offset == 9
        assert log.quarantined == ()
    assert under_test.append("new") == log.log_end_offset - 1
    assert values_by_offset(under_test.kill())[log.log_end_offset - 1] == "new"


def test_the_damaged_bytes_are_kept_in_a_file(caplog: pytest.LogCaptureFixture) -> None:
    under_test = log_of(10)
    path = under_test.path(FIRST)
    under_test.disk.flip_bit(path, (4 * BATCH_SIZE_BYTES + 70) * 8)
    damaged = under_test.disk.content(path)[4 * BATCH_SIZE_BYTES : 5 * BATCH_SIZE_BYTES]
    under_test.kill()
    name = "00000000000000000004-00000000000000000005.quarantine"
    assert under_test.disk.content(under_test.path(name)) == damaged
    assert "offsets 4 to 4 are damaged and can no longer be read" in caplog.text
    assert name in caplog.text
    # They are reported again, without another scan.
    caplog.clear()
    log = under_test.kill()
    assert log.quarantined == (QuarantinedRange(4, 5),)
    assert caplog.text == ""


def test_offsets_stay_what_they_were_around_a_hole() -> None:
    under_test = log_of(10)
    under_test.disk.flip_bit(under_test.path(FIRST), (4 * BATCH_SIZE_BYTES + 70) * 8)
    log = under_test.kill()
    records = read_records(log, 3, size_bytes_max=1)
    assert [record.offset for record in records] == [3, 5, 6, 7, 8, 9]
    assert [record.offset for record in read_records(log, 4)] == [5, 6, 7, 8, 9]


def test_a_hole_at_the_beginning_has_the_epoch_that_follows() -> None:
    """Or the empty batch in its place would look like damage once it is the only one left."""
    under_test = LogUnderTest()
    for offset in range(4):
        under_test.append(value_at(offset), leader_epoch=3)
    under_test.disk.flip_bit(under_test.path(FIRST), 70 * 8)
    log = under_test.kill()
    assert log.leader_epochs.entries == [(3, 0)]
    log.truncate_to(1)
    log = under_test.kill()
    assert (log.log_end_offset, log.quarantined) == (1, ((0, 1),))


def test_a_hole_where_a_new_epoch_begins() -> None:
    under_test = LogUnderTest()
    for offset, epoch in enumerate((1, 1, 4, 4)):
        under_test.append(value_at(offset), leader_epoch=epoch)
    under_test.disk.flip_bit(under_test.path(FIRST), (2 * BATCH_SIZE_BYTES + 70) * 8)
    log = under_test.kill()
    assert log.leader_epochs.entries == [(1, 0), (4, 3)]
    assert values_by_offset(under_test.kill()) == all_but(4, 2)


def test_several_holes() -> None:
    under_test = log_of(10)
    for damaged in (0, 3, 4, 8):
        under_test.disk.flip_bit(under_test.path(FIRST), (damaged * BATCH_SIZE_BYTES + 70) * 8)
    log = under_test.kill()
    assert values_by_offset(log) == all_but(10, 0, 3, 4, 8)
    assert log.quarantined == ((0, 1), (3, 5), (8, 9))
    assert values_by_offset(under_test.restart()) == all_but(10, 0, 3, 4, 8)


def test_damage_at_the_end_of_a_closed_segment_leaves_a_hole_up_to_the_next() -> None:
    under_test = log_of(5)
    under_test.log.roll(NOW_MS)
    under_test.append_many(5)
    under_test.disk.flip_bit(under_test.path(FIRST), (4 * BATCH_SIZE_BYTES + 70) * 8)
    log = under_test.kill()
    assert values_by_offset(log) == all_but(10, 4)
    assert log.quarantined == ((4, 5),)


def test_a_closed_segment_that_was_cut_short() -> None:
    under_test = log_of(5)
    under_test.log.roll(NOW_MS)
    under_test.append_many(5)
    under_test.disk.open(under_test.path(FIRST)).truncate(3 * BATCH_SIZE_BYTES)
    log = under_test.kill()
    assert values_by_offset(log) == all_but(10, 3, 4)
    assert log.quarantined == ((3, 5),)
    assert values_by_offset(under_test.kill()) == all_but(10, 3, 4)


def test_garbage_where_batches_were(caplog: pytest.LogCaptureFixture) -> None:
    """Only the index leads to what follows."""
    under_test = log_of(50, index_interval_bytes=1000)
    under_test.log.segments[0].index.write_tail()
    file = under_test.disk.open(under_test.path(FIRST))
    file.pwritev([b"\xff" * (5 * BATCH_SIZE_BYTES)], 20 * BATCH_SIZE_BYTES)
    log = under_test.kill()
    ((first, following),) = log.quarantined
    assert first == 20
    assert 25 <= following <= 40
    assert values_by_offset(log) == all_but(50, *range(first, following))


def test_a_batch_inside_a_damaged_value_is_ignored() -> None:
    """A record may hold batches (a mirrored topic does); only real boundaries count."""
    under_test = LogUnderTest()
    under_test.append("a")
    inner = batch_of("forged", base_offset=2, leader_epoch=0)
    outer_path = under_test.path(FIRST)
    under_test.log.append_as_leader(
        batch_of(inner.decode("latin-1")), leader_epoch=0, now_ms=NOW_MS
    )
    under_test.disk.crash()
    size_bytes = under_test.disk.file_size(outer_path)
    under_test.disk.open(outer_path).truncate(size_bytes - 3)
    assert values_by_offset(under_test.open()) == {0: "a"}


def test_accepted_damage_is_not_reported_again() -> None:
    """But its bytes are kept."""
    under_test = log_of(10)
    under_test.disk.flip_bit(under_test.path(FIRST), (4 * BATCH_SIZE_BYTES + 70) * 8)
    log = under_test.kill()
    log.quarantined += (QuarantinedRange(11, 12),)  # lost, with nothing to set aside
    log.accept_damage()
    assert log.quarantined == ()
    log.accept_damage()
    under_test.disk.crash(power_loss=True)
    assert under_test.open().quarantined == ()
    name = "00000000000000000004-00000000000000000005-kept.quarantine"
    assert under_test.names("quarantine") == [name]


def test_tail_quarantines_do_not_overwrite_each_other() -> None:
    under_test = log_of(3)
    for number in range(3):
        under_test.disk.crash()
        under_test.disk.flip_bit(under_test.path(FIRST), (2 * BATCH_SIZE_BYTES + 70) * 8)
        under_test.open()
        assert len(under_test.names("quarantine")) == number + 1
        assert under_test.append("again") == 2


def test_tail_quarantines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.storage.repair._TAIL_QUARANTINES_MAX", 0)
    under_test = log_of(3)
    under_test.disk.flip_bit(under_test.path(FIRST), (2 * BATCH_SIZE_BYTES + 70) * 8)
    with pytest.raises(StorageError, match="quarantine files; remove some"):
        under_test.kill()


def test_a_batch_larger_than_a_chunk_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.storage.scan._INTACT_CHUNK_SIZE_BYTES", 256)
    under_test = LogUnderTest()
    under_test.append("x" * 1000)
    under_test.append("y" * 150)
    under_test.append("z" * 1000)
    assert len(values_by_offset(under_test.kill())) == 3
    under_test.disk.flip_bit(under_test.path(FIRST), 900 * 8)
    assert set(values_by_offset(under_test.kill())) == {1, 2}


# --- fields that no CRC covers --------------------------------------------------------------------


def set_field(under_test: LogUnderTest, batch: int, at: int, value: bytes) -> None:
    under_test.disk.crash()
    file = under_test.disk.open(under_test.path(FIRST))
    file.pwritev([value], batch * BATCH_SIZE_BYTES + at)


@pytest.mark.parametrize("batch", [0, 5, 9])
@pytest.mark.parametrize("offset", [3, 6, 1000])
def test_a_changed_base_offset(batch: int, offset: int) -> None:
    under_test = log_of(10)
    set_field(under_test, batch, 0, offset.to_bytes(8, "big"))
    assert values_by_offset(under_test.open()) == all_but(10, batch)


@pytest.mark.parametrize("batch", [0, 5, 9])
@pytest.mark.parametrize("epoch", [3, 6, 1000])
def test_a_changed_leader_epoch(batch: int, epoch: int) -> None:
    under_test = LogUnderTest()
    for offset in range(10):
        under_test.append(value_at(offset), leader_epoch=5)
    set_field(under_test, batch, 12, epoch.to_bytes(4, "big"))
    log = under_test.open()
    assert values_by_offset(log) == all_but(10, batch)
    assert log.leader_epochs.latest_epoch == 5


def test_an_epoch_below_the_log_start_is_not_damage() -> None:
    """It is no longer in the epoch file, but its batch is still in the segment."""
    under_test = LogUnderTest()
    under_test.append("a", leader_epoch=1)
    under_test.append("b", leader_epoch=2)
    under_test.log.high_watermark = 2
    under_test.log.advance_log_start_offset(2)
    under_test.restart()
    log = under_test.kill(log_start_offset=2)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert log.quarantined == ()


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_epochs_forgotten_further_than_the_log_start_that_survived(kept: int) -> None:
    """Two checkpoints are written at different times: the epochs may know of a later start."""
    under_test = LogUnderTest()
    for epoch in (1, 1, 2, 2, 5, 5):
        under_test.append("a", leader_epoch=epoch)
    under_test.log.high_watermark = 6
    under_test.log.advance_log_start_offset(5)
    under_test.append("b", leader_epoch=6)  # writes the file of the epochs
    under_test.log.flush()
    log = under_test.kill(log_start_offset=kept, recovery_point=7)
    assert [record.offset for record in read_records(log)] == list(range(kept, 7))
    assert [log.leader_epochs.epoch_for(offset) for offset in range(kept, 7)] == (
        [1, 1, 2, 2, 5, 5, 6][kept:]
    )
    assert log.is_offline is None


def test_an_offset_beyond_the_next_segment_is_damage() -> None:
    under_test = log_of(3)
    under_test.log.roll(NOW_MS)
    under_test.append_many(2)
    set_field(under_test, 2, 0, (2 + 2**20).to_bytes(8, "big"))
    under_test.config = LogUnderTest(cleanup_compact=True).config
    assert values_by_offset(under_test.open()) == all_but(5, 2)


@pytest.mark.parametrize("is_compact", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 3])
@pytest.mark.parametrize("bit", [31, 40, 62])
def test_an_offset_too_high_for_its_segment_is_damage(
    bit: int, recovery_point: int, is_compact: bool
) -> None:
    under_test = LogUnderTest(index_interval_bytes=1)
    under_test.append_many(3)
    set_field(under_test, 2, 0, (2 + 2**bit).to_bytes(8, "big"))
    under_test.config = LogUnderTest(cleanup_compact=is_compact, index_interval_bytes=1).config
    log = under_test.open(recovery_point=recovery_point)
    assert values_by_offset(log) == all_but(3, 2)
    assert log.log_end_offset < 2**31


def test_the_offset_of_a_segments_first_batch() -> None:
    under_test = log_of(3)
    under_test.log.roll(NOW_MS)
    under_test.append_many(3)
    path = under_test.path("00000000000000000003.log")
    under_test.disk.open(path).pwritev([bytes(8)], 0)
    assert values_by_offset(under_test.kill()) == all_but(6, 3)


def test_two_damaged_offsets_in_a_row() -> None:
    """The second one looks intact, but what follows contradicts it."""
    under_test = log_of(8)
    for batch, offset in ((3, 103), (4, 304)):
        set_field(under_test, batch, 0, offset.to_bytes(8, "big"))
    assert values_by_offset(under_test.open()) == all_but(8, 3, 4)
