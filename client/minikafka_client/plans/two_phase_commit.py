"""Plans for transactions that an external coordinator decides about (KIP-939).

A producer sends, and leaves its transaction open: it is *prepared*. Any process that knows its
transactional id, producer id and epoch can end it: `end_prepared_transaction`, which works with
every broker. Where the broker allows two-phase commit, a prepared transaction does not time out,
and it can be found and decided after a crash: `recover_transaction` and `complete_transaction`.
"""

from __future__ import annotations

from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import init_producer_id
from minikafka_client import errors
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.transaction import EPOCH_PER_TRANSACTION, FENCED
from minikafka_client.plans import transactions
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE
from minikafka_client.plans.plan import Call, Plan
from minikafka_client.types import (
    PreparedTransactionState,
    RecoveredTransaction,
    TransactionOutcome,
)

TWO_PHASE_COMMIT_VERSION: Final = 6
"""The version of InitProducerId from which transactions can be kept prepared."""

NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout that brokers record for an externally decided transaction (KIP-939)."""

_FORGOTTEN: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
_NOT_OPEN: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})


def init_two_phase(
    cluster: Cluster,
    coordinator: transactions.Coordinator,
    identity: transactions.Identity,
    transaction_timeout_ms: int,
    *,
    enable_two_phase_commit: bool,
    keep_prepared: bool,
) -> Plan[RecoveredTransaction]:
    """InitProducerId as in KIP-939; fences the previous producer of the transactional id.

    Raises:
        TwoPhaseCommitError: the broker does not support two-phase commit, or does not allow it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    transactional_id = identity.transactional_id
    subject = f"two-phase commit for transactional_id {transactional_id!r}"
    if (
        yield from transactions.ask_transaction_version(cluster, coordinator)
    ) < EPOCH_PER_TRANSACTION:
        raise errors.TwoPhaseCommitError(
            f"{subject}: the cluster's feature transaction.version is below 2, so that two "
            f"transactions could have the same name; upgrade the brokers, then the feature"
        )
    request = init_producer_id.Request(
        transactional_id=transactional_id,
        transaction_timeout_ms=NO_TIMEOUT_MS if enable_two_phase_commit else transaction_timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        enable2_pc=enable_two_phase_commit,
        keep_prepared_txn=keep_prepared,
    )

    def refusal(answer: init_producer_id.Response) -> errors.KafkaError | None:
        return errors.broker_error(answer.error_code, subject) if answer.error_code else None

    try:
        response = yield from coordinator.ask(
            cluster,
            lambda node: Call(node, request, TWO_PHASE_COMMIT_VERSION),
            init_producer_id.Response,
            refusal,
        )
    except errors.KafkaError as error:
        failure = _refusal(subject, error)
        if failure is error:
            raise
        raise failure from error
    ongoing = PreparedTransactionState(
        response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
    )
    return RecoveredTransaction(
        transactional_id, response.producer_id, response.producer_epoch, ongoing or None
    )


def _refusal(subject: str, error: errors.KafkaError) -> errors.KafkaError:
    if error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        failure = errors.TwoPhaseCommitError(
            f"{subject}: the broker does not allow it; set transaction.two.phase.commit.enable="
            f"true on all brokers (with ACLs: allow WRITE and TWO_PHASE_COMMIT on the "
            f"transactional id, too)"
        )
    elif (
        isinstance(error, errors.UnsupportedByBrokerError)
        or error.code is ErrorCode.UNSUPPORTED_VERSION
    ):
        failure = errors.TwoPhaseCommitError(
            f"{subject}: the broker does not know it ({error}); use a broker with KIP-939 "
            f"(InitProducerId version 6), or ordinary transactions with a transaction_timeout_ms "
            f"that is longer than the time between preparing and deciding"
        )
    else:
        return error
    failure.code = error.code
    return failure


def recover_transaction(
    cluster: Cluster,
    transactional_id: str,
    *,
    keep_prepared: bool = True,
    enable_two_phase_commit: bool = True,
    transaction_timeout_ms: int = 60_000,
) -> Plan[RecoveredTransaction]:
    """Take over a transactional id, and find its prepared transaction (KIP-939).

    Every producer of the id is fenced. With ``keep_prepared`` the transaction stays open, and can
    be ended once with the returned producer id and epoch (`end_prepared_transaction`); without it,
    it is aborted.

    Args:
        cluster: where.
        transactional_id: whose transaction.
        keep_prepared: do not abort the open transaction.
        enable_two_phase_commit: transactions of the id do not time out from now on.
        transaction_timeout_ms: the timeout of those that do.

    Raises:
        TwoPhaseCommitError: the broker does not support two-phase commit, or does not allow it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    coordinator = transactions.Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
    return init_two_phase(
        cluster,
        coordinator,
        transactions.Identity(transactional_id),
        transaction_timeout_ms,
        enable_two_phase_commit=enable_two_phase_commit,
        keep_prepared=keep_prepared,
    )


def end_prepared_transaction(
    cluster: Cluster, transactional_id: str, prepared: PreparedTransactionState, *, commits: bool
) -> Plan[None]:
    """Commit or abort a transaction that its producer has left open, from any process.

    It may be repeated: the same decision about the same transaction succeeds again, until another
    producer starts with the transactional id. The producer that prepared it cannot be used
    afterwards.

    Args:
        cluster: where.
        transactional_id: whose transaction.
        prepared: its producer id and epoch.
        commits: commit or abort.

    Raises:
        TransactionAbortedError: it cannot be committed: it is aborted.
        TransactionStateError: it cannot be aborted: it is committed.
        FencedError: another producer has started with the id, which ended the transaction; its
            outcome cannot be determined from here.
        CommitUnknownError: the coordinator did not answer in time; repeat it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    coordinator = transactions.Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
    version = yield from transactions.ask_transaction_version(cluster, coordinator)
    yield from _end(cluster, coordinator, prepared, commits=commits, version=version)


def complete_transaction(
    cluster: Cluster, transactional_id: str, prepared: PreparedTransactionState | None
) -> Plan[TransactionOutcome]:
    """Carry out what an external coordinator has decided, after a crash (KIP-939).

    Takes over the transactional id. If its open transaction is the one that the coordinator has
    stored, it is committed; if it is another one, or none is stored, it is aborted.

    Args:
        cluster: where.
        transactional_id: whose transaction.
        prepared: what is stored with the external coordinator's own committed data; None: nothing.

    Returns:
        What was done; `TransactionOutcome.NONE_OPEN` if there was nothing to do, because the stored
        transaction was decided before.

    Raises:
        TwoPhaseCommitError: the broker does not support two-phase commit, or does not allow it.
        FencedError: another process has taken over the transactional id meanwhile.
        CommitUnknownError: the coordinator did not answer in time; repeat it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    coordinator = transactions.Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
    recovered = yield from init_two_phase(
        cluster,
        coordinator,
        transactions.Identity(transactional_id),
        NO_TIMEOUT_MS,
        enable_two_phase_commit=True,
        keep_prepared=True,
    )
    if recovered.ongoing is None:
        return TransactionOutcome.NONE_OPEN
    commits = recovered.ongoing == prepared
    decider = PreparedTransactionState(recovered.producer_id, recovered.producer_epoch)
    yield from _end(cluster, coordinator, decider, commits=commits, version=EPOCH_PER_TRANSACTION)
    return TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED


def _end(
    cluster: Cluster,
    coordinator: transactions.Coordinator,
    prepared: PreparedTransactionState,
    *,
    commits: bool,
    version: int,
) -> Plan[None]:
    try:
        yield from transactions.end_transaction(
            cluster,
            coordinator,
            transactions.Identity(coordinator.key, prepared.producer_id, prepared.producer_epoch),
            commits=commits,
            has_own_epochs=version >= EPOCH_PER_TRANSACTION,
        )
    except errors.KafkaError as error:
        raise ending_error(coordinator, prepared, error, commits=commits) from error


def ending_error(
    coordinator: transactions.Coordinator,
    prepared: PreparedTransactionState,
    error: errors.KafkaError,
    *,
    commits: bool,
) -> errors.KafkaError:
    what = f"the prepared transaction {prepared} of {coordinator.key!r}"
    failure: errors.KafkaError
    if error.code in _NOT_OPEN and commits:
        failure = errors.TransactionAbortedError(
            f"{what} cannot be committed: it was aborted, elsewhere or because it took longer "
            f"than its timeout ({error}); none of it will be visible"
        )
    elif error.code in _NOT_OPEN:
        failure = errors.TransactionStateError(
            f"{what} cannot be aborted: it is not open, and was not aborted before ({error})"
        )
    elif error.code in FENCED or error.code is _FORGOTTEN:
        failure = errors.FencedError(
            f"{what} has no owner: another producer has started with this transactional id, or "
            f"its timeout has expired, or the coordinator has forgotten it ({error}); it has "
            f"ended, and only what was written shows how"
        )
    elif error.is_retriable and coordinator.is_unanswered:
        failure = errors.CommitUnknownError(f"{what} may or may not have ended: {error}; repeat it")
    else:
        return error
    failure.code = error.code
    return failure
