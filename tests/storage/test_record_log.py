"""The record log: all or nothing per append, torn tails cut, damage refused."""

import errno
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from minikafka.storage.memory_disk import MemoryDisk
from minikafka.storage.record_log import DamagedRecordLog, RecordLog

PATH = "d/metadata.log"

payloads = st.lists(st.binary(max_size=600), min_size=1, max_size=4)


def new_disk(seed: int = 1, *, capacity_bytes: int | None = None) -> MemoryDisk:
    disk = MemoryDisk(Random(seed), capacity_bytes=capacity_bytes)
    disk.make_directory("d")
    disk.sync_directory("d")
    return disk


class RecordLogMachine(RuleBasedStateMachine):
    """Against a list, with kills and power failures."""

    finished_count = 0

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = new_disk(seed)
        self.log = RecordLog.open(self.disk, PATH)
        self.records: list[bytes] = []
        self.first_index = 0
        self.synced_count = 0

    @rule(records=payloads, sync=st.booleans())
    def append(self, records: list[bytes], sync: bool) -> None:
        index = self.log.append(records, sync=sync)
        assert index == self.first_index + len(self.records)
        self.records += records
        if sync:
            self.synced_count = len(self.records)

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.synced_count = len(self.records)

    @rule(back=st.integers(0, 6))
    def truncate(self, back: int) -> None:
        count = max(0, len(self.records) - back)
        self.log.truncate_to(self.first_index + count)
        del self.records[count:]
        self.synced_count = count

    @rule(records=payloads, first_index=st.integers(0, 1000))
    def replace(self, records: list[bytes], first_index: int) -> None:
        self.log.replace(records, first_index=first_index)
        self.records, self.first_index = list(records), first_index
        self.synced_count = len(records)

    @rule()
    def kill(self) -> None:
        self.disk.crash()
        self.log = RecordLog.open(self.disk, PATH)
        self.synced_count = len(self.records)

    @rule()
    def lose_power(self) -> None:
        self.disk.crash(power_loss=True)
        self.log = RecordLog.open(self.disk, PATH)
        survived = list(self.log.records())
        assert len(survived) >= self.synced_count
        assert survived == self.records[: len(survived)]
        self.records = survived
        self.synced_count = len(survived)  # their readers will act on them

    @rule(records=payloads)
    def failing_append(self, records: list[bytes]) -> None:
        self.disk.fail("pwritev")
        with pytest.raises(OSError, match="on purpose"):
            self.log.append(records)
        self.disk.crash()
        self.log = RecordLog.open(self.disk, PATH)
        survived = list(self.log.records())
        assert survived in (self.records, self.records + records)
        self.records = survived

    @rule(index=st.integers(0, 30))
    def read_from(self, index: int) -> None:
        from_index = self.first_index + index
        assert list(self.log.records(from_index)) == self.records[index:]

    @invariant()
    def everything_is_there(self) -> None:
        if hasattr(self, "log"):
            assert list(self.log.records()) == self.records
            assert self.log.size_bytes == self.disk.file_size(PATH)
            if self.records:
                assert self.log.first_index == self.first_index
            self.first_index = self.log.first_index
            assert self.log.next_index == self.first_index + len(self.records)

    def teardown(self) -> None:
        RecordLogMachine.finished_count += 1


def test_a_record_log_behaves_like_a_list() -> None:
    run_state_machine_as_test(RecordLogMachine)
    assert RecordLogMachine.finished_count > 0


@given(bit=st.integers(0, 10**6), synced=st.booleans())
def test_a_flipped_bit_in_synced_records_is_never_forgotten(bit: int, synced: bool) -> None:
    """A cut would lose acknowledged records: refuse to open."""
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"one"])
    first_frame = disk.file_size(PATH)
    log.append([b"two", b"three"], sync=synced)
    log.append([b"four"])
    disk.flip_bit(PATH, bit % (first_frame * 8))
    with pytest.raises(DamagedRecordLog, match="had been synced"):
        RecordLog.open(disk, PATH)


@given(bit=st.integers(0, 10**6))
def test_damage_in_the_last_append_looks_like_a_torn_write(bit: int) -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"one"])
    first_frame = disk.file_size(PATH)
    log.append([b"two"], sync=False)
    second_frame = disk.file_size(PATH)
    log.append([b"three"], sync=False)
    disk.flip_bit(PATH, first_frame * 8 + bit % ((second_frame - first_frame) * 8))
    assert list(RecordLog.open(disk, PATH).records()) == [b"one"]


def test_an_append_that_was_torn_anywhere_is_cut() -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"one"])
    first_frame = disk.file_size(PATH)
    log.append([b"two", b"three"])
    for size_bytes in range(disk.file_size(PATH) - 1, first_frame, -1):
        disk.crash()
        disk.open(PATH).truncate(size_bytes)
        log = RecordLog.open(disk, PATH)
        assert list(log.records()) == [b"one"]
        assert log.append([b"two", b"three"]) == 1


def test_a_record_that_looks_like_a_frame_is_not_one() -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"one"])
    first_frame = disk.file_size(PATH)
    log.append([b"x" * 100 + disk.content(PATH)[:first_frame]])
    disk.flip_bit(PATH, (first_frame + 50) * 8)
    assert list(RecordLog.open(disk, PATH).records()) == [b"one"]


def test_damage_while_it_is_open_is_noticed() -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"one"])
    disk.flip_bit(PATH, 100)
    with pytest.raises(DamagedRecordLog, match="position 0 is damaged"):
        list(log.records())


def test_an_append_takes_at_least_one_record() -> None:
    log = RecordLog.open(new_disk(), PATH)
    with pytest.raises(ValueError, match="0 records"):
        log.append([])
    with pytest.raises(ValueError, match="0 records"):
        log.replace([])


@pytest.mark.parametrize("index", [4, 9])
def test_truncation_outside_the_records_is_refused(index: int) -> None:
    log = RecordLog.open(new_disk(), PATH)
    log.replace([b"a", b"b"], first_index=5)
    with pytest.raises(ValueError, match="outside the records 5 to 7"):
        log.truncate_to(index)


def test_an_enormous_length_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"x" * 1000])
    monkeypatch.setattr("minikafka.storage.record_log.FRAME_SIZE_BYTES_MAX", 100)
    with pytest.raises(ValueError, match="at most 100 bytes"):
        log.append([b"x" * 1000])
    assert list(RecordLog.open(disk, PATH).records()) == []


@pytest.mark.parametrize("index", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(10))
def test_a_power_failure_during_truncation_loses_no_other_record(index: int, seed: int) -> None:
    step_count = 0
    while True:
        disk = new_disk(seed)
        log = RecordLog.open(disk, PATH)
        log.append([b"zero"])
        log.append([b"one", b"two", b"three"])
        steps = count()

        def fail_at_the_step(operation: str, path: str) -> int | None:
            is_change = operation in {"pwritev", "fsync", "truncate", "rename", "sync_directory"}
            return errno.EIO if is_change and next(steps) == step_count else None  # noqa: B023  # called in this round

        disk.fault = fail_at_the_step
        try:
            log.truncate_to(index)
        except OSError:
            has_failed = True
        else:
            has_failed = False
        disk.crash(power_loss=True)
        survived = list(RecordLog.open(disk, PATH).records())
        before = [b"zero", b"one", b"two", b"three"]
        assert survived in ([before, before[:index]] if has_failed else [before[:index]])
        if not has_failed:
            return
        step_count += 1


def test_an_unsynced_append_that_fails_leaves_nothing() -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"one"])
    disk.fail("pwritev")
    with pytest.raises(OSError, match="on purpose"):
        log.append([b"two"], sync=False)
    disk.heal()
    assert log.append([b"three"]) == 1
    assert list(log.records()) == [b"one", b"three"]


def test_a_closed_log_cannot_be_used() -> None:
    log = RecordLog.open(new_disk(), PATH)
    log.append([b"one"])
    log.close()
    with pytest.raises(OSError, match="before the crash"):
        list(log.records())


# --- a disk that fails --------------------------------------------------------------------------


def records_of(disk: MemoryDisk) -> list[bytes]:
    return list(RecordLog.open(disk, PATH).records())


@pytest.mark.parametrize("sync", [True, False])
def test_a_full_disk_appends_nothing_until_there_is_room(sync: bool) -> None:
    disk = new_disk(capacity_bytes=200)
    log = RecordLog.open(disk, PATH)
    log.append([b"first"], sync=sync)
    with pytest.raises(OSError, match="no space"):
        log.append([b"x" * 500], sync=sync)
    assert log.is_usable
    assert log.append([b"second"], sync=sync) == 1
    assert list(log.records()) == [b"first", b"second"]
    disk.crash()
    assert records_of(disk) == [b"first", b"second"]


@pytest.mark.parametrize("operation", ["fsync", "truncate"])
def test_a_log_of_unknown_content_is_unusable(operation: str) -> None:
    disk = new_disk(capacity_bytes=200)
    log = RecordLog.open(disk, PATH)
    log.append([b"first"])
    disk.fail(operation, PATH)
    with pytest.raises(OSError, match=r"no space|on purpose"):
        log.append([b"x" * (500 if operation == "truncate" else 5)])
    assert not log.is_usable


@pytest.mark.parametrize("operation", ["create", "fsync", "rename", "sync_directory"])
def test_a_failed_snapshot_leaves_a_usable_log(operation: str) -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    log.append([b"a", b"b"])
    failures = iter([True])

    def once(current: str, _path: str) -> int | None:
        return 5 if current == operation and next(failures, False) else None

    disk.fault = once
    with pytest.raises(OSError, match="on purpose"):
        log.replace([b"ab"], first_index=1)
    assert log.is_usable
    log.append([b"c"])
    before = list(log.records())
    assert before in ([b"a", b"b", b"c"], [b"ab", b"c"])
    disk.crash(power_loss=True)
    assert records_of(disk) == before


def test_a_cut_tail_is_kept_in_a_file() -> None:
    disk = new_disk()
    log = RecordLog.open(disk, PATH)
    assert log.may_have_lost
    log.append([b"first"])
    size_bytes = disk.file_size(PATH)
    log.append([b"second"])
    assert not RecordLog.open(disk, PATH).may_have_lost
    damaged = disk.content(PATH)[size_bytes:]
    disk.flip_bit(PATH, 8 * (disk.file_size(PATH) - 1))
    reopened = RecordLog.open(disk, PATH)
    assert reopened.may_have_lost
    assert list(reopened.records()) == [b"first"]
    kept = disk.content(f"{PATH}.cut-at-{size_bytes}")
    assert len(kept) == len(damaged)
    assert kept[:-1] == damaged[:-1]
