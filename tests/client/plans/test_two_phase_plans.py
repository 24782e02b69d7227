"""What an external coordinator does with prepared transactions, and the errors it gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, end_txn, init_producer_id
from minikafka_client import errors, types
from minikafka_client.plans import two_phase_commit
from tests.client.plans.answers import ended, granted, versions
from tests.client.plans.scripted import Script

PREPARED = types.PreparedTransactionState(7, 3)


def script(*, level: int = 2, retries_max: int = 3) -> Script:
    return Script(retries_max=retries_max).on(api_versions.Request, versions(level=level))


# --- the state as a text ---


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
def test_a_prepared_state_is_a_text_and_back(producer_id: int, epoch: int) -> None:
    state = types.PreparedTransactionState(producer_id, epoch)
    assert state
    assert str(state) == f"{producer_id}:{epoch}"
    assert types.PreparedTransactionState.parse(str(state)) == state


def test_no_state_is_an_empty_text() -> None:
    state = types.PreparedTransactionState.parse("")
    assert not state
    assert not str(state)


@pytest.mark.parametrize(
    "text", ["7", "7:", ":3", "7:3:1", "-1:-1", "7:x", " 7:3", "7:32768", f"{2**63}:0", "٧:3"]
)
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCER_ID:EPOCH"):
        types.PreparedTransactionState.parse(text)


# --- recovering ---


@pytest.mark.parametrize("ongoing", [None, PREPARED])
@pytest.mark.parametrize("keep_prepared", [True, False])
def test_recovering_finds_what_is_open(
    ongoing: types.PreparedTransactionState | None, keep_prepared: bool
) -> None:
    answers = script().on(init_producer_id.Request, granted(ongoing=ongoing))
    found = answers.run(two_phase_commit.recover_transaction, "id", keep_prepared=keep_prepared)
    assert found == types.RecoveredTransaction("id", 7, 4, ongoing)
    [asked] = answers.asked(init_producer_id.Request)
    assert (asked.enable2_pc, asked.keep_prepared_txn) == (True, keep_prepared)
    assert (asked.producer_id, asked.producer_epoch) == (-1, -1)
    assert answers.calls[-1].version_min == two_phase_commit.TWO_PHASE_COMMIT_VERSION


def test_transactions_with_a_timeout_can_be_recovered_too() -> None:
    answers = script().on(init_producer_id.Request, granted())
    answers.run(
        two_phase_commit.recover_transaction,
        "id",
        enable_two_phase_commit=False,
        transaction_timeout_ms=5_000,
    )
    [asked] = answers.asked(init_producer_id.Request)
    assert (asked.enable2_pc, asked.transaction_timeout_ms) == (False, 5_000)


@pytest.mark.parametrize(
    "answer",
    [
        errors.UnsupportedByBrokerError("InitProducerId 0-5"),
        granted(-1, -1, code=ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_broker_that_does_not_know_it_is_named(
    answer: errors.UnsupportedByBrokerError | init_producer_id.Response,
) -> None:
    answers = script().on(init_producer_id.Request, answer)
    with pytest.raises(errors.TwoPhaseCommitError, match="use a broker with KIP-939"):
        answers.run(two_phase_commit.recover_transaction, "id")


def test_a_cluster_whose_epochs_are_not_unique_is_refused_before_anybody_is_fenced() -> None:
    answers = script(level=1)
    with pytest.raises(errors.TwoPhaseCommitError, match=r"transaction\.version"):
        answers.run(two_phase_commit.complete_transaction, "id", PREPARED)
    assert answers.asked(init_producer_id.Request) == []


def test_a_broker_that_does_not_allow_it_gets_advice() -> None:
    answers = script()
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answers.on(init_producer_id.Request, granted(-1, -1, code=code))
    with pytest.raises(
        errors.TwoPhaseCommitError, match=r"transaction\.two\.phase\.commit\."
    ) as caught:
        answers.run(two_phase_commit.recover_transaction, "id")
    assert caught.value.code is code


def test_other_refusals_are_raised_as_they_are() -> None:
    answers = script()
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    answers.on(init_producer_id.Request, granted(-1, -1, code=code))
    with pytest.raises(errors.BrokerError) as caught:
        answers.run(two_phase_commit.recover_transaction, "id")
    assert caught.value.code is code


# --- ending ---


@pytest.mark.parametrize(("level", "sent"), [(2, (5, 5)), (0, (0, 4))])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_is_ended_by_its_names(
    level: int, sent: tuple[int, int], commits: bool
) -> None:
    answers = script(level=level).on(
        end_txn.Request, ended(ErrorCode.CONCURRENT_TRANSACTIONS), ended()
    )
    answers.run(two_phase_commit.end_prepared_transaction, "id", PREPARED, commits=commits)
    asked = answers.asked(end_txn.Request)
    assert len(asked) == 2
    names = (asked[1].transactional_id, asked[1].producer_id, asked[1].producer_epoch)
    assert names == ("id", 7, 3)
    assert asked[1].committed is commits
    call = answers.calls[-1]
    assert (call.version_min, min(call.version_max, 5)) == sent


@pytest.mark.parametrize(
    ("code", "commits", "expected"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, True, errors.TransactionAbortedError),
        (ErrorCode.INVALID_TXN_STATE, True, errors.TransactionAbortedError),
        (ErrorCode.INVALID_TXN_STATE, False, errors.TransactionStateError),
        (ErrorCode.PRODUCER_FENCED, True, errors.FencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False, errors.FencedError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, errors.FencedError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, errors.BrokerError),
    ],
)
def test_what_cannot_be_ended_is_an_error_with_a_reason(
    code: ErrorCode, commits: bool, expected: type[errors.KafkaError]
) -> None:
    answers = script().on(end_txn.Request, ended(code))
    with pytest.raises(expected) as caught:
        answers.run(two_phase_commit.end_prepared_transaction, "id", PREPARED, commits=commits)
    assert caught.value.code is code


def test_without_an_answer_it_is_unknown() -> None:
    answers = script().on(end_txn.Request, errors.ConnectionLostError("lost"))
    with pytest.raises(errors.CommitUnknownError, match="repeat it"):
        answers.run(two_phase_commit.end_prepared_transaction, "id", PREPARED, commits=True)


# --- completing ---


@pytest.mark.parametrize(
    ("stored", "commits"),
    [(PREPARED, True), (types.PreparedTransactionState(7, 2), False), (None, False)],
)
def test_what_is_stored_is_committed_and_what_is_not_is_aborted(
    stored: types.PreparedTransactionState | None, commits: bool
) -> None:
    answers = script().on(init_producer_id.Request, granted(ongoing=PREPARED))
    answers.on(end_txn.Request, ended())
    outcome = answers.run(two_phase_commit.complete_transaction, "id", stored)
    assert outcome is (
        types.TransactionOutcome.COMMITTED if commits else types.TransactionOutcome.ABORTED
    )
    [asked] = answers.asked(end_txn.Request)
    assert (asked.producer_id, asked.producer_epoch, asked.committed) == (7, 4, commits)


def test_when_nothing_is_open_nothing_is_ended() -> None:
    answers = script().on(init_producer_id.Request, granted())
    outcome = answers.run(two_phase_commit.complete_transaction, "id", PREPARED)
    assert outcome is types.TransactionOutcome.NONE_OPEN
    assert answers.asked(end_txn.Request) == []
