"""What an external coordinator asks about prepared transactions, and what it hears."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka_client.errors import (
    BrokerError,
    CommitUnknownError,
    ConnectionLostError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionStateError,
    TwoPhaseCommitError,
    UnsupportedByBrokerError,
)
from minikafka_client.plans.two_phase_commit import (
    TWO_PHASE_COMMIT_VERSION,
    complete_transaction,
    end_prepared_transaction,
    recover_transaction,
)
from minikafka_client.types import (
    PreparedTransactionState,
    RecoveredTransaction,
    TransactionOutcome,
)
from tests.client.plans.scripted import Script

PREPARED = PreparedTransactionState(7, 3)


def script(*, level: int = 2, retries_max: int = 3) -> Script:
    answers = Script(retries_max=retries_max)
    versions = ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=key, min_version=0, max_version=last)
            for key, last in ((0, 12), (26, 5), (28, 5))
        ],
        finalized_features=[
            FinalizedFeatureKey(
                name="transaction.version", max_version_level=level, min_version_level=level
            )
        ],
    )
    answers.on(ApiVersionsRequest, versions)
    return answers


def granted(ongoing: PreparedTransactionState | None = None) -> InitProducerIdResponse:
    producer_id, epoch = ongoing or (-1, -1)
    return InitProducerIdResponse(
        error_code=0,
        producer_id=7,
        producer_epoch=4,
        ongoing_txn_producer_id=producer_id,
        ongoing_txn_producer_epoch=epoch,
    )


def ended(code: int = 0) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=7, producer_epoch=5)


# --- the state as a text ---


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
def test_a_prepared_state_is_a_text_and_back(producer_id: int, epoch: int) -> None:
    state = PreparedTransactionState(producer_id, epoch)
    assert state
    assert str(state) == f"{producer_id}:{epoch}"
    assert PreparedTransactionState.parse(str(state)) == state


def test_no_state_is_an_empty_text() -> None:
    state = PreparedTransactionState.parse("")
    assert not state
    assert not str(state)


@pytest.mark.parametrize(
    "text", ["7", "7:", ":3", "7:3:1", "-1:-1", "7:x", " 7:3", "7:32768", f"{2**63}:0", "٧:3"]
)
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCER_ID:EPOCH"):
        PreparedTransactionState.parse(text)


# --- recovering ---


@pytest.mark.parametrize("ongoing", [None, PREPARED])
@pytest.mark.parametrize("keep_prepared", [True, False])
def test_recovering_tells_what_is_open(
    ongoing: PreparedTransactionState | None, keep_prepared: bool
) -> None:
    answers = script()
    answers.on(InitProducerIdRequest, granted(ongoing))
    found = answers.run(
        lambda cluster: recover_transaction(cluster, "id", keep_prepared=keep_prepared)
    )
    assert found == RecoveredTransaction("id", 7, 4, ongoing)
    [asked] = answers.asked(InitProducerIdRequest)
    assert (asked.enable2_pc, asked.keep_prepared_txn) == (True, keep_prepared)
    assert (asked.producer_id, asked.producer_epoch) == (-1, -1)
    assert answers.calls[-1].version_min == TWO_PHASE_COMMIT_VERSION


def test_transactions_with_a_timeout_can_be_recovered_too() -> None:
    answers = script()
    answers.on(InitProducerIdRequest, granted())
    answers.run(
        lambda cluster: recover_transaction(
            cluster, "id", enable_two_phase_commit=False, transaction_timeout_ms=5_000
        )
    )
    [asked] = answers.asked(InitProducerIdRequest)
    assert (asked.enable2_pc, asked.transaction_timeout_ms) == (False, 5_000)


@pytest.mark.parametrize(
    "answer",
    [
        UnsupportedByBrokerError("InitProducerId 0-5"),
        InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, producer_epoch=-1),
    ],
)
def test_a_broker_that_does_not_know_it_is_named(
    answer: UnsupportedByBrokerError | InitProducerIdResponse,
) -> None:
    answers = script()
    answers.on(InitProducerIdRequest, answer)
    with pytest.raises(TwoPhaseCommitError, match="use a broker with KIP-939"):
        answers.run(lambda cluster: recover_transaction(cluster, "id"))


def test_a_cluster_whose_epochs_are_not_unique_is_refused_before_anybody_is_fenced() -> None:
    answers = script(level=1)
    with pytest.raises(TwoPhaseCommitError, match=r"transaction\.version"):
        answers.run(lambda cluster: complete_transaction(cluster, "id", PREPARED))
    assert answers.asked(InitProducerIdRequest) == []


def test_a_broker_that_does_not_allow_it_is_told_how_it_could() -> None:
    answers = script()
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answers.on(InitProducerIdRequest, InitProducerIdResponse(error_code=code, producer_epoch=-1))
    with pytest.raises(TwoPhaseCommitError, match=r"transaction\.two\.phase\.commit\.") as caught:
        answers.run(lambda cluster: recover_transaction(cluster, "id"))
    assert caught.value.code is code


def test_other_refusals_are_told_as_they_are() -> None:
    answers = script()
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    answers.on(InitProducerIdRequest, InitProducerIdResponse(error_code=code, producer_epoch=-1))
    with pytest.raises(BrokerError) as caught:
        answers.run(lambda cluster: recover_transaction(cluster, "id"))
    assert caught.value.code is code


# --- ending ---


@pytest.mark.parametrize(("level", "versions"), [(2, (5, 5)), (0, (0, 4))])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_is_ended_by_its_names(
    level: int, versions: tuple[int, int], commits: bool
) -> None:
    answers = script(level=level)
    answers.on(EndTxnRequest, ended(ErrorCode.CONCURRENT_TRANSACTIONS), ended())
    answers.run(lambda cluster: end_prepared_transaction(cluster, "id", PREPARED, commits=commits))
    asked = answers.asked(EndTxnRequest)
    assert len(asked) == 2
    assert (asked[1].transactional_id, asked[1].producer_id, asked[1].producer_epoch) == (
        "id",
        7,
        3,
    )
    assert asked[1].committed is commits
    call = answers.calls[-1]
    assert (call.version_min, min(call.version_max, 5)) == versions


@pytest.mark.parametrize(
    ("code", "commits", "expected"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, True, TransactionAbortedError),
        (ErrorCode.INVALID_TXN_STATE, True, TransactionAbortedError),
        (ErrorCode.INVALID_TXN_STATE, False, TransactionStateError),
        (ErrorCode.PRODUCER_FENCED, True, FencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False, FencedError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, FencedError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, BrokerError),
    ],
)
def test_those_who_cannot_end_it_hear_why(
    code: ErrorCode, commits: bool, expected: type[KafkaError]
) -> None:
    answers = script()
    answers.on(EndTxnRequest, ended(code))
    with pytest.raises(expected) as caught:
        answers.run(
            lambda cluster: end_prepared_transaction(cluster, "id", PREPARED, commits=commits)
        )
    assert caught.value.code is code


def test_without_an_answer_nobody_knows() -> None:
    answers = script()
    answers.on(EndTxnRequest, ConnectionLostError("lost"))
    with pytest.raises(CommitUnknownError, match="repeat it"):
        answers.run(lambda cluster: end_prepared_transaction(cluster, "id", PREPARED, commits=True))


# --- completing ---


@pytest.mark.parametrize(
    ("stored", "commits"),
    [(PREPARED, True), (PreparedTransactionState(7, 2), False), (None, False)],
)
def test_what_is_stored_is_committed_and_what_is_not_is_aborted(
    stored: PreparedTransactionState | None, commits: bool
) -> None:
    answers = script()
    answers.on(InitProducerIdRequest, granted(PREPARED))
    answers.on(EndTxnRequest, ended())
    outcome = answers.run(lambda cluster: complete_transaction(cluster, "id", stored))
    assert outcome is (TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED)
    [asked] = answers.asked(EndTxnRequest)
    assert (asked.producer_id, asked.producer_epoch, asked.committed) == (7, 4, commits)


def test_when_nothing_is_open_nothing_is_ended() -> None:
    answers = script()
    answers.on(InitProducerIdRequest, granted())
    outcome = answers.run(lambda cluster: complete_transaction(cluster, "id", PREPARED))
    assert outcome is TransactionOutcome.NONE_OPEN
    assert answers.asked(EndTxnRequest) == []
