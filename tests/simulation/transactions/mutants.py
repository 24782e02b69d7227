"""Coordinators and partitions without one of their guards; the simulation has to notice each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.coordinator.transaction import shard as shard_module
from minikafka.coordinator.transaction.effects import Ask, Reply, TransactionReply
from minikafka.coordinator.transaction.states import TransactionEntry
from minikafka.storage.log_state import LogState
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.transactions import TransactionState, Verification
from tests.simulation.transactions.world import Coordinator

Mutant = Callable[[pytest.MonkeyPatch], None]


def markers_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """A marker is appended whatever its epoch is."""
    patch.setattr(ProducerStateManager, "check_marker", lambda *_: True)


def no_verification(patch: pytest.MonkeyPatch) -> None:
    """A transaction's first batch is appended without asking its coordinator."""
    patch.setattr(TransactionState, "verify", lambda *_: None)
    patch.setattr(ProducerStateManager, "check_transaction", lambda *_: None)


def high_watermark_is_stable(patch: pytest.MonkeyPatch) -> None:
    """read_committed goes up to the high watermark."""
    patch.setattr(LogState, "last_stable_offset", LogState.high_watermark)


def answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """The coordinator answers when its decision is appended."""
    write = shard_module.TransactionShard._write

    def write_and_answer(
        self: Any,
        transactional_id: str,
        entry: TransactionEntry | None,
        asker: Ask | None = None,
        reply: TransactionReply | None = None,
    ) -> None:
        if asker is not None and reply is not None:
            self._effects.append(Reply(asker.token, reply))
            asker = None
        write(self, transactional_id, entry, asker, reply)

    patch.setattr(shard_module.TransactionShard, "_write", write_and_answer)


def nobody_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """Any epoch of the producer may act."""
    patch.setattr(
        TransactionEntry, "is_current", lambda self, producer_id, _: producer_id == self.producer_id
    )


def open_whatever_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """A batch of the next transaction goes into the one whose marker is still on its way."""
    verify = TransactionState.verify

    def careless(
        self: TransactionState, producer_id: int, epoch: int, sequence: int = -1
    ) -> Verification | None:
        is_open = self.open_of(producer_id) is not None
        return None if is_open else verify(self, producer_id, epoch, sequence)

    patch.setattr(TransactionState, "verify", careless)
    check = ProducerStateManager.check_transaction

    def careless_check(self: ProducerStateManager, header: Any) -> None:
        if self.transactions.open_of(header.producer_id) is None:
            check(self, header)

    patch.setattr(ProducerStateManager, "check_transaction", careless_check)


def old_coordinators_answer_from_memory(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that was cut off tells what it last knew."""
    patch.setattr(Coordinator, "_is_sure", lambda *_: True)


MUTANTS: tuple[Mutant, ...] = (
    markers_of_any_epoch,
    no_verification,
    high_watermark_is_stable,
    answers_before_the_commit,
    nobody_is_fenced,
    open_whatever_the_epoch,
    old_coordinators_answer_from_memory,
)
