"""The state of one transactional id, and its transitions.

    EMPTY            has a producer, but no transaction (yet, or since that producer began)
    ONGOING          partitions were added; may be committed, aborted, or time out
    PREPARE_COMMIT   decided to commit; markers are being written to its partitions
    PREPARE_ABORT    decided to abort; markers are being written
    COMPLETE_COMMIT  all commit markers are written; the next transaction may begin
    COMPLETE_ABORT   all abort markers are written; the next transaction may begin

The PREPARE_* record is the decision: once it is committed, every later coordinator will complete
the transaction that way. Earlier changes may be lost with the coordinator, which leaves the
transaction as it was.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

PRODUCER_EPOCH_MAX: Final = 2**15 - 1
"""The last epoch of a producer id, which only markers use."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Timeout of two-phase commit transactions (KIP-939), which do not time out."""

TopicPartition = tuple[str, int]


class TransactionState(IntEnum):
    """Kafka's numbers, as stored in ``__transaction_state``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
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
"""The states that may follow each state. PREPARE_ABORT follows EMPTY or COMPLETE_* when a client
aborts a transaction to which no partition was added (KIP-890)."""

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
ENDED: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})


class TransactionEntry(NamedTuple):
    """Everything stored about one transactional id; times in milliseconds since 1970.

    Attributes:
        producer_id: of the producer that owns the open transaction, or the next one.
        producer_epoch: of that producer; in PREPARE_*, the epoch of the markers.
        last_producer_epoch: the epoch before this one, if the same producer may still retry with
            it because its answer may have been lost (KIP-360); otherwise -1.
        previous_producer_id: the producer id before this was stored, for readers of the log. If it
            is another one, its epochs were exhausted, and a producer may retry with it.
        next_producer_id: the producer that takes over when the transaction ends: a new producer id
            when the epochs are exhausted, or the producer that recovers a prepared transaction, and
            may also end it (KIP-939); -1 if there is none.
        next_producer_epoch: of that producer.
        timeout_ms: how long a transaction may take; `NO_TIMEOUT_MS` with two-phase commit.
        partitions: of the open transaction, in the order they were added.
        start_ms: when the transaction began, or the last one if none is open; -1 before the first
            one of this producer.
        update_ms: when this was stored.
        transaction_version: 2 if the producer gets a new epoch with every transaction (KIP-890), 0
            if not.
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
        """Whether its transactions never time out (KIP-939)."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs another id; the last epoch is reserved for markers."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    def is_current(self, producer_id: int, producer_epoch: int) -> bool:
        if self.next_producer_epoch >= 0 and self.state not in PREPARED:
            return (producer_id, producer_epoch) == (
                self.next_producer_id,
                self.next_producer_epoch,
            )
        return (producer_id, producer_epoch) == (self.producer_id, self.producer_epoch)

    def stored_after(self, before: TransactionEntry | None) -> TransactionEntry:
        """This entry as it follows another one in the log, where Kafka names the id before it."""
        if self == before:
            return self
        producer_id = self.producer_id if before is None else before.producer_id
        # A producer whose id has just been replaced may retry with the one before.
        may_retry = self.last_producer_epoch >= self.producer_epoch
        if may_retry and producer_id == self.producer_id:
            return self
        if producer_id == self.previous_producer_id:
            return self
        return self._replace(previous_producer_id=producer_id)


def check_change(old: TransactionEntry | None, new: TransactionEntry) -> None:
    """Catch a bug before it is stored.

    Raises:
        RuntimeError: the transition is not allowed, or the epoch goes back.
    """
    if old is None or new == old:
        return
    if new.state not in NEXT_STATES[old.state]:
        raise RuntimeError(f"{old.transactional_id}: {old.state.name} to {new.state.name}")
    if new.producer_id == old.producer_id and new.producer_epoch < old.producer_epoch:
        raise RuntimeError(
            f"{old.transactional_id}: epoch {new.producer_epoch} after {old.producer_epoch}"
        )
