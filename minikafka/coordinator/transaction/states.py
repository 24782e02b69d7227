"""What a coordinator knows of one transactional id, and how that may change.

    EMPTY            has a producer, and no transaction yet (or none since the last one expired)
    ONGOING          partitions were added; may be committed, aborted, or time out
    PREPARE_COMMIT   decided: it will be committed; markers are being written to its partitions
    PREPARE_ABORT    decided: it will be aborted; likewise
    COMPLETE_COMMIT  all markers are written; the next transaction may begin
    COMPLETE_ABORT   likewise

The decision is the record with PREPARE_*: once it is committed the transaction can only go that
way, whoever coordinates it. Everything before may be lost with the coordinator, and then the
transaction is as it was.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

PRODUCER_EPOCH_MAX: Final = 2**15 - 1
"""Ends a producer id: only markers have it."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Timeout of transactions that somebody else decides about (KIP-939): they do not time out."""

TopicPartition = tuple[str, int]


class TransactionState(IntEnum):
    """Kafka's numbers, as they stand in ``__transaction_state``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """As DescribeTransactions and ListTransactions write it."""
        return self.name.title().replace("_", "")


_S = TransactionState

NEXT_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT}),
}
"""Which state may follow which. PREPARE_ABORT after EMPTY or COMPLETE_*: the client aborts a
transaction that it began and that no partition was added to (KIP-890)."""

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
ENDED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})


class TransactionEntry(NamedTuple):
    """Everything stored about one transactional id; times in milliseconds since 1970.

    Attributes:
        transactional_id: whose it is.
        producer_id: of its producer; of the open transaction, while there is one.
        producer_epoch: likewise. While PREPARE_*, the epoch of the markers, and after it the one
            that the next transaction has.
        last_producer_epoch: the epoch before it, if the same producer may still come with it: its
            answer may have been lost (KIP-360). -1 if not.
        previous_producer_id: the producer id before this one, if its epochs were used up; -1.
        next_producer_id: who may decide about the transaction instead of its own producer, and
            goes on after it: a new producer id when the epochs are used up, or the producer that
            recovers a prepared transaction (KIP-939); -1 for nobody.
        next_producer_epoch: likewise.
        timeout_ms: how long a transaction may take; `NO_TIMEOUT_MS` with two-phase commit.
        state: see the module.
        partitions: of the open transaction, in the order they were added.
        start_ms: when it began, -1 when there is none.
        update_ms: when this was stored.
        transaction_version: 2 if the client ends its epoch with every transaction (KIP-890), 0 if
            not.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = -1
    update_ms: int = -1
    last_producer_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    next_producer_epoch: int = -1
    transaction_version: int = 0

    @property
    def is_two_phase(self) -> bool:
        """Whether its transactions wait for a decision as long as it takes (KIP-939)."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs another id; the last epoch is kept for markers."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    def is_current(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a request comes from the producer that may act now."""
        if self.next_producer_epoch >= 0 and self.state not in PREPARED:
            return (producer_id, producer_epoch) == (
                self.next_producer_id,
                self.next_producer_epoch,
            )
        return (producer_id, producer_epoch) == (self.producer_id, self.producer_epoch)


def check_change(old: TransactionEntry | None, new: TransactionEntry) -> None:
    """Refuse a change that the table does not have: a bug, found before it is stored.

    Raises:
        RuntimeError: the state cannot follow, or the epoch goes back.
    """
    if old is None or new == old:
        return
    if new.state not in NEXT_STATES[old.state]:
        raise RuntimeError(f"{old.transactional_id}: {old.state.name} to {new.state.name}")
    if new.producer_id == old.producer_id and new.producer_epoch < old.producer_epoch:
        raise RuntimeError(
            f"{old.transactional_id}: epoch {new.producer_epoch} after {old.producer_epoch}"
        )
