"""The states of a transactional producer, and what leads from one to the other."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka_client import errors
from minikafka_client.core.transaction import TRANSITIONS, TransactionMachine, TransactionState
from minikafka_client.types import GroupMetadata, PreparedTransactionState, TopicPartition

S = TransactionState
MEMBER = GroupMetadata("g", 3, "m", "instance")
LOST = errors.RequestTimeoutError("lost")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def machine_in(state: TransactionState, version: int = 0) -> TransactionMachine:
    """A machine that has reached a state the usual way."""
    machine = TransactionMachine("id")
    if state is S.UNINITIALIZED:
        return machine
    machine.granted(7, 0, version)
    if state is not S.READY:
        machine.begin()
    if state is S.COMMITTING:
        machine.commit()
    elif state in (S.PREPARING, S.PREPARED):
        machine.has_begun = True
        machine.prepare()
        if state is S.PREPARED:
            machine.is_prepared()
    elif state is S.ABORTING:
        machine.abort()
    elif state is S.ABORTABLE:
        machine.lose(LOST)
    elif state is S.FATAL:
        machine.fail(errors.BrokerError(ErrorCode.PRODUCER_FENCED))
    return machine


def test_the_table_names_every_state() -> None:
    assert set(TRANSITIONS) == set(S)
    reachable = set[TransactionState]().union(*TRANSITIONS.values())
    assert reachable == set(S)
    for state in S:
        assert machine_in(state).state is state


@pytest.mark.parametrize("state", S)
def test_only_ready_begins(state: TransactionState) -> None:
    machine = machine_in(state)
    if state is S.READY:
        machine.begin()
        assert machine.state is S.OPEN
        return
    expected = errors.FencedError if state is S.FATAL else errors.TransactionStateError
    with pytest.raises(expected):
        machine.begin()
    assert machine.state is state


@pytest.mark.parametrize("state", S)
def test_only_an_open_transaction_takes_records(state: TransactionState) -> None:
    machine = machine_in(state)
    assert machine.is_lost is (state in (S.ABORTABLE, S.ABORTING, S.FATAL))
    if state is S.OPEN:
        machine.check_open()
        return
    expected: type[errors.KafkaError] = errors.TransactionStateError
    if state is S.ABORTABLE:
        expected = errors.TransactionAbortableError
    elif state is S.FATAL:
        expected = errors.FencedError
    with pytest.raises(expected) as caught:
        machine.check_open()
    with pytest.raises(expected):
        machine.commit()
    if state is S.ABORTABLE:
        assert caught.value.__cause__ is LOST


@pytest.mark.parametrize("state", S)
def test_a_loss_is_one_only_within_a_transaction(state: TransactionState) -> None:
    machine = machine_in(state)
    machine.lose(LOST)
    within = (S.OPEN, S.COMMITTING, S.PREPARING, S.PREPARED, S.ABORTING, S.ABORTABLE)
    assert machine.state is (S.ABORTABLE if state in within else state)


@pytest.mark.parametrize("state", S)
def test_every_state_ends_with_a_fatal_error(state: TransactionState) -> None:
    machine = machine_in(state)
    first = machine.fail(errors.BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    assert machine.state is S.FATAL
    assert machine.fail(LOST) is first
    with pytest.raises(errors.KafkaError) as caught:
        machine.abort()
    assert caught.value is first
    machine.reinitialize()
    machine.granted(8, 0, 2)
    machine.begin()
    machine.check_open()


@pytest.mark.parametrize("state", [S.OPEN, S.ABORTABLE, S.COMMITTING, S.PREPARING])
def test_what_is_open_can_be_aborted(state: TransactionState) -> None:
    machine = machine_in(state)
    machine.abort()
    machine.ended(7, 1)
    assert (machine.state, machine.producer_epoch) == (S.READY, 1)


def test_what_is_not_open_cannot_be_aborted_or_ended() -> None:
    with pytest.raises(errors.TransactionStateError):
        machine_in(S.READY).abort()
    with pytest.raises(errors.TransactionStateError):
        machine_in(S.PREPARED).abort()
    with pytest.raises(errors.TransactionStateError):
        machine_in(S.READY).ended()


def test_an_end_without_a_new_identity_keeps_the_old_one() -> None:
    machine = machine_in(S.COMMITTING)
    machine.ended()
    assert (machine.producer_id, machine.producer_epoch) == (7, 0)


def test_what_is_prepared_has_a_name_until_it_is_ended() -> None:
    machine = machine_in(S.PREPARED, version=2)
    assert machine.prepared == PreparedTransactionState(7, 0)
    with pytest.raises(errors.TransactionStateError, match=r"7:0.*complete_transaction"):
        machine.begin()
    with pytest.raises(errors.TransactionStateError, match=r"nothing more.*complete_transaction"):
        machine.check_open()
    machine.ended(7, 1)
    assert (machine.state, machine.prepared) == (S.READY, PreparedTransactionState())


def test_a_transaction_in_which_nothing_was_sent_has_no_name() -> None:
    machine = machine_in(S.OPEN, version=2)
    machine.prepare()
    assert machine.is_prepared() == PreparedTransactionState()  # the next one has the same epoch
    with pytest.raises(errors.TransactionStateError, match="empty"):
        machine.begin()


def test_what_a_predecessor_has_prepared_waits_for_a_decision() -> None:
    machine = TransactionMachine("id")
    machine.granted(7, 4, 2, PreparedTransactionState(7, 3))
    assert machine.state is S.PREPARED
    assert machine.prepared == PreparedTransactionState(7, 3)
    assert machine.has_begun
    assert not machine.may_send_to(P0)


def test_a_new_beginning_forgets_what_was_prepared() -> None:
    machine = machine_in(S.PREPARED)
    machine.fail(LOST)
    machine.reinitialize()
    assert machine.prepared == PreparedTransactionState()


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (ErrorCode.PRODUCER_FENCED, S.FATAL),
        (ErrorCode.INVALID_PRODUCER_EPOCH, S.FATAL),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, S.FATAL),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, S.FATAL),
        (ErrorCode.TRANSACTION_ABORTABLE, S.ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, S.ABORTABLE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, S.ABORTABLE),
    ],
)
def test_what_a_coordinators_refusal_means(code: ErrorCode, state: TransactionState) -> None:
    machine = machine_in(S.OPEN)
    heard = machine.refused(errors.BrokerError(code))
    assert machine.state is state
    assert isinstance(heard, errors.TransactionAbortableError) is (state is S.ABORTABLE)
    fenced = code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert isinstance(heard, errors.FencedError) is fenced


@pytest.mark.parametrize(
    ("code", "is_in_doubt", "kind"),
    [
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, errors.CommitUnknownError),
        (ErrorCode.REQUEST_TIMED_OUT, True, errors.CommitUnknownError),
        (ErrorCode.REQUEST_TIMED_OUT, False, errors.BrokerError),
        (ErrorCode.PRODUCER_FENCED, True, errors.CommitUnknownError),
        (ErrorCode.PRODUCER_FENCED, False, errors.FencedError),
        (ErrorCode.TRANSACTION_ABORTABLE, True, errors.BrokerError),
        (ErrorCode.INVALID_TXN_STATE, True, errors.BrokerError),
    ],
)
def test_only_an_answer_proves_that_nothing_is_committed(
    code: ErrorCode, is_in_doubt: bool, kind: type[errors.KafkaError]
) -> None:
    machine = machine_in(S.COMMITTING)
    machine.commit_refused(errors.BrokerError(code), is_in_doubt=is_in_doubt)
    assert type(machine.error) is kind
    assert machine.state is (S.ABORTABLE if kind is errors.BrokerError else S.FATAL)


@pytest.mark.parametrize(
    ("code", "state", "kind"),
    [
        (ErrorCode.ILLEGAL_GENERATION, S.ABORTABLE, errors.CommitFailedError),
        (ErrorCode.UNKNOWN_MEMBER_ID, S.ABORTABLE, errors.CommitFailedError),
        (ErrorCode.REBALANCE_IN_PROGRESS, S.ABORTABLE, errors.CommitFailedError),
        (ErrorCode.FENCED_INSTANCE_ID, S.ABORTABLE, errors.FencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, S.ABORTABLE, errors.TransactionAbortableError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, S.ABORTABLE, errors.TransactionAbortableError),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, S.ABORTABLE, errors.TransactionAbortableError),
        (ErrorCode.PRODUCER_FENCED, S.FATAL, errors.FencedError),
    ],
)
def test_what_a_groups_refusal_means(
    code: ErrorCode, state: TransactionState, kind: type[errors.KafkaError]
) -> None:
    machine = machine_in(S.OPEN)
    assert isinstance(machine.offsets_refused(errors.BrokerError(code), MEMBER), kind)
    assert machine.state is state
    assert machine.needs_new_epoch is (code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.parametrize("was_sent", [False, True])
def test_a_batch_that_was_sent_and_given_up_needs_a_new_epoch(was_sent: bool) -> None:
    machine = machine_in(S.OPEN)
    machine.delivery_failed(LOST, was_sent=was_sent)
    assert machine.error is LOST
    assert machine.needs_new_epoch is was_sent
    machine.abort()
    machine.delivery_failed(LOST, was_sent=False)
    assert machine.state is S.ABORTING


def test_partitions_are_added_one_request_at_a_time() -> None:
    machine = machine_in(S.OPEN)
    assert not machine.may_send_to(P0)
    assert machine.take_wanted() == {P0}
    assert machine.has_begun
    assert not machine.may_send_to(P0)
    assert not machine.may_send_to(P1)
    assert machine.take_wanted() == frozenset()
    machine.partitions_added(None)
    assert machine.may_send_to(P0)
    assert machine.take_wanted() == {P1}
    machine.partitions_added(errors.BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert machine.state is S.ABORTABLE
    assert machine.needs_new_epoch
    assert not machine.may_send_to(P0)


def test_version_2_adds_nothing() -> None:
    machine = machine_in(S.OPEN, version=2)
    assert machine.may_send_to(P0)
    assert machine.take_wanted() == frozenset()
    assert not machine.has_begun
