"""Transactions from begin to end, with clients of both generations."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import (
    EndTransaction,
    InitProducer,
    TransactionState,
)
from minikafka.coordinator.transaction.records import encode_entry
from minikafka.coordinator.transaction.states import PRODUCER_EPOCH_MAX
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, P2, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_from_begin_to_end(commits: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    assert coordinator.add(producer, P0, P1) is OK
    assert coordinator.add(producer, P1, P2) is OK
    assert coordinator.end(producer, commits=commits).error_code is OK
    (markers,) = coordinator.markers
    assert markers.partitions == (P0, P1, P2)
    assert (markers.producer_id, markers.producer_epoch) == producer
    assert markers.commits is commits
    done = State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT
    assert (coordinator.entry.state, coordinator.entry.partitions) == (done, ())
    assert coordinator.add(producer, P0) is OK  # the next one, with the same epoch


def test_with_version_2_every_transaction_has_an_epoch() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.init()
    for number in range(3):
        producer = (producer_id, epoch + number)
        assert coordinator.add(producer, P0, transaction_version=2) is OK
        reply = coordinator.end(producer, version=2)
        assert (reply.producer_id, reply.producer_epoch) == (producer_id, epoch + number + 1)
        assert coordinator.markers[-1].producer_epoch == epoch + number + 1
        assert coordinator.markers[-1].transaction_version == 2
        assert coordinator.add(producer, P0) is ErrorCode.PRODUCER_FENCED


def test_partitions_already_in_the_transaction_are_not_stored_again() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    stored = len(coordinator.log)
    assert coordinator.add(producer, P0) is OK
    assert coordinator.add(producer) is OK
    assert len(coordinator.log) == stored


def test_verification_changes_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    assert coordinator.add(producer, P0, verifies_only=True) is ErrorCode.INVALID_TXN_STATE
    coordinator.add(producer, P0)
    stored = len(coordinator.log)
    assert coordinator.add(producer, P0, verifies_only=True) is OK
    assert coordinator.add(producer, P0, P1, verifies_only=True) is ErrorCode.INVALID_TXN_STATE
    assert len(coordinator.log) == stored


def test_committing_an_empty_transaction_is_refused() -> None:
    """Its epoch belongs to the transaction after the committed one."""
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0, transaction_version=2)
    reply = coordinator.end(producer, version=2)
    assert coordinator.is_in(State.COMPLETE_COMMIT)
    following = (reply.producer_id, reply.producer_epoch)
    stored = len(coordinator.log)
    assert coordinator.end(following, version=2).error_code is ErrorCode.INVALID_TXN_STATE
    assert len(coordinator.log) == stored
    assert coordinator.end(producer, version=2) == reply  # the first one's answer was lost
    assert coordinator.add(following, P0, transaction_version=2) is OK
    assert coordinator.end(following, version=2).error_code is OK


@pytest.mark.parametrize("version", [0, 2])
def test_repeated_success_is_answered_after_another_commit(
    version: int,
) -> None:
    """A deposed leader cannot commit anything, and does not know what its successor has decided."""
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0, transaction_version=version)
    first = coordinator.end(producer, version=version)
    stored, entry = len(coordinator.log), coordinator.entry
    coordinator.commits_at_once = False
    again = coordinator.begin(EndTransaction(TID, *producer, True, version))
    assert coordinator.log[stored:] == [encode_entry(entry)]
    assert again not in coordinator.replies
    coordinator.commit()
    assert coordinator.replies[again] == first
    assert coordinator.entry == entry
    assert len(coordinator.markers) == 1


@pytest.mark.parametrize("version", [0, 2])
def test_ending_twice_is_idempotent(version: int) -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0, transaction_version=version)
    first = coordinator.end(producer, version=version)
    assert coordinator.end(producer, version=version) == first  # its answer was lost
    assert len(coordinator.markers) == 1
    error = ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(producer, commits=False, version=version).error_code is error


def test_ending_a_transaction_that_never_began() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    for commits in (True, False):
        reply = coordinator.end(producer, commits=commits)
        assert reply.error_code is ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(producer, version=2).error_code is ErrorCode.INVALID_TXN_STATE


def test_with_version_2_an_empty_transaction_can_be_aborted() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.init()
    reply = coordinator.end((producer_id, epoch), commits=False, version=2)
    assert (reply.error_code, reply.producer_epoch) == (OK, epoch + 1)
    assert coordinator.markers == []
    assert coordinator.is_in(State.COMPLETE_ABORT)


def test_a_new_instance_fences_the_old_one() -> None:
    coordinator = Coordinator()
    old = coordinator.init()
    coordinator.add(old, P0)
    new = coordinator.init()
    assert new[0] == old[0]
    assert new[1] > old[1] + 1  # one for the abort, one for the new instance
    assert [one.commits for one in coordinator.markers] == [False]
    assert coordinator.markers[0].producer_epoch == old[1] + 1
    assert coordinator.add(old, P0) is ErrorCode.PRODUCER_FENCED
    assert coordinator.end(old).error_code is ErrorCode.PRODUCER_FENCED
    fenced = coordinator.ask(InitProducer(TID, 1_000, *old))
    assert fenced.error_code is ErrorCode.PRODUCER_FENCED


def test_unknown_ids() -> None:
    coordinator = Coordinator()
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add((1, 0), P0) is mapping
    assert coordinator.end((1, 0)).error_code is mapping
    producer_id, epoch = coordinator.init()
    assert coordinator.add((producer_id + 1, epoch), P0) is mapping
    assert coordinator.end((producer_id + 1, epoch)).error_code is mapping


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_impossible_timeouts(timeout_ms: int) -> None:
    reply = Coordinator().ask(InitProducer(TID, timeout_ms))
    assert reply.error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_continues_after_an_error() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    again = coordinator.init(producer_id=producer[0], producer_epoch=producer[1])
    assert again == (producer[0], producer[1] + 1)
    # The answer was lost: the same request gets the same answer, and changes nothing.
    assert coordinator.init(producer_id=producer[0], producer_epoch=producer[1]) == again
    assert coordinator.add(again, P0) is OK
    # The new epoch has been used, so a request with the old one comes from a zombie.
    zombie = coordinator.ask(InitProducer(TID, 1_000, *producer))
    assert zombie.error_code is ErrorCode.PRODUCER_FENCED


def test_a_retry_is_known_after_a_failover() -> None:
    """KAFKA-20357: what identifies a retry is stored, not only in memory."""
    coordinator = Coordinator()
    producer = coordinator.init()
    again = coordinator.init(producer_id=producer[0], producer_epoch=producer[1])
    coordinator.fail_over()
    assert coordinator.init(producer_id=producer[0], producer_epoch=producer[1]) == again


def test_the_last_epoch_is_for_markers() -> None:
    """KAFKA-9666, KAFKA-18660: epochs run out, but never overflow."""
    coordinator = Coordinator()
    producer_id, _ = coordinator.init()
    last = PRODUCER_EPOCH_MAX - 1
    entry = coordinator.entry._replace(producer_epoch=last)
    coordinator.log.append(encode_entry(entry))
    coordinator.fail_over()
    fresh = coordinator.init(producer_id=producer_id, producer_epoch=last)
    assert fresh[0] != producer_id
    assert fresh[1] == 0
    assert coordinator.init(producer_id=producer_id, producer_epoch=last) == fresh  # a retry


@pytest.mark.parametrize("version", [0, 2])
def test_epochs_run_out_in_a_transaction(version: int) -> None:
    coordinator = Coordinator()
    producer_id, _ = coordinator.init()
    last = PRODUCER_EPOCH_MAX - 1
    coordinator.log.append(encode_entry(coordinator.entry._replace(producer_epoch=last)))
    coordinator.fail_over()
    producer = (producer_id, last)
    coordinator.add(producer, P0, transaction_version=version)
    coordinator.ids_left = 0
    if version == 2:
        refused = coordinator.end(producer, version=2)
        assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE  # comes again
        coordinator.ids_left = 5
        reply = coordinator.end(producer, version=2)
        assert reply.error_code is OK
        assert reply.producer_id != producer_id
        assert reply.producer_epoch == 0
        assert coordinator.end(producer, version=2) == reply
        assert coordinator.markers[-1].producer_epoch == PRODUCER_EPOCH_MAX
        assert coordinator.add((reply.producer_id, 0), P0, transaction_version=2) is OK
    else:
        refused = coordinator.ask(InitProducer(TID, 1_000))
        assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinator.end(producer).error_code is OK
        assert coordinator.markers[-1].producer_epoch == last


def test_without_producer_ids_no_producer_begins() -> None:
    coordinator = Coordinator()
    coordinator.ids_left = 0
    reply = coordinator.ask(InitProducer(TID, 1_000))
    assert reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.ids_left = 1
    _producer_id, _ = coordinator.init()
    exhausted = coordinator.entry._replace(producer_epoch=PRODUCER_EPOCH_MAX - 1)
    coordinator.log.append(encode_entry(exhausted))
    coordinator.fail_over()
    reply = coordinator.ask(InitProducer(TID, 1_000))
    assert reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
