"""A producer's transactions, one after the other (KIP-98, KIP-360, KIP-890).

    state          means                                       leaves it by
    UNINITIALIZED  no producer id yet                          granted -> READY, or PREPARED if
                                                               one was found prepared
    READY          no transaction; nothing may be sent         begin -> OPEN
    OPEN           records and offsets may be sent             commit -> COMMITTING; prepare ->
                                                               PREPARING; abort -> ABORTING; a
                                                               loss -> ABORTABLE
    COMMITTING     sent batches are awaited, then EndTxn       ended -> READY; a loss -> ABORTABLE;
                                                               cancelled before EndTxn -> ABORTING
    PREPARING      sent batches are awaited                    is_prepared -> PREPARED; a loss ->
                                                               ABORTABLE; abort -> ABORTING
    PREPARED       all is stored; the decision is external     ended -> READY; decided otherwise ->
                   (KIP-939)                                   ABORTABLE
    ABORTABLE      something is lost: it cannot be committed   abort -> ABORTING
    ABORTING       unsent batches are dropped, those in        ended -> READY; a failure ->
                   flight are awaited, then EndTxn             ABORTABLE
    FATAL          fenced, or the outcome is unknown           reinitialize -> UNINITIALIZED

Every state leads to FATAL when the coordinator answers that this producer has been replaced.

Two generations of brokers. *Version 0*: a partition is added to the transaction before its first
batch is sent (AddPartitionsToTxn), and the epoch stays the same from one transaction to the next.
*Version 2* (KIP-890): a partition is added by being written to, and EndTxn ends the epoch, so that
a late batch can never become part of another transaction.

With version 0 a transaction in which a batch failed after it was sent cannot just be ended: the
batch's sequence is missing, or it may still arrive. After the abort the producer requests a new
epoch (``needs_new_epoch``), which fences late batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka_client import errors
from minikafka_client.types import GroupMetadata, PreparedTransactionState, TopicPartition

EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which every transaction has an epoch of its own (KIP-890)."""


class TransactionState(Enum):
    UNINITIALIZED = "not initialized"
    READY = "ready"
    OPEN = "open"
    COMMITTING = "being committed"
    PREPARING = "being prepared"
    PREPARED = "prepared"
    ABORTABLE = "to be aborted"
    ABORTING = "being aborted"
    FATAL = "unusable"


_S = TransactionState
TRANSITIONS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset({_S.READY, _S.PREPARED, _S.FATAL}),
    _S.READY: frozenset({_S.OPEN, _S.FATAL}),
    _S.OPEN: frozenset({_S.COMMITTING, _S.PREPARING, _S.ABORTING, _S.ABORTABLE, _S.FATAL}),
    _S.COMMITTING: frozenset({_S.READY, _S.ABORTABLE, _S.ABORTING, _S.FATAL}),
    _S.PREPARING: frozenset({_S.PREPARED, _S.ABORTABLE, _S.ABORTING, _S.FATAL}),
    _S.PREPARED: frozenset({_S.READY, _S.ABORTABLE, _S.FATAL}),
    _S.ABORTABLE: frozenset({_S.ABORTING, _S.FATAL}),
    _S.ABORTING: frozenset({_S.READY, _S.ABORTABLE, _S.FATAL}),
    _S.FATAL: frozenset({_S.UNINITIALIZED}),
}

_SENDING: Final = frozenset({_S.OPEN, _S.COMMITTING, _S.PREPARING})
_LOSABLE: Final = _SENDING | {_S.PREPARED, _S.ABORTING}

FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Errors that mean: another producer with this transactional id has taken over."""

_MEMBERSHIP: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)

_FATAL: Final = FENCED | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


_NOT_COMMITTED: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
"""After these, no earlier request to commit was carried out either."""


class TransactionMachine:
    """The machine; the caller talks to the coordinator and reports the answers.

    Attributes:
        error: why it is ABORTABLE or FATAL.
        version: 0, or `EPOCH_PER_TRANSACTION`.
        producer_id, producer_epoch: of the current transaction, or of the next one.
        prepared: the transaction that waits for a decision; while PREPARED, if anything was sent.
        has_begun: the coordinator may know of the transaction: it has to be ended.
        needs_new_epoch: a batch of this epoch may arrive late, or never.
        added: the partitions in the transaction; unused with version 2.
        adding: those being added; ``wanted``: those to add next.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.error: errors.KafkaError | None = None
        self.version = 0
        self.producer_id = -1
        self.producer_epoch = -1
        self.prepared = PreparedTransactionState()
        self.has_begun = False
        self.needs_new_epoch = False
        self.added: set[TopicPartition] = set()
        self.adding: frozenset[TopicPartition] = frozenset()
        self.wanted: set[TopicPartition] = set()

    def _go(self, state: TransactionState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise self._not_now(f"the transaction cannot become {state.value!r}")
        self.state = state

    def _not_now(self, what: str) -> errors.TransactionStateError:
        return errors.TransactionStateError(
            f"{what}: the producer with transactional_id {self.transactional_id!r} is "
            f"{self.state.value!r}"
        )

    def _waits_for_decision(self, what: str) -> errors.TransactionStateError:
        return errors.TransactionStateError(
            f"{what}: the transaction {str(self.prepared) or '(empty)'} of "
            f"{self.transactional_id!r} is prepared; call complete_transaction with what your own "
            f"committed data says (its prepared state, or None)"
        )

    @property
    def has_own_epochs(self) -> bool:
        """Whether each transaction has an epoch of its own (version 2)."""
        return self.version >= EPOCH_PER_TRANSACTION

    @property
    def is_lost(self) -> bool:
        return self.state in (_S.ABORTABLE, _S.ABORTING, _S.FATAL)

    # --- the application ---

    def begin(self) -> None:
        """Open a transaction, or raise `TransactionStateError` or the fatal error."""
        self.raise_if_fatal()
        if self.state is _S.PREPARED:
            raise self._waits_for_decision("no transaction can begin")
        if self.state is not _S.READY:
            advice = "transactions do not nest; leave the block of the one before first"
            raise self._not_now(f"no transaction can begin now ({advice})")
        self.error = None
        self.has_begun = False
        self.needs_new_epoch = False
        self.added = set()
        self.adding = frozenset()
        self.wanted = set()
        self._go(_S.OPEN)

    def check_open(self) -> None:
        """Refuse to send outside a transaction, or in one that is lost."""
        if self.state is _S.OPEN:
            return
        self.raise_if_fatal()
        if self.state is _S.ABORTABLE:
            raise self.abortable_error()
        if self.state is _S.PREPARED:
            raise self._waits_for_decision("nothing more can be sent")
        raise self._not_now(
            "no transaction is open; send inside `async with producer.transaction()`"
        )

    def raise_if_fatal(self) -> None:
        """Refuse everything after a fatal error, by raising it."""
        if self.state is _S.FATAL:
            assert self.error is not None
            raise self.error

    def abortable_error(self) -> errors.TransactionAbortableError:
        error = errors.TransactionAbortableError(
            f"the transaction of {self.transactional_id!r} cannot be committed, because something "
            f"of it is lost: {self.error}; leave its block and start over"
        )
        error.__cause__ = self.error
        return error

    def reinitialize(self) -> None:
        self._go(_S.UNINITIALIZED)
        self.prepared = PreparedTransactionState()
        self.producer_id = self.producer_epoch = -1

    # --- what becomes of it ---

    def granted(
        self,
        producer_id: int,
        producer_epoch: int,
        version: int,
        ongoing: PreparedTransactionState | None = None,
    ) -> None:
        """InitProducerId is answered: no transaction of this id is open, or the one prepared."""
        self.version = version
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        if ongoing is not None:
            self.prepared = ongoing
            self.has_begun = True
        self._go(_S.READY if ongoing is None else _S.PREPARED)

    def commit(self) -> None:
        """Nothing more is sent; what was sent must arrive. Raises as `check_open`."""
        self.check_open()
        self._go(_S.COMMITTING)

    def prepare(self) -> None:
        """As `commit`, but the decision is external."""
        self.check_open()
        self._go(_S.PREPARING)

    def is_prepared(self) -> PreparedTransactionState:
        """Everything is stored; the result is empty if nothing was sent."""
        if self.has_begun:
            self.prepared = PreparedTransactionState(self.producer_id, self.producer_epoch)
        self._go(_S.PREPARED)
        return self.prepared

    def abort(self) -> None:
        """Abort the transaction; without one this changes nothing. Raises if FATAL."""
        self.raise_if_fatal()
        if self.adding:
            self.needs_new_epoch = True  # the request may still arrive
        self.adding = frozenset()
        self.wanted = set()
        self._go(_S.ABORTING)

    def ended(self, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """EndTxn is answered (or was not needed); with version 2 it names the next identity."""
        if producer_id >= 0:
            self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.prepared = PreparedTransactionState()
        self._go(_S.READY)

    def lose(self, error: errors.KafkaError) -> None:
        """Something of the transaction is lost: it can only be aborted."""
        if self.state in _LOSABLE:
            self.error = error
            self._go(_S.ABORTABLE)

    def fail(self, error: errors.KafkaError) -> errors.KafkaError:
        """The producer cannot be used again; returns what it raises from now on."""
        if self.state is not _S.FATAL:
            if error.code in FENCED:
                fenced = errors.FencedError(
                    f"another producer with transactional_id {self.transactional_id!r} took over "
                    f"(or the transaction took longer than transaction_timeout_ms): {error}; close "
                    f"this one"
                )
                fenced.code = error.code
                fenced.__cause__ = error
                error = fenced
            self.error = error
            self._go(_S.FATAL)
        assert self.error is not None
        return self.error

    def refused(self, error: errors.KafkaError) -> errors.KafkaError:
        """A coordinator has refused something; returns the application's error."""
        if error.code in _FATAL:
            return self.fail(error)
        self.lose(error)
        return self.abortable_error()

    def commit_refused(self, error: errors.KafkaError, *, is_in_doubt: bool) -> None:
        """The coordinator refused to commit, or did not answer in time.

        ``is_in_doubt``: an earlier request may have been carried out.
        """
        is_in_doubt = is_in_doubt or error.code is ErrorCode.UNKNOWN_SERVER_ERROR
        if not is_in_doubt or error.code in _NOT_COMMITTED:
            self.refused(error)
            return
        unknown = errors.CommitUnknownError(
            f"the transaction of {self.transactional_id!r} may or may not be committed: "
            f"{error}; close this producer, open another with the same transactional_id, and read "
            f"what was written (or the committed offsets) to find out"
        )
        unknown.__cause__ = error
        self.fail(unknown)

    def offsets_refused(self, error: errors.KafkaError, member: GroupMetadata) -> errors.KafkaError:
        """A group has refused a member's offsets; returns the application's error."""
        if error.is_retriable:
            self.needs_new_epoch = True  # there was no answer in time: it may still arrive
        if error.code in _MEMBERSHIP:
            self.lose(error)
            failed = errors.CommitFailedError(
                f"group {member.group_id!r} does not take offsets of member {member.member_id!r} "
                f"of generation {member.generation_id}: {error}; the transaction can only be "
                f"aborted, and others may be reading these partitions already"
            )
            failed.code = error.code
            return failed
        if error.code is ErrorCode.FENCED_INSTANCE_ID:
            self.lose(error)
            fenced = errors.FencedError(
                f"another member of group {member.group_id!r} has the group_instance_id "
                f"{member.group_instance_id!r}; stop one of them"
            )
            fenced.code = error.code
            return fenced
        if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            self.lose(error)  # only the transaction's coordinator can say that it is fenced
            return self.abortable_error()
        return self.refused(error)

    # --- batches and partitions ---

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Whether a batch may be sent there; if it has to be added first, it will be."""
        if self.state not in _SENDING:
            return False
        if self.has_own_epochs or partition in self.added:
            return True
        if partition not in self.adding:
            self.wanted.add(partition)
        return False

    def take_wanted(self) -> frozenset[TopicPartition]:
        """The partitions to be added now: those wanted, if no other addition is in flight."""
        if self.adding or not self.wanted or self.state not in _SENDING:
            return frozenset()
        self.adding, self.wanted = frozenset(self.wanted), set()
        self.has_begun = True
        return self.adding

    def partitions_added(self, error: errors.KafkaError | None) -> None:
        """Partitions were added; the answer to an abandoned request means nothing."""
        added, self.adding = self.adding, frozenset()
        if error is None:
            self.added |= added
        elif added:
            self.needs_new_epoch = True
            self.refused(error)

    def delivery_failed(self, error: errors.KafkaError, *, was_sent: bool) -> None:
        self.needs_new_epoch = self.needs_new_epoch or was_sent
        if error.code in _FATAL - {ErrorCode.INVALID_PRODUCER_EPOCH}:
            self.fail(error)
        elif not self.is_lost:
            # INVALID_PRODUCER_EPOCH comes from a partition. The transaction's coordinator decides:
            # perhaps it has only aborted the transaction because it took too long (KIP-588).
            self.lose(error)
