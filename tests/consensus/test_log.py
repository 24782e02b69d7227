"""The machine's view of the log, against a plain list."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from minikafka.consensus import Entry, RaftLog

payloads = st.binary(max_size=40).filter(lambda one: not one.startswith(b"\xc1"))


class LogMachine(RuleBasedStateMachine):
    """The model: all entries from 1 on, whatever is compacted; the base is only a number."""

    finished_count = 0

    def read(self, first: int, end: int, size_bytes_max: int) -> Sequence[Entry]:
        assert self.base < first < end
        assert end <= len(self.stored) + 1
        chosen = self.stored[first - 1 : end - 1]
        return chosen[: max(1, size_bytes_max // 60)]

    @initialize(memory=st.sampled_from([0, 30, 100, 10**6]))
    def begin(self, memory: int) -> None:
        self.base = 0
        self.base_epoch = 0
        self.stored: list[Entry] = []  # by index - 1
        self.model: list[Entry] = []
        self.log = RaftLog(0, 0, (), self.read, memory)

    @rule(count=st.integers(1, 4), newer=st.booleans(), payload=payloads)
    def append(self, count: int, newer: bool, payload: bytes) -> None:
        epoch = self.log.last_epoch + newer
        new = [Entry(epoch, payload + bytes([number])) for number in range(count)]
        self.log.append(new)
        self.model += new

    @rule()
    def store_and_forget(self) -> None:
        self.stored = list(self.model)
        self.log.forget_old()

    @precondition(lambda self: len(self.model) > self.base)
    @rule(dice=st.randoms(use_true_random=False))
    def truncate(self, dice: Random) -> None:
        index = dice.randint(self.base + 1, len(self.model))
        self.log.truncate_to(index)
        del self.model[index - 1 :]
        del self.stored[index - 1 :]

    @precondition(lambda self: len(self.stored) > self.base)
    @rule(dice=st.randoms(use_true_random=False))
    def compact(self, dice: Random) -> None:
        self.stored = list(self.model)
        index = dice.randint(self.base + 1, len(self.model))
        self.log.compact(index)
        self.base, self.base_epoch = index, self.model[index - 1].epoch

    @rule(ahead=st.integers(0, 5), newer=st.integers(0, 2))
    def install_a_snapshot(self, ahead: int, newer: int) -> None:
        epoch = self.log.last_epoch + newer
        index = len(self.model) + ahead
        self.log.replace_by_snapshot(index, epoch)
        self.model = [Entry(epoch, b"in the snapshot")] * index
        self.stored = list(self.model)
        self.base, self.base_epoch = index, epoch

    @rule(memory=st.sampled_from([0, 30, 10**6]))
    def open_again(self, memory: int) -> None:
        self.stored = list(self.model)
        self.log = RaftLog(self.base, self.base_epoch, self.model[self.base :], self.read, memory)

    @invariant()
    def it_agrees_with_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        log, last = self.log, len(self.model)
        assert (log.base_index, log.last_index) == (self.base, last)
        assert log.base_epoch == self.base_epoch
        epochs = {self.base: self.base_epoch} | {
            index: self.model[index - 1].epoch for index in range(self.base + 1, last + 1)
        }
        assert log.last_epoch == epochs[last]
        for index, epoch in epochs.items():
            assert log.epoch_at(index) == epoch
            assert log.matches(index, epoch)
            assert not log.matches(index, epoch + 1)
        assert not log.matches(self.base - 1, self.base_epoch)
        assert not log.matches(last + 1, log.last_epoch)
        for index in range(self.base + 1, last + 1):
            if index <= len(self.stored) or log.is_in_memory(index):
                self.look_at_entries(index)
        for epoch in range(log.last_epoch + 2):
            self.look_for_agreement(epoch, epochs)

    def look_at_entries(self, index: int) -> None:
        for size_bytes_max in (0, 70, 10**6):
            chosen = self.log.entries(index, size_bytes_max)
            assert chosen
            assert list(chosen) == self.model[index - 1 : index - 1 + len(chosen)]
        everything = self.log.entries(index, 10**6)
        if self.log.is_in_memory(index):
            assert len(everything) == len(self.model) - index + 1

    def look_for_agreement(self, epoch: int, epochs: dict[int, int]) -> None:
        for index in (0, self.base, (self.base + len(self.model)) // 2, len(self.model) + 3):
            found = self.log.last_not_after(index, epoch)
            fitting = [one for one in epochs if one <= index and epochs[one] <= epoch]
            best = max(fitting, default=self.base)
            assert found == (best, epochs[best])

    def teardown(self) -> None:
        LogMachine.finished_count += 1


def test_the_log_behaves_like_a_list() -> None:
    run_state_machine_as_test(LogMachine)
    assert LogMachine.finished_count > 0


def test_a_log_is_behind_one_of_a_later_epoch_or_of_the_same_and_as_long() -> None:
    log = RaftLog(0, 0, [Entry(1, b""), Entry(3, b"")], lambda *_: [], 10**6)
    assert log.is_behind(3, 2)
    assert log.is_behind(4, 1)
    assert not log.is_behind(3, 1)
    assert not log.is_behind(2, 9)
