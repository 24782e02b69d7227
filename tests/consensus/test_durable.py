"""The files of a quorum node after crashes and damage."""

from __future__ import annotations

import errno
import logging
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.consensus import (
    DurableLog,
    Entry,
    LostEntries,
    Persist,
    PersistEntries,
    PersistSnapshot,
    PersistState,
    QuorumConfig,
)
from minikafka.consensus.durable import LOG_FILE, STATE_FILE, SYNCED_FILE
from minikafka.consensus.messages import EPOCH_MAX
from minikafka.consensus.snapshot import encode_snapshot
from minikafka.storage.checked_file import DamagedFile
from minikafka.storage.errors import StorageError, WrongDataDirectory
from minikafka.storage.memory_disk import MemoryDisk
from minikafka.storage.record_log import DamagedRecordLog
from tests.consensus.machines import entries, epochs_of

THREE = QuorumConfig(1, frozenset({1, 2, 3}), log_memory_size_bytes_max=60)
ALONE = QuorumConfig(1, frozenset({1}))
IDS = count(1)
OBSERVER = QuorumConfig(7, frozenset({1, 2, 3}))


def next_id() -> bytes:
    """Another one for every directory."""
    return next(IDS).to_bytes(16, "big")


def new_disk(seed: int = 1) -> MemoryDisk:
    disk = MemoryDisk(Random(seed))
    disk.make_directory("d")
    disk.sync_directory("d")
    return disk


def open_log(disk: MemoryDisk, config: QuorumConfig = THREE, *, sync: bool = True) -> DurableLog:
    return DurableLog.open(disk, "d", config, new_directory_id=next_id, sync=sync)


def new_log() -> tuple[MemoryDisk, DurableLog]:
    disk = new_disk()
    return disk, open_log(disk)


def store(durable: DurableLog, *effects: Persist, commit_index: int = 0) -> None:
    """As a machine does it: its log changes first."""
    for effect in effects:
        match effect:
            case PersistEntries(first_index=first, entries=new):
                if first <= durable.log.last_index:
                    durable.log.truncate_to(first)
                durable.log.append(new)
            case PersistSnapshot(index=index, epoch=epoch):
                durable.log.replace_by_snapshot(index, epoch)
            case PersistState():
                pass
    durable.write(effects, commit_index)


def read(durable: DurableLog) -> list[Entry]:
    """All entries behind the base."""
    found: list[Entry] = []
    while len(found) < durable.log.last_index - durable.log.base_index:
        found += durable.log.entries(durable.log.base_index + 1 + len(found), 100)
    return found


@pytest.mark.parametrize("sync", [True, False])
def test_everything_written_is_read_back(sync: bool) -> None:
    disk = new_disk()
    durable = open_log(disk, sync=sync)
    assert (durable.epoch, durable.vote, durable.log.last_index) == (0, None, 0)
    store(durable, PersistState(2, 3), PersistEntries(1, entries(1, 1, 2)), commit_index=2)
    store(durable, PersistEntries(3, entries(2, 2)), commit_index=2)
    assert read(durable) == list(entries(1, 1, 2, 2))
    disk.crash()
    again = open_log(disk, sync=sync)
    assert (again.epoch, again.vote, again.commit_index) == (2, 3, 2)
    assert epochs_of(again.log) == [1, 1, 2, 2]
    assert read(again) == list(entries(1, 1, 2, 2))
    assert list(again.committed()) == [(1, entries(1)[0].payload), (2, entries(1)[0].payload)]
    assert again.stored_snapshot() == (0, [])
    assert not again.may_have_lost
    again.close(3)
    assert open_log(disk).commit_index == 3


def test_a_snapshot_takes_the_place_of_entries() -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(1, 1, 2, 2)))
    size_bytes = durable.size_bytes
    durable.compact(3, [b"a", b"b"])
    assert durable.size_bytes < size_bytes
    assert read(durable) == list(entries(2))
    store(durable, PersistEntries(5, entries(2)))
    again = open_log(disk)
    assert again.stored_snapshot() == (3, [b"a", b"b"])
    assert again.snapshot_size_bytes == len(again.read_snapshot())
    assert (again.log.base_index, again.log.base_epoch, again.commit_index) == (3, 2, 3)
    assert read(again) == list(entries(2, 2))


def test_a_snapshot_of_a_leader_takes_the_place_of_everything() -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(*[1] * 9)))
    snapshot = encode_snapshot([b"theirs"])
    store(durable, PersistSnapshot(4, 2, snapshot), commit_index=4)
    disk.crash(power_loss=True)
    again = open_log(disk)
    assert again.stored_snapshot() == (4, [b"theirs"])
    assert (again.log.base_index, again.log.last_index, again.commit_index) == (4, 4, 4)
    store(again, PersistSnapshot(9, 3, snapshot))
    assert again.log.base_index == 9


def test_an_entry_can_be_added_before_a_quorum_of_one_begins() -> None:
    disk = new_disk()
    durable = open_log(disk, ALONE)
    assert durable.may_have_lost
    durable.append_alone(b"restored")
    assert (durable.log.last_index, durable.commit_index) == (1, 1)
    again = open_log(disk, ALONE)
    assert list(again.committed()) == [(1, b"restored")]
    assert again.commit_index == 1


@pytest.mark.parametrize("place", ["state", "entry"])
def test_an_epoch_that_no_elections_can_explain_is_damage(place: str) -> None:
    disk, durable = new_log()
    epoch = EPOCH_MAX + 1
    store(
        durable, PersistState(epoch, 1) if place == "state" else PersistEntries(1, entries(epoch))
    )
    with pytest.raises(StorageError, match=f"epoch {epoch}, which no elections can explain"):
        open_log(disk)


# --- crashes -------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32), dice=st.randoms(use_true_random=False))
def test_power_failures_take_nothing_that_was_promised(seed: int, dice: Random) -> None:
    disk = new_disk(seed)
    durable = open_log(disk)
    promised: list[Entry] = []
    state: tuple[int, int | None] = (0, None)
    for _ in range(12):
        kept = dice.randint(max(0, len(promised) - 2), len(promised))
        epoch = durable.epoch + dice.randint(0, 1)
        new = entries(*[epoch] * dice.randint(1, 3))
        effects: list[Persist] = [PersistState(epoch, 1), PersistEntries(kept + 1, new)]
        failing = dice.choice((-1, -1, *range(12)))
        steps = count()

        def fail(operation: str, path: str) -> int | None:
            return errno.EIO if next(steps) == failing else None  # noqa: B023  # called in this round

        disk.fault = fail
        before = list(promised)
        try:
            store(durable, *effects)
        except OSError:
            disk.crash(power_loss=True)
            durable = open_log(disk)
            promised = read(durable)
            possible = [before[:kept] + list(new[:one]) for one in range(len(new) + 1)]
            assert promised in [before, *possible]
            assert (durable.epoch, durable.vote) in {state, (epoch, 1)}
        else:
            promised = before[:kept] + list(new)
            disk.heal()
            if dice.random() < 0.5:
                disk.crash(power_loss=True)
                durable = open_log(disk)
            assert read(durable) == promised
            assert (durable.epoch, durable.vote) == (epoch, 1)
        state = (durable.epoch, durable.vote)


@pytest.mark.parametrize("operation", ["pwritev", "fsync", "truncate"])
def test_a_failure_that_leaves_the_content_unknown_makes_it_unusable(operation: str) -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(1, 1)))
    assert durable.is_usable
    disk.fail(operation, LOG_FILE)
    with pytest.raises(OSError, match="on purpose"):
        durable.write([PersistEntries(2, entries(2))], 0)
    assert durable.is_usable is (operation == "pwritev")


def test_a_snapshot_that_cannot_be_written_changes_nothing() -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(1, 1, 1)))
    disk.fail("rename")
    with pytest.raises(OSError, match="on purpose"):
        durable.compact(2, [b"a"])
    disk.heal()
    assert durable.is_usable
    assert durable.log.base_index == 0
    assert read(durable) == list(entries(1, 1, 1))
    store(durable, PersistEntries(4, entries(1)))
    assert epochs_of(open_log(disk).log) == [1] * 4


def test_a_snapshot_that_got_its_name_before_the_failure_is_there() -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(1, 1, 1)))
    syncs = count()

    def fail_once(operation: str, path: str) -> int | None:
        return errno.EIO if operation == "sync_directory" and next(syncs) == 0 else None

    disk.fault = fail_once
    durable.compact(2, [b"a"])
    assert durable.log.base_index == 2
    disk.crash(power_loss=True)
    assert open_log(disk).stored_snapshot() == (2, [b"a"])


def test_a_failure_to_store_the_commit_index_on_close_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, durable = new_log()
    disk.fail("pwritev", SYNCED_FILE)
    durable.close()
    assert SYNCED_FILE in caplog.text


# --- damage --------------------------------------------------------------------------------------


def damaged_tail(config: QuorumConfig) -> MemoryDisk:
    """The last entry was synced, and its last bit is another one now."""
    disk = new_disk()
    durable = open_log(disk, config)
    store(durable, PersistEntries(1, entries(1, 1)), commit_index=2)
    disk.crash()
    path = f"d/{LOG_FILE}"
    disk.flip_bit(path, 8 * (disk.file_size(path) - 1))
    return disk


def test_a_voter_that_lost_what_it_had_acknowledged_does_not_start() -> None:
    with pytest.raises(LostEntries, match="must not vote without it"):
        open_log(damaged_tail(THREE))


@pytest.mark.parametrize("config", [ALONE, OBSERVER])
def test_a_node_that_cannot_contradict_others_goes_on_with_what_is_left(
    config: QuorumConfig, caplog: pytest.LogCaptureFixture
) -> None:
    disk = damaged_tail(config)
    durable = open_log(disk, config)
    assert durable.may_have_lost
    assert durable.log.last_index == durable.commit_index == 1
    assert "had been synced up to 3" in caplog.text
    store(durable, PersistEntries(2, entries(1)))
    caplog.clear()
    assert open_log(disk, config).log.last_index == 2
    assert not caplog.records


def test_a_torn_write_is_not_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(1)))
    disk.fail("fsync", LOG_FILE)
    with pytest.raises(OSError, match="on purpose"):
        durable.write([PersistEntries(2, entries(1))], 0)
    disk.crash()
    path = f"d/{LOG_FILE}"
    disk.flip_bit(path, 8 * (disk.file_size(path) - 1))
    again = open_log(disk)
    assert again.log.last_index == 1
    assert "torn" in caplog.text


def test_an_entry_that_is_removed_on_purpose_is_not_a_loss() -> None:
    disk, durable = new_log()
    store(durable, PersistEntries(1, entries(1, 1, 1)))
    store(durable, PersistEntries(2, entries(2)))
    disk.crash(power_loss=True)
    assert epochs_of(open_log(disk).log) == [1, 2]


def test_damage_before_the_end_is_refused() -> None:
    disk = new_disk()
    durable = open_log(disk, ALONE)
    store(durable, PersistEntries(1, entries(1, 1)))
    store(durable, PersistEntries(3, entries(1)))
    disk.crash()
    disk.flip_bit(f"d/{LOG_FILE}", 400)
    with pytest.raises(DamagedRecordLog):
        open_log(disk, ALONE)


@pytest.mark.parametrize("config", [THREE, ALONE])
def test_a_damaged_vote_is_refused_with_what_to_do(config: QuorumConfig) -> None:
    disk = new_disk()
    open_log(disk, config)
    disk.crash()
    disk.flip_bit(f"d/{STATE_FILE}", 50)
    with pytest.raises(DamagedFile, match="could vote twice: restore it from a copy"):
        open_log(disk, config)


def test_a_vote_that_is_missing_is_refused_unless_the_node_is_alone() -> None:
    for config in (THREE, ALONE):
        disk = new_disk()
        store(open_log(disk, config), PersistEntries(1, entries(5)))
        disk.crash()
        disk.remove(f"d/{STATE_FILE}")
        if config is ALONE:
            assert open_log(disk, config).epoch == 5
        else:
            with pytest.raises(LostEntries, match="is missing"):
                open_log(disk, config)


def test_a_log_that_is_missing_is_refused_unless_the_node_is_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for config in (THREE, ALONE):
        disk = new_disk()
        store(open_log(disk, config), PersistState(3, 1), PersistEntries(1, entries(3)))
        disk.crash()
        disk.remove(f"d/{LOG_FILE}")
        if config is ALONE:
            durable = open_log(disk, config)
            assert (durable.epoch, durable.log.last_index) == (3, 0)
            assert durable.may_have_lost
            assert "the disk lost" in caplog.text
        else:
            with pytest.raises(LostEntries):
                open_log(disk, config)


def test_a_damaged_quorum_synced_file_is_not_needed() -> None:
    disk = new_disk()
    store(open_log(disk), PersistEntries(1, entries(1)), commit_index=1)
    disk.crash()
    disk.flip_bit(f"d/{SYNCED_FILE}", 70)
    again = open_log(disk)
    assert (again.log.last_index, again.commit_index) == (1, 0)


def test_a_start_that_was_interrupted_is_no_loss() -> None:
    """Killed before or after any step of the first start, at any number of attempts."""
    for failing in range(40):
        disk = new_disk(failing)
        steps = count()

        def fail(operation: str, path: str) -> int | None:
            return errno.EIO if next(steps) == failing else None  # noqa: B023  # called in this round

        disk.fault = fail
        try:
            open_log(disk)
        except (OSError, StorageError):
            disk.crash(power_loss=failing % 2 == 0)
            assert open_log(disk).log.last_index == 0
        else:
            assert failing > 10
            return
    pytest.fail("the first start takes more than 40 steps")


def test_another_quorum_s_directory_is_refused() -> None:
    disk = new_disk()
    open_log(disk, ALONE)
    disk.crash()
    with pytest.raises(WrongDataDirectory, match="quorum of the voters"):
        open_log(disk, THREE)


def test_logging_is_quiet_at_a_normal_start(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    with caplog.at_level(logging.INFO):
        open_log(disk)
        disk.crash()
        open_log(disk)
    assert not caplog.records
