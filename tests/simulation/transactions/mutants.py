"""Coordinators and partitions without one of their guards; the simulation has to notice each."""

from __future__ import annotations

from typing import Any

from minikafka.coordinator.transaction.effects import AddPartitions, Ask, Reply, TransactionReply
from minikafka.coordinator.transaction.shard import TransactionShard
from minikafka.coordinator.transaction.states import TransactionEntry
from minikafka.storage.log import Log
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.transactions import TransactionState, Verification
from tests.simulation.kit.mutants import Mutant, always
from tests.simulation.transactions.world import Coordinator

_write = TransactionShard._write
_apply = TransactionShard._apply
_verify = TransactionState.verify
_check = ProducerStateManager.check_transaction


def answer_before_the_commit(
    self: Any,
    transactional_id: str,
    entry: TransactionEntry | None,
    asker: Ask | None = None,
    reply: TransactionReply | None = None,
) -> None:
    if asker is not None and reply is not None:
        self._effects.append(Reply(asker.token, reply))
        asker = None
    _write(self, transactional_id, entry, asker, reply)


def tell_before_the_commit(
    self: Any,
    transactional_id: str,
    entry: TransactionEntry | None,
    asker: Ask | None = None,
    reply: TransactionReply | None = None,
) -> None:
    """Only AddPartitions is answered early."""
    is_early = asker is not None and isinstance(asker.command, AddPartitions)
    write = answer_before_the_commit if is_early else _write
    write(self, transactional_id, entry, asker, reply)


def keep_the_completion(self: Any, transactional_id: str, entry: TransactionEntry | None) -> None:
    kept = dict(self._completions)
    _apply(self, transactional_id, entry)
    self._completions.update(kept)


def complete_unmarked(self: Any, entry: TransactionEntry) -> None:
    if not self._writes.of(entry.transactional_id):
        self._complete(entry)


def is_any_epoch_current(self: TransactionEntry, producer_id: int, _: int) -> bool:
    return producer_id == self.producer_id


def verify_unless_open(
    self: TransactionState, producer_id: int, epoch: int, sequence: int = -1
) -> Verification | None:
    is_open = self.open_of(producer_id) is not None
    return None if is_open else _verify(self, producer_id, epoch, sequence)


def check_unless_open(self: ProducerStateManager, header: Any) -> None:
    if self.transactions.open_of(header.producer_id) is None:
        _check(self, header)


SEEDS = 200
"""Most show themselves in the first six, an old memory in one of seventy."""

any_marker = Mutant(
    "a marker is appended whatever its epoch is",
    SEEDS,
    ((ProducerStateManager, "check_marker", always(True)),),
)
high_watermark_is_stable = Mutant(
    "read_committed goes up to the high watermark",
    SEEDS,
    ((Log, "last_stable_offset", Log.high_watermark),),
)
nothing_is_fenced = Mutant(
    "any epoch of the producer may act",
    SEEDS,
    ((TransactionEntry, "is_current", is_any_epoch_current),),
)

MUTANTS = (
    any_marker,
    Mutant(
        "a transaction's first batch is appended without asking its coordinator",
        SEEDS,
        (
            (TransactionState, "verify", always(None)),
            (ProducerStateManager, "check_transaction", always(None)),
        ),
    ),
    high_watermark_is_stable,
    Mutant(
        "the coordinator answers when its decision is appended",
        SEEDS,
        ((TransactionShard, "_write", answer_before_the_commit),),
    ),
    nothing_is_fenced,
    Mutant(
        "a batch goes into the transaction whose marker is still on its way",
        SEEDS,
        (
            (TransactionState, "verify", verify_unless_open),
            (ProducerStateManager, "check_transaction", check_unless_open),
        ),
    ),
    Mutant(
        "a partition is told that it was added before that is committed",
        SEEDS,
        ((TransactionShard, "_write", tell_before_the_commit),),
    ),
    Mutant(
        "the completion that was encoded ahead is used for the next transaction, too",
        SEEDS,
        ((TransactionShard, "_apply", keep_the_completion),),
    ),
    Mutant(
        "a transaction is complete before its markers are written",
        SEEDS,
        ((TransactionShard, "_complete_if_marked", complete_unmarked),),
    ),
    Mutant(
        "a coordinator that was cut off answers from memory",
        SEEDS,
        ((Coordinator, "_is_sure", always(True)),),
        first=60,
    ),
)
