"""Commands that wait for markers and writes, and writes that fail."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    TransactionState,
)
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


def test_the_next_transaction_waits_for_the_markers() -> None:
    coordinator = Coordinator()
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0, P1)
    assert coordinator.end(producer).error_code is OK  # decided: that is enough for an answer
    token = coordinator.begin(AddPartitions(TID, *producer, (P0,)))
    coordinator.mark(coordinator.markers[0], P0)
    assert token not in coordinator.replies
    coordinator.mark(coordinator.markers[0], P1)
    assert coordinator.replies[token].error_code is OK
    assert coordinator.is_in(State.ONGOING)


def test_a_command_that_waits_too_long_gets_a_retriable_error() -> None:
    coordinator = Coordinator(parked_per_id_max=2, parked_wait_ms=1_000)
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.end(producer)
    add = AddPartitions(TID, *producer, (P0,))
    first = coordinator.begin(add)
    coordinator.pass_time(0.5)
    second = coordinator.begin(add)
    assert coordinator.ask(add).error_code is ErrorCode.CONCURRENT_TRANSACTIONS  # too many
    coordinator.pass_time(0.6)
    assert coordinator.replies[first].error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert second not in coordinator.replies
    coordinator.pass_time(0.5)
    assert coordinator.replies[second].error_code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_new_instance_waits_for_the_abort() -> None:
    coordinator = Coordinator()
    coordinator.writes_markers = False
    old = coordinator.init()
    coordinator.add(old, P0)
    token = coordinator.begin(InitProducer(TID, 60_000))
    later = coordinator.begin(InitProducer(TID, 60_000))
    assert token not in coordinator.replies
    coordinator.mark(coordinator.markers[0])
    assert coordinator.replies[token].error_code is OK
    assert coordinator.replies[later].producer_epoch > coordinator.replies[token].producer_epoch


def test_markers_of_another_transaction_are_ignored() -> None:
    coordinator = Coordinator()
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.end(producer)
    effects = coordinator.shard.markers_written(TID, producer[0], 77, [P0], coordinator.now)
    assert effects == []
    assert coordinator.shard.markers_written("?", 1, 1, [P0], coordinator.now) == []
    assert coordinator.is_in(State.PREPARE_COMMIT)


def test_nothing_is_answered_before_it_is_committed() -> None:
    coordinator = Coordinator()
    coordinator.commits_at_once = False
    begun = coordinator.begin(InitProducer(TID, 60_000))
    waiting = coordinator.begin(InitProducer(TID, 60_000))
    assert coordinator.replies == {}
    coordinator.commit_one()
    first = coordinator.replies[begun]
    assert first.error_code is OK
    assert waiting not in coordinator.replies
    coordinator.commit()
    assert coordinator.replies[waiting].producer_epoch == first.producer_epoch + 1


def test_markers_follow_the_committed_decision() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.commits_at_once = False
    token = coordinator.begin(EndTransaction(TID, *producer, commits=True))
    assert coordinator.markers == []
    coordinator.commit_one()
    assert coordinator.replies[token].error_code is OK
    assert len(coordinator.markers) == 1


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_a_write_that_fails_changes_nothing(error: ErrorCode, answered: ErrorCode) -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    before = coordinator.entry
    coordinator.append_error = error
    assert coordinator.add(producer, P0) is answered
    assert coordinator.entry == before
    coordinator.append_error = None
    assert coordinator.add(producer, P0) is OK


def test_the_coordinators_own_writes_are_tried_again() -> None:
    coordinator = Coordinator()
    coordinator.writes_markers = False
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0)
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.pass_time(11)
    assert coordinator.is_in(State.ONGOING)
    coordinator.append_error = None
    coordinator.pass_time(1)
    assert coordinator.is_in(State.PREPARE_ABORT)
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.mark(coordinator.markers[0])
    assert coordinator.is_in(State.PREPARE_ABORT)
    coordinator.append_error = None
    coordinator.pass_time(1)
    assert coordinator.is_in(State.COMPLETE_ABORT)
    assert len(coordinator.markers) == 1


def test_a_retry_after_another_write_does_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.add(producer, P0)
    coordinator.append_error = None
    coordinator.commits_at_once = False
    token = coordinator.begin(AddPartitions(TID, *producer, (P0,)))
    coordinator.pass_time(1)
    coordinator.commit()
    assert coordinator.replies[token].error_code is OK


def test_a_coordinator_resigns_during_one_of_its_own_writes() -> None:
    coordinator = Coordinator()
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.end(producer)
    coordinator.commits_at_once = False
    coordinator.mark(coordinator.markers[0])
    coordinator.fail_over(lost=1)
    assert coordinator.is_in(State.PREPARE_COMMIT)
    assert len(coordinator.markers) == 2


def test_a_command_whose_abort_could_not_be_written() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    reply = coordinator.ask(InitProducer(TID, 60_000))
    assert reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_write_with_an_unknown_outcome_blocks_the_id() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.commits_at_once = False
    token = coordinator.begin(AddPartitions(TID, *producer, (P0,)))
    coordinator.pass_time(5.1)
    assert coordinator.replies[token].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    unknown = coordinator.shard.append_failed(2, ErrorCode.REQUEST_TIMED_OUT, coordinator.now)
    assert unknown == []
    waiting = coordinator.begin(AddPartitions(TID, *producer, (P0,)))
    assert waiting not in coordinator.replies
    coordinator.commit()
    assert coordinator.replies[waiting].error_code is OK


def test_reports_about_writes_that_are_not_pending() -> None:
    coordinator = Coordinator()
    coordinator.shard.appended(99)
    assert coordinator.shard.committed(99, coordinator.now) == []
    failed = coordinator.shard.append_failed(99, ErrorCode.REQUEST_TIMED_OUT, coordinator.now)
    assert failed == []
