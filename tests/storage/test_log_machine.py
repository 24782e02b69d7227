"""A log against a list: random appends, reads, cuts, crashes and damage.

What is checked after every step: nothing is served that was not appended, every offset names the
same record as before, nothing intact is lost, retries are recognised.
"""

import errno
import logging
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from minikafka.storage.disk import FileCache
from minikafka.storage.errors import OutOfOrderSequence, StorageError
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.memory_disk import MemoryDisk
from tests.kit.examples import examples
from tests.storage.batches import NOW_MS, batch_of, read_records

DIRECTORY = "d/t-0"
FAILING_OPERATIONS = (
    "open",
    "create",
    "pwritev",
    "fsync",
    "truncate",
    "rename",
    "remove",
    "sync_directory",
)
CHECKPOINTED = ("recovery_point", "high_watermark", "log_start_offset")


class LogMachine(RuleBasedStateMachine):
    """The model is `records`: offset -> value, of everything that was acknowledged."""

    finished_count = 0

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[int, str] = {}
        self.batch_starts: list[int] = []
        self.log_start = 0
        self.log_end = 0
        self.synced_end = 0  # everything below was flushed and acknowledged as such
        self.known_from = 0  # of the records below nothing is known: they were deleted, then harmed
        # Per producer: (sequence, count, offset) of what it sent.
        self.sequences: dict[int, list[tuple[int, int, int]]] = {7: [], 8: [], 9: []}
        self.value_count = 0
        self.epoch = 0
        self.epochs: dict[int, int] = {}  # offset -> leader epoch, of `records`
        self.recovery_point = 0
        # Per checkpoint file: what one that survives a crash may say, the newest last.
        self.checkpointed: dict[str, list[int]] = {}
        self.now_ms = NOW_MS

    @initialize(seed=st.integers(0, 2**32), segment_bytes=st.sampled_from((400, 1500, 10_000)))
    def begin(self, seed: int, segment_bytes: int) -> None:
        self.disk = MemoryDisk(Random(seed))
        self.disk.now_ms = self.now_ms
        self.disk.make_directory(DIRECTORY)
        self.disk.sync_directory(DIRECTORY)
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
        self.open()
        self.write_checkpoints()

    def open(self) -> None:
        self.log = Log.open(
            FileCache(self.disk, 3),
            DIRECTORY,
            self.config,
            now_ms=self.now_ms,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start,
        )

    @rule()
    def supersede_checkpoints(self) -> None:
        """A checkpoint of now is durable, and no older one comes back."""
        self.checkpointed = {kind: [getattr(self.log, kind)] for kind in CHECKPOINTED}
        cut = self.log.cut_to_supersede()
        if cut is not None:
            cut.marker.remove(cut)

    def new_values(self, count: int) -> list[str]:
        values = [f"value-{self.value_count + i}" for i in range(count)]
        self.value_count += count
        return values

    def remember(self, offset: int, values: Iterable[str]) -> None:
        assert offset == self.log_end
        self.batch_starts.append(offset)
        for value in values:
            self.records[self.log_end] = value
            self.epochs[self.log_end] = self.epoch
            self.log_end += 1

    # --- clients -----------------------------------------------------------------------------

    @rule(count=st.integers(1, 5), padding=st.sampled_from((0, 0, 300)))
    def append(self, count: int, padding: int) -> None:
        values = [value + "x" * padding for value in self.new_values(count)]
        if len(batch_of(*values)) > self.config.segment_bytes:
            values = values[:1]
            values[0] = values[0][:50]
        result = self.log.append_as_leader(
            batch_of(*values), leader_epoch=self.epoch, now_ms=self.now_ms
        )
        assert result.last_offset == result.base_offset + len(values) - 1
        self.remember(result.base_offset, values)

    @rule(draw=st.data(), count=st.integers(1, 3))
    def append_idempotent(self, draw: st.DataObject, count: int) -> None:
        producer_id = draw.draw(st.sampled_from(sorted(self.sequences)))
        sent = self.sequences[producer_id]
        sequence = sent[-1][0] + sent[-1][1] if sent else 0
        values = self.new_values(count)
        result = self.log.append_as_leader(
            batch_of(*values, producer=(producer_id, 0, sequence)),
            leader_epoch=self.epoch,
            now_ms=self.now_ms,
        )
        assert not result.is_duplicate
        sent.append((sequence, count, result.base_offset))
        self.remember(result.base_offset, values)

    @precondition(lambda self: any(self.sequences.values()))
    @rule(draw=st.data())
    def retry(self, draw: st.DataObject) -> None:
        known = [producer_id for producer_id, sent in self.sequences.items() if sent]
        producer_id = draw.draw(st.sampled_from(sorted(known)))
        sequence, count, offset = draw.draw(st.sampled_from(self.sequences[producer_id][-5:]))
        result = self.log.append_as_leader(
            batch_of(*["again"] * count, producer=(producer_id, 0, sequence)),
            leader_epoch=self.epoch,
            now_ms=self.now_ms,
        )
        assert result.is_duplicate
        assert result.base_offset == offset

    @precondition(lambda self: any(self.sequences.values()))
    @rule(draw=st.data(), skipped=st.integers(1, 3))
    def gap_is_refused(self, draw: st.DataObject, skipped: int) -> None:
        known = [producer_id for producer_id, sent in self.sequences.items() if sent]
        producer_id = draw.draw(st.sampled_from(sorted(known)))
        sequence, count, _ = self.sequences[producer_id][-1]
        with pytest.raises(OutOfOrderSequence):
            self.log.append_as_leader(
                batch_of("gap", producer=(producer_id, 0, sequence + count + skipped)),
                leader_epoch=self.epoch,
                now_ms=self.now_ms,
            )

    @rule()
    def new_leader_epoch(self) -> None:
        self.epoch += 1
        self.log.leader_epochs.assign(self.epoch, self.log_end)

    # --- the broker --------------------------------------------------------------------------

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.recovery_point = self.log.recovery_point
        self.synced_end = self.log_end
        assert self.recovery_point == self.log_end

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        target = max(self.log_start, self.log_end - back)
        end = self.log.truncate_to(target)
        assert end <= target
        if end < target:
            assert end in self.batch_starts or end == self.log_start
        self.forget_from(end)
        if end == self.log_start:
            # Everything was removed, perhaps with a batch that began below the log start.
            self.forget_producers(lambda _: True)
        for sent in self.sequences.values():
            while sent and sent[-1][2] >= end:
                sent.pop()

    @rule(draw=st.data())
    def empty_and_start_anywhere(self, draw: st.DataObject) -> None:
        """A new leader's log ends below the start of this one, or starts beyond its end."""
        offset = draw.draw(st.integers(0, self.log_end + 3))
        self.write_checkpoints()
        self.log.truncate_fully_and_start_at(offset, now_ms=self.now_ms)
        self.forget_from(0)
        self.forget_producers(lambda _: True)
        self.log_start = self.log_end = self.known_from = self.recovery_point = offset
        self.synced_end = offset

    def forget_from(self, end: int) -> None:
        for offset in range(end, self.log_end):
            self.records.pop(offset, None)
        self.batch_starts = [start for start in self.batch_starts if start < end]
        self.log_end = end
        self.synced_end = min(self.synced_end, end)
        self.recovery_point = min(self.recovery_point, end)

    def forget_producers(self, is_lost: Callable[[int], bool]) -> None:
        """After a lost batch it is unknown which retries are recognised: use a new producer."""
        for producer_id, sent in list(self.sequences.items()):
            if any(is_lost(offset) for _, _, offset in sent):
                del self.sequences[producer_id]
                self.sequences[producer_id + 100] = []

    @rule(forward=st.integers(0, 8))
    def delete_records(self, forward: int) -> None:
        self.log.high_watermark = self.log_end
        self.log_start = self.log.advance_log_start_offset(
            min(self.log_start + forward, self.log_end)
        )
        self.supersede_checkpoints()  # as a broker does before it answers

    @rule()
    def retention(self) -> None:
        self.log.high_watermark = self.log_end
        self.log.apply_retention(self.now_ms)
        assert self.log.log_start_offset == self.log_start
        self.log.delete_pending_files(self.now_ms + self.config.file_delete_delay_ms)

    # --- faults ------------------------------------------------------------------------------

    @rule()
    def kill(self) -> None:
        """Nothing is lost, not even what was never flushed."""
        self.disk.crash()
        self.open()

    @rule(draw=st.data())
    def kill_before_the_log_start_is_written(self, draw: st.DataObject) -> None:
        """Records that were deleted lately come back, as far as their segments are still there."""
        first = max(self.log.segments[0].base_offset, self.known_from)
        self.log_start = draw.draw(st.integers(min(first, self.log_start), self.log_start))
        self.disk.crash()
        self.open()
        self.log_start = self.log.log_start_offset

    @rule()
    def write_checkpoints(self) -> None:
        for kind in CHECKPOINTED:
            self.checkpointed.setdefault(kind, []).append(getattr(self.log, kind))

    @rule(draw=st.data(), power_loss=st.booleans())
    def crash_with_any_checkpoints(self, draw: st.DataObject, power_loss: bool) -> None:
        """Checkpoints are written at different times, some of them before a cut of the log."""
        recovery_point, high_watermark, log_start = (
            draw.draw(st.sampled_from(self.checkpointed[kind]), label=kind) for kind in CHECKPOINTED
        )
        lowest = min(self.log.segments[0].base_offset, self.log_start)
        log_start = max(log_start, lowest, min(self.known_from, self.log_start))
        if power_loss:
            self.known_from = log_start = self.log_start
        self.disk.crash(power_loss=power_loss)
        self.log = Log.open(
            FileCache(self.disk, 3),
            DIRECTORY,
            self.config,
            now_ms=self.now_ms,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
            log_start_offset=log_start,
        )
        assert self.log.log_start_offset <= self.log_start
        self.log_start = self.log.log_start_offset
        self.recovery_point = self.log.recovery_point
        if power_loss:
            self.accept_power_loss()

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.synced_end = self.log_end
        self.disk.crash()
        self.open()

    @rule()
    def lose_power(self) -> None:
        """Flushed records survive; of the others, a prefix per segment may."""
        self.known_from = self.log_start
        self.disk.crash(power_loss=True)
        self.open()
        self.accept_power_loss()

    def accept_power_loss(self) -> None:
        assert self.log.log_end_offset >= self.synced_end
        assert self.log.log_end_offset <= self.log_end
        survived = {record.offset for record in read_records(self.log)}
        for offset in list(self.records):
            if offset >= self.synced_end and offset not in survived:
                del self.records[offset]
        self.forget_from(self.log.log_end_offset)
        self.forget_producers(lambda offset: offset not in survived)

    @rule(code=st.sampled_from((errno.EIO, errno.ENOSPC)))
    def failing_append(self, code: int) -> None:
        """It is not acknowledged, and the log is offline; after reopening it never happened."""
        self.disk.fail("pwritev", ".log", code=code)
        with pytest.raises(StorageError):
            self.log.append_as_leader(
                batch_of("never"), leader_epoch=self.epoch, now_ms=self.now_ms
            )
        self.disk.heal()
        with pytest.raises(StorageError):
            self.log.append_as_leader(
                batch_of("never"), leader_epoch=self.epoch, now_ms=self.now_ms
            )
        assert self.log.log_end_offset == self.log_end
        self.disk.crash()
        self.open()

    @rule(
        failing=st.sampled_from(FAILING_OPERATIONS),
        countdown=st.integers(0, 6),
        action=st.sampled_from(("append", "roll", "flush", "truncate", "retention", "close")),
        back=st.integers(0, 6),
    )
    def anything_fails(self, failing: str, countdown: int, action: str, back: int) -> None:
        """All such operations fail from the n-th on; then the process is killed."""
        count = 0

        def fault(operation: str, path: str) -> int | None:
            nonlocal count
            count += operation == failing
            return errno.EIO if operation == failing and count > countdown else None

        values = self.new_values(1)
        target = max(self.log_start, self.log_end - back)
        self.log.high_watermark = self.log_end
        self.disk.fault = fault
        try:
            if action == "append":
                batch = batch_of(*values)
                self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=self.now_ms)
            elif action == "roll":
                self.log.roll(self.now_ms)
            elif action == "flush":
                self.log.flush()
            elif action == "truncate":
                self.log.truncate_to(target)
            elif action == "retention":
                self.log.apply_retention(self.now_ms)
            else:
                self.log.close()
            failed = False
        except StorageError:
            failed = True
        assert failed <= (self.log.is_offline is not None)
        self.disk.crash()
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)
        self.open()
        if action == "append" and self.log.log_end_offset > self.log_end:
            self.remember(self.log_end, values)
        elif action == "truncate":
            end = self.log.log_end_offset
            assert end <= self.log_end
            self.forget_from(end)
            self.forget_producers(lambda offset: end == self.log_start or offset >= end)

    @rule(room=st.integers(0, 400))
    def disk_full(self, room: int) -> None:
        used = sum(len(self.disk.content(path)) for path in self.disk.paths())
        self.disk.capacity_bytes = used + room
        values = self.new_values(5)
        try:
            result = self.log.append_as_leader(
                batch_of(*values), leader_epoch=self.epoch, now_ms=self.now_ms
            )
        except StorageError:
            assert self.log.is_offline is not None
            assert self.log.log_end_offset == self.log_end
        else:
            self.remember(result.base_offset, values)
        self.disk.crash()
        self.open()

    @precondition(lambda self: self.log.size_bytes > 0)
    @rule(draw=st.data())
    def flip_bit(self, draw: st.DataObject) -> None:
        """One batch at most is lost; all others keep their offsets."""
        paths = [path for path in self.disk.paths(".log") if self.disk.content(path)]
        path = draw.draw(st.sampled_from(paths))
        self.disk.crash()
        bit = draw.draw(st.integers(0, len(self.disk.content(path)) * 8 - 1))
        self.disk.flip_bit(path, bit)
        self.recovery_point = 0
        self.open()
        self.check_all_but_one_batch()

    @precondition(lambda self: self.log.size_bytes > 0)
    @rule(draw=st.data())
    def flip_bit_of_synced_segment(self, draw: st.DataObject) -> None:
        """Damage is found when it is read, and never served; after reopening the rest is intact."""
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.synced_end = self.log_end
        self.disk.crash()
        paths = [path for path in self.disk.paths(".log") if self.disk.content(path)]
        path = draw.draw(st.sampled_from(paths))
        bit = draw.draw(st.integers(0, len(self.disk.content(path)) * 8 - 1))
        self.disk.flip_bit(path, bit)
        self.open()
        try:
            served = {record.offset: record.value for record in read_records(self.log)}
        except StorageError:
            self.recovery_point = self.log.recovery_point
        else:
            for offset, value in served.items():
                assert value == self.records[offset].encode()
            self.recovery_point = 0
        self.disk.crash()
        self.open()
        self.check_all_but_one_batch()

    def check_all_but_one_batch(self) -> None:
        self.known_from = self.log_start
        survived = {record.offset: record.value for record in read_records(self.log)}
        for offset, value in survived.items():
            assert value == self.records[offset].encode()
        expected = {offset for offset in self.records if offset >= self.log_start}
        lost = expected - survived.keys()
        starts = {max(start for start in self.batch_starts if start <= o) for o in lost}
        assert len(starts) <= 1, f"one flipped bit lost {sorted(lost)}"
        for offset in lost:
            del self.records[offset]
        self.forget_from(self.log.log_end_offset)
        self.forget_producers(lambda offset: offset not in survived)

    @rule(
        suffix=st.sampled_from((".index", ".snapshot", "leader-epoch-checkpoint")), draw=st.data()
    )
    def damage_side_file(self, suffix: str, draw: st.DataObject) -> None:
        """Indexes, snapshots and checkpoints can all be rebuilt."""
        paths = self.disk.paths(suffix)
        if not paths:
            return
        path = draw.draw(st.sampled_from(paths))
        self.disk.crash()
        if draw.draw(st.booleans()) or not self.disk.content(path):
            self.disk.remove(path)
        else:
            bit = draw.draw(st.integers(0, len(self.disk.content(path)) * 8 - 1))
            self.disk.flip_bit(path, bit)
        self.open()
        if suffix == ".snapshot":
            # A snapshot may have been the only trace of producers in deleted segments.
            self.forget_producers(lambda offset: offset < self.log_start)

    def teardown(self) -> None:
        LogMachine.finished_count += 1

    # --- invariants --------------------------------------------------------------------------

    @invariant()
    def everything_is_readable(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.log_start_offset == self.log_start
        assert log.log_end_offset == self.log_end
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        found = {record.offset: record.value for record in read_records(log, size_bytes_max=700)}
        expected = {
            offset: value.encode()
            for offset, value in self.records.items()
            if offset >= self.log_start
        }
        assert found == expected
        epochs = {offset: log.leader_epochs.epoch_for(offset) for offset in found}
        assert epochs == {offset: self.epochs[offset] for offset in found}

    @invariant()
    def segments_are_contiguous(self) -> None:
        if not hasattr(self, "log"):
            return
        segments = self.log.segments
        for segment, following in pairwise(segments):
            assert segment.next_offset == following.base_offset
        assert segments[-1].next_offset == self.log_end

    @precondition(lambda self: self.log_end > self.log_start)
    @rule(draw=st.data(), limit=st.integers(1, 2000))
    def read_anywhere(self, draw: st.DataObject, limit: int) -> None:
        offset = draw.draw(st.integers(self.log_start, self.log_end - 1))
        bound = draw.draw(st.integers(self.log_start, self.log_end))
        read = self.log.read(offset, size_bytes_max=limit, upper_bound_offset=bound)
        if read.records is not None:
            assert read.next_offset <= bound
            assert read.base_offset <= read.next_offset


def test_a_log_behaves_like_a_list(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=examples(80), stateful_step_count=30)
    )
    assert LogMachine.finished_count > 0
