"""Plans with which an external coordinator decides about transactions (KIP-939).

A producer sends, and leaves its transaction open: it is *prepared*. Whoever knows its transactional
id, producer id and epoch can end it, from any process: `end_prepared_transaction`, which needs
nothing new of the broker. Where the broker allows two-phase commit, a prepared transaction does not
time out, and it can be found and decided after a crash: `recover_transaction` and
`complete_transaction`.
"""

from __future__ import annotations

from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.transaction import EPOCH_PER_TRANSACTION, FENCED
from minikafka_client.errors import (
    CommitUnknownError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionStateError,
    TwoPhaseCommitError,
    UnsupportedByBrokerError,
    broker_error,
)
from minikafka_client.plans.ask import Call, Plan
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE
from minikafka_client.plans.transactions import (
    Coordinator,
    Identity,
    ask_transaction_version,
    end_transaction,
)
from minikafka_client.types import (
    PreparedTransactionState,
    RecoveredTransaction,
    TransactionOutcome,
)

TWO_PHASE_COMMIT_VERSION: Final = 6
"""The version of InitProducerId from which transactions can be kept prepared."""

NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout that brokers note for a transaction that somebody else decides about (KIP-939)."""

_FORGOTTEN: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
_NOT_OPEN: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})


def init_two_phase(
    cluster: Cluster,
    coordinator: Coordinator,
    identity: Identity,
    transaction_timeout_ms: int,
    *,
    enable_two_phase_commit: bool,
    keep_prepared: bool,
) -> Plan[RecoveredTransaction]:
    """InitProducerId as KIP-939 has it; fences whoever had the transactional id before.

    Raises:
        TwoPhaseCommitError: the broker does not know two-phase commit, or does not allow it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    transactional_id = identity.transactional_id
    subject = f"two-phase commit for transactional_id {transactional_id!r}"
    if (yield from ask_transaction_version(cluster, coordinator)) < EPOCH_PER_TRANSACTION:
        raise TwoPhaseCommitError(
            f"{subject}: the cluster's feature transaction.version is below 2, so that two "
            f"transactions could have the same name; upgrade the brokers, then the feature"
        )
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=NO_TIMEOUT_MS if enable_two_phase_commit else transaction_timeout_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        enable2_pc=enable_two_phase_commit,
        keep_prepared_txn=keep_prepared,
    )

    def refusal(answer: InitProducerIdResponse) -> KafkaError | None:
        return broker_error(answer.error_code, subject) if answer.error_code else None

    try:
        response = yield from coordinator.ask(
            cluster,
            lambda node: Call(node, request, TWO_PHASE_COMMIT_VERSION),
            InitProducerIdResponse,
            refusal,
        )
    except KafkaError as error:
        told = _refusal(subject, error)
        if told is error:
            raise
        raise told from error
    ongoing = PreparedTransactionState(
        response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
    )
    return RecoveredTransaction(
        transactional_id, response.producer_id, response.producer_epoch, ongoing or None
    )


def _refusal(subject: str, error: KafkaError) -> KafkaError:
    """What those hear who want two-phase commit and do not get it."""
    if error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        told = TwoPhaseCommitError(
            f"{subject}: the broker does not allow it; set transaction.two.phase.commit.enable="
            f"true on all brokers (with ACLs: allow WRITE and TWO_PHASE_COMMIT on the "
            f"transactional id, too)"
        )
    elif isinstance(error, UnsupportedByBrokerError) or error.code is ErrorCode.UNSUPPORTED_VERSION:
        told = TwoPhaseCommitError(
            f"{subject}: the broker does not know it ({error}); use a broker with KIP-939 "
            f"(InitProducerId version 6), or ordinary transactions with a transaction_timeout_ms "
            f"that is longer than the time between preparing and deciding"
        )
    else:
        return error
    told.code = error.code
    return told


def recover_transaction(
    cluster: Cluster,
    transactional_id: str,
    *,
    keep_prepared: bool = True,
    enable_two_phase_commit: bool = True,
    transaction_timeout_ms: int = 60_000,
) -> Plan[RecoveredTransaction]:
    """Take over a transactional id, and find what is prepared there (KIP-939).

    Every producer of the id is fenced. What is prepared stays open with ``keep_prepared``, and can
    be ended with the producer id and epoch that are returned, once (`end_prepared_transaction`);
    without it, it is aborted.

    Args:
        cluster: where.
        transactional_id: whose transaction.
        keep_prepared: do not abort what is open.
        enable_two_phase_commit: transactions of the id do not time out from now on.
        transaction_timeout_ms: the timeout of those that do.

    Raises:
        TwoPhaseCommitError: the broker does not know two-phase commit, or does not allow it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    coordinator = Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
    recovered = yield from init_two_phase(
        cluster,
        coordinator,
        Identity(transactional_id),
        transaction_timeout_ms,
        enable_two_phase_commit=enable_two_phase_commit,
        keep_prepared=keep_prepared,
    )
    return recovered


def end_prepared_transaction(
    cluster: Cluster,
    transactional_id: str,
    prepared: PreparedTransactionState,
    *,
    commits: bool,
) -> Plan[None]:
    """Commit or abort a transaction that its producer has left open, from any process.

    It may be repeated: the same decision about the same transaction succeeds again, until another
    producer begins with the transactional id. The producer that prepared it cannot be used after
    it.

    Args:
        cluster: where.
        transactional_id: whose transaction.
        prepared: its producer id and epoch.
        commits: whether it shall be seen.

    Raises:
        TransactionAbortedError: it cannot be committed: it is aborted.
        TransactionStateError: it cannot be aborted: it is committed.
        FencedError: another producer has begun with the id, which ends what is open; nobody can
            tell from here how this transaction ended.
        CommitUnknownError: the coordinator did not answer in time; repeat it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    coordinator = Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
    version = yield from ask_transaction_version(cluster, coordinator)
    yield from _end(cluster, coordinator, prepared, commits=commits, version=version)


def complete_transaction(
    cluster: Cluster, transactional_id: str, prepared: PreparedTransactionState | None
) -> Plan[TransactionOutcome]:
    """Do what an external coordinator has decided, after a crash (KIP-939).

    Takes over the transactional id. If the transaction that is open there is the one that the
    coordinator has stored, it is committed; if it is another one, or the coordinator has stored
    none, it is aborted.

    Args:
        cluster: where.
        transactional_id: whose transaction.
        prepared: what is stored with the external coordinator's own committed data; None: nothing.

    Returns:
        What was done; `TransactionOutcome.NONE_OPEN` when there was nothing to do: what is stored
        was decided before.

    Raises:
        TwoPhaseCommitError: the broker does not know two-phase commit, or does not allow it.
        FencedError: another one has taken over the transactional id meanwhile.
        CommitUnknownError: the coordinator did not answer in time; repeat it.
        KafkaError: the coordinator refused, or could not be asked in time.
    """
    coordinator = Coordinator(transactional_id, TRANSACTION_KEY_TYPE)
    recovered = yield from init_two_phase(
        cluster,
        coordinator,
        Identity(transactional_id),
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
    coordinator: Coordinator,
    prepared: PreparedTransactionState,
    *,
    commits: bool,
    version: int,
) -> Plan[None]:
    try:
        yield from end_transaction(
            cluster,
            coordinator,
            Identity(coordinator.key, prepared.producer_id, prepared.producer_epoch),
            commits=commits,
            has_own_epochs=version >= EPOCH_PER_TRANSACTION,
        )
    except KafkaError as error:
        raise ending_error(coordinator, prepared, error, commits=commits) from error


def ending_error(
    coordinator: Coordinator,
    prepared: PreparedTransactionState,
    error: KafkaError,
    *,
    commits: bool,
) -> KafkaError:
    """What those hear who could not end a prepared transaction."""
    what = f"the prepared transaction {prepared} of {coordinator.key!r}"
    told: KafkaError
    if error.code in _NOT_OPEN and commits:
        told = TransactionAbortedError(
            f"{what} cannot be committed: it was aborted, by somebody or because it took longer "
            f"than its timeout ({error}); nothing of it will be seen"
        )
    elif error.code in _NOT_OPEN:
        told = TransactionStateError(
            f"{what} cannot be aborted: it is not open, and was not aborted before ({error})"
        )
    elif error.code in FENCED or error.code is _FORGOTTEN:
        told = FencedError(
            f"{what} belongs to nobody any more: another producer has begun with this "
            f"transactional id, or its timeout is over, or the coordinator has forgotten it "
            f"({error}); it is ended, and only what was written can tell how"
        )
    elif error.is_retriable and coordinator.is_unanswered:
        told = CommitUnknownError(f"nobody knows whether {what} is ended: {error}; repeat it")
    else:
        return error
    told.code = error.code
    return told
