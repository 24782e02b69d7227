"""What a coordinator stores and answers for a command: pure functions of one entry.

An `Outcome` has the entry to store (None: nothing) and the reply to send when it is committed
(None: decide again after that, because a transaction had to be ended first).

There are two generations of clients (KIP-890). With transaction version 2 every transaction ends
with a greater epoch, markers included, so nothing that was delayed can affect the next one. With
the older version a producer keeps its epoch, and the coordinator raises it only to fence.

When a producer may not have learned its new epoch, the old one is kept as `last_producer_epoch`: a
request with it is a retry, and gets the answer that was lost. Once the new epoch has been used, a
request with the old one comes from a zombie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, assert_never

from minikafka.protocol.errors import ErrorCode

from .config import TransactionConfig
from .effects import AddPartitions, Command, EndTransaction, InitProducer, TransactionReply
from .states import (
    ENDED,
    NO_TIMEOUT_MS,
    PREPARED,
    PRODUCER_EPOCH_MAX,
    TopicPartition,
    TransactionEntry,
    TransactionState,
)

EPOCH_PER_TRANSACTION = 2
"""The transaction version in which every transaction has an epoch of its own (KIP-890)."""


class Scene(NamedTuple):
    """What a decision needs besides the entry.

    ``take_producer_id`` returns an unused producer id, or None if none is available at the moment.
    """

    config: TransactionConfig
    wall_ms: int
    take_producer_id: Callable[[], int | None]


class Outcome(NamedTuple):
    entry: TransactionEntry | None
    reply: TransactionReply | None


def refuse(error_code: ErrorCode) -> Outcome:
    return Outcome(None, TransactionReply(error_code))


# Clients retry after this error; blocks of ids come from the controller.
_NO_PRODUCER_ID = refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def decide(entry: TransactionEntry | None, command: Command, scene: Scene) -> Outcome:
    match command:
        case InitProducer():
            return _init(entry, command, scene)
        case AddPartitions():
            return _add(entry, command, scene)
        case EndTransaction():
            return _end(entry, command, scene)
        case _:
            assert_never(command)


# --- InitProducerId --------------------------------------------------------------------------


def _init(entry: TransactionEntry | None, command: InitProducer, scene: Scene) -> Outcome:
    config = scene.config
    wants_two_phase = command.is_two_phase or command.keeps_prepared
    if wants_two_phase and not config.is_two_phase_commit_enabled:
        return refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    timeout_ms = NO_TIMEOUT_MS if command.is_two_phase else command.timeout_ms
    if not command.is_two_phase and not 0 < timeout_ms <= config.transaction_max_timeout_ms:
        return refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if entry is None:
        producer_id = scene.take_producer_id()
        if producer_id is None:
            return _NO_PRODUCER_ID
        entry = TransactionEntry(
            command.transactional_id, producer_id, 0, timeout_ms, update_ms=scene.wall_ms
        )
        return _began(entry)
    given = (command.producer_id, command.producer_epoch)
    has_given = command.producer_id >= 0
    is_retry = has_given and given in _earlier(entry)
    if has_given and not is_retry and not entry.is_current(*given):
        return refuse(ErrorCode.PRODUCER_FENCED)
    if entry.state is TransactionState.ONGOING:
        if command.keeps_prepared:
            return _keep_prepared(entry, scene)
        aborting = prepare(entry, scene, commits=False, fences=True, may_retry=has_given)
        return _NO_PRODUCER_ID if aborting is None else Outcome(aborting, None)
    if is_retry:
        return Outcome(None, _producer_of(entry))
    changed = entry._replace(
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        start_ms=-1,
        update_ms=scene.wall_ms,
        last_producer_epoch=entry.producer_epoch if has_given else -1,
    )
    if not entry.is_epoch_exhausted:
        return _began(changed._replace(producer_epoch=entry.producer_epoch + 1))
    producer_id = scene.take_producer_id()
    if producer_id is None:
        return _NO_PRODUCER_ID
    return _began(
        changed._replace(
            producer_id=producer_id, producer_epoch=0, previous_producer_id=entry.producer_id
        )
    )


def _earlier(entry: TransactionEntry) -> tuple[tuple[int, int], ...]:
    """Ids and epochs with which the current producer may retry."""
    last = entry.last_producer_epoch
    if last < 0:
        return ()
    # Epochs only rise, so a greater one belongs to the previous producer id.
    is_of_this_id = last < entry.producer_epoch
    return ((entry.producer_id if is_of_this_id else entry.previous_producer_id, last),)


def _producer_of(entry: TransactionEntry) -> TransactionReply:
    return TransactionReply(ErrorCode.NONE, entry.producer_id, entry.producer_epoch)


def _began(entry: TransactionEntry) -> Outcome:
    return Outcome(entry, _producer_of(entry))


def _keep_prepared(entry: TransactionEntry, scene: Scene) -> Outcome:
    """A new producer that will commit or abort the prepared transaction (KIP-939)."""
    producer_id, epoch = entry.producer_id, entry.producer_epoch
    if entry.next_producer_epoch >= 0:
        producer_id, epoch = entry.next_producer_id, entry.next_producer_epoch
    # The next epoch is for the markers, and the one after it for the following transaction.
    if epoch >= PRODUCER_EPOCH_MAX - 2:
        fresh = scene.take_producer_id()
        if fresh is None:
            return _NO_PRODUCER_ID
        producer_id, epoch = fresh, -1
    kept = entry._replace(
        next_producer_id=producer_id, next_producer_epoch=epoch + 1, update_ms=scene.wall_ms
    )
    return Outcome(
        kept,
        TransactionReply(
            ErrorCode.NONE, producer_id, epoch + 1, entry.producer_id, entry.producer_epoch
        ),
    )


# --- AddPartitionsToTxn ----------------------------------------------------------------------


def _add(entry: TransactionEntry | None, command: AddPartitions, scene: Scene) -> Outcome:
    if entry is None or not entry.is_current(command.producer_id, command.producer_epoch):
        return refuse(_mismatch(entry, command))
    if entry.next_producer_epoch >= 0:
        # A prepared transaction that is being recovered takes no more partitions.
        return refuse(ErrorCode.INVALID_TXN_STATE)
    is_open = entry.state is TransactionState.ONGOING
    known: set[TopicPartition] = set(entry.partitions) if is_open else set()
    missing = [one for one in dict.fromkeys(command.partitions) if one not in known]
    if command.verifies_only:
        return refuse(ErrorCode.INVALID_TXN_STATE if missing or not is_open else ErrorCode.NONE)
    if not missing:
        return Outcome(None, TransactionReply(ErrorCode.NONE))
    if is_open:
        changed = entry._replace(partitions=(*entry.partitions, *missing), update_ms=scene.wall_ms)
    else:
        changed = entry._replace(
            state=TransactionState.ONGOING,
            partitions=tuple(missing),
            start_ms=scene.wall_ms,
            update_ms=scene.wall_ms,
            last_producer_epoch=-1,
            transaction_version=command.transaction_version,
        )
    return Outcome(changed, TransactionReply(ErrorCode.NONE))


def _mismatch(entry: TransactionEntry | None, command: AddPartitions | EndTransaction) -> ErrorCode:
    known = () if entry is None else (entry.producer_id, entry.next_producer_id)
    if command.producer_id >= 0 and command.producer_id in known:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING


# --- EndTxn ----------------------------------------------------------------------------------


def _end(entry: TransactionEntry | None, command: EndTransaction, scene: Scene) -> Outcome:
    if entry is None:
        return refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    given = (command.producer_id, command.producer_epoch)
    has_own_epoch = command.transaction_version >= EPOCH_PER_TRANSACTION
    if has_own_epoch and given in _earlier(entry) and entry.state is not TransactionState.ONGOING:
        return _end_again(entry, command)
    if not entry.is_current(*given):
        return refuse(_mismatch(entry, command))
    if entry.state is TransactionState.ONGOING:
        changed = prepare(
            entry,
            scene,
            commits=command.commits,
            fences=has_own_epoch,
            may_retry=has_own_epoch,
        )
    elif has_own_epoch and not command.commits and entry.state in ENDED:
        # The transaction is aborted before any partition was added.
        empty = entry._replace(partitions=(), start_ms=scene.wall_ms, transaction_version=2)
        changed = prepare(empty, scene, commits=False, fences=True, may_retry=True)
    elif has_own_epoch and command.commits and entry.state is TransactionState.COMPLETE_COMMIT:
        # No transaction was begun with this epoch; the committed one belongs to the previous epoch.
        return refuse(ErrorCode.INVALID_TXN_STATE)
    else:
        return _end_again(entry, command)
    if changed is None:
        return _NO_PRODUCER_ID
    return Outcome(changed, _successor_of(changed) if has_own_epoch else _DONE)


def ends_the_next(entry: TransactionEntry, command: EndTransaction) -> bool:
    """Whether EndTxn is about the transaction after the one that is being ended.

    With version 2 the producer already has the epoch of the next transaction, and may abort that
    before the markers of the previous one are written, so before any partition could be added.
    """
    if command.transaction_version < EPOCH_PER_TRANSACTION:
        return False
    successor = _successor_of(entry)
    given = (command.producer_id, command.producer_epoch)
    return given == (successor.producer_id, successor.producer_epoch)


_DONE = TransactionReply(ErrorCode.NONE)
_DECIDED = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


def _end_again(entry: TransactionEntry, command: EndTransaction) -> Outcome:
    """The transaction has already ended: by an earlier try, or by the coordinator."""
    decided = _DECIDED.get(entry.state)
    has_own_epoch = command.transaction_version >= EPOCH_PER_TRANSACTION
    if decided is command.commits:
        return Outcome(None, _successor_of(entry) if has_own_epoch else _DONE)
    if has_own_epoch and command.commits and decided is False:
        # It timed out and was aborted. The producer's own abort will return the new epoch.
        return refuse(ErrorCode.TRANSACTION_ABORTABLE)
    return refuse(ErrorCode.INVALID_TXN_STATE)


def _successor_of(entry: TransactionEntry) -> TransactionReply:
    if entry.next_producer_epoch >= 0:
        return TransactionReply(ErrorCode.NONE, entry.next_producer_id, entry.next_producer_epoch)
    return _producer_of(entry)


# --- the coordinator's own steps ---------------------------------------------------------------


def prepare(
    entry: TransactionEntry, scene: Scene, *, commits: bool, fences: bool, may_retry: bool
) -> TransactionEntry | None:
    """The PREPARE_* entry for an open transaction.

    With ``fences`` its markers have a greater epoch, which the next transaction keeps; with
    ``may_retry`` the producer may not learn of that epoch, and may retry with the old one.

    Returns:
        None if the next producer needs a new id and none is available at the moment.
    """
    producer_id, epoch = entry.producer_id, entry.producer_epoch
    next_producer_id, next_epoch = entry.next_producer_id, entry.next_producer_epoch
    last_epoch = epoch
    if next_epoch >= 0:
        # The producer that recovers it already has an epoch, and gets the next one. It may retry;
        # the producer that prepared the transaction is a zombie.
        last_epoch = next_epoch if next_producer_id == producer_id else -1
        next_epoch += 1
        if next_producer_id == producer_id:
            epoch, next_producer_id, next_epoch = next_epoch, -1, -1
        else:
            epoch += 1
    elif fences:
        if entry.is_epoch_exhausted:
            fresh = scene.take_producer_id()
            if fresh is None:
                return None
            next_producer_id, next_epoch = fresh, 0
        epoch = min(epoch + 1, PRODUCER_EPOCH_MAX)
    return entry._replace(
        state=TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch if may_retry else -1,
        next_producer_id=next_producer_id,
        next_producer_epoch=next_epoch,
        update_ms=scene.wall_ms,
        # Describes the epoch of the markers, however the transaction began.
        transaction_version=EPOCH_PER_TRANSACTION if epoch > entry.producer_epoch else 0,
    )


def complete(entry: TransactionEntry, wall_ms: int) -> TransactionEntry:
    """The COMPLETE_* entry, for when all markers are written."""
    assert entry.state in PREPARED
    has_successor = entry.next_producer_epoch >= 0
    return entry._replace(
        state=(
            TransactionState.COMPLETE_COMMIT
            if entry.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        ),
        producer_id=entry.next_producer_id if has_successor else entry.producer_id,
        producer_epoch=entry.next_producer_epoch if has_successor else entry.producer_epoch,
        previous_producer_id=entry.producer_id if has_successor else entry.previous_producer_id,
        next_producer_id=-1,
        next_producer_epoch=-1,
        partitions=(),
        update_ms=wall_ms,
    )
