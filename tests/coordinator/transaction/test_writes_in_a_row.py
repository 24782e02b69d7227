"""Writes that do not wait for each other, and records that are appended together."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    TransactionState,
)
from minikafka.coordinator.transaction.records import decode_entry
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, P2, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


def adding(producer: tuple[int, int], *partitions: tuple[str, int]) -> AddPartitions:
    return AddPartitions(TID, *producer, partitions, transaction_version=2)


def decided(coordinator: Coordinator) -> tuple[int, int]:
    """A producer in its next epoch; the markers of the previous one are being written."""
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0, transaction_version=2)
    reply = coordinator.end(producer, version=2)
    return reply.producer_id, reply.producer_epoch


def states(coordinator: Coordinator) -> list[State]:
    entries = [decode_entry(*record) for record in coordinator.log]
    return [found[1].state for found in entries if found is not None and found[1] is not None]


def test_the_end_of_a_transaction_and_the_beginning_of_the_next_are_appended_together() -> None:
    coordinator = Coordinator()
    producer = decided(coordinator)
    first = coordinator.begin(adding(producer, P0))
    second = coordinator.begin(adding(producer, P1, P2))
    coordinator.commits_at_once = False
    coordinator.mark(coordinator.markers[0])
    assert states(coordinator)[-4:] == [
        State.PREPARE_COMMIT,
        State.COMPLETE_COMMIT,
        State.ONGOING,
        State.ONGOING,
    ]
    assert first not in coordinator.replies
    coordinator.commit_one()
    assert coordinator.replies[first].error_code is OK
    assert coordinator.replies[second].error_code is OK
    assert coordinator.entry.partitions == (P0, P1, P2)


def test_partitions_are_added_after_uncommitted_writes() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.commits_at_once = False
    first = coordinator.begin(adding(producer, P0))
    second = coordinator.begin(adding(producer, P1))
    known = coordinator.begin(adding(producer, P0))
    assert coordinator.entry.partitions == (P0, P1)
    coordinator.commit_one()
    assert coordinator.replies[first].error_code is OK
    # P0 is already in the transaction, but the answer depends on the second write.
    assert second not in coordinator.replies
    assert known not in coordinator.replies
    coordinator.commit_one()
    assert coordinator.replies[second].error_code is OK
    assert coordinator.replies[known].error_code is OK


def test_the_next_transaction_begins_after_the_end_of_the_previous_one() -> None:
    coordinator = Coordinator()
    producer = decided(coordinator)
    coordinator.commits_at_once = False
    coordinator.mark(coordinator.markers[0])
    token = coordinator.begin(adding(producer, P0))
    assert coordinator.is_in(State.ONGOING)
    coordinator.commit_one()
    assert token not in coordinator.replies
    coordinator.commit_one()
    assert coordinator.replies[token].error_code is OK
    coordinator.commits_at_once = True
    assert coordinator.end(producer, version=2).error_code is OK
    assert [one.producer_epoch for one in coordinator.markers] == [1, 2]


def test_a_transaction_is_not_decided_before_its_partitions_are_committed() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.commits_at_once = False
    coordinator.begin(adding(producer, P0))
    coordinator.begin(adding(producer, P1))
    end = coordinator.begin(EndTransaction(TID, *producer, commits=True, transaction_version=2))
    late = coordinator.begin(adding(producer, P2))  # not before the earlier end
    coordinator.commit_one()
    assert coordinator.is_in(State.ONGOING)
    coordinator.commit_one()
    assert coordinator.is_in(State.PREPARE_COMMIT)
    assert coordinator.markers == []
    coordinator.commit()
    assert coordinator.replies[end].error_code is OK
    assert coordinator.markers[0].partitions == (P0, P1)
    assert coordinator.replies[late].error_code is ErrorCode.PRODUCER_FENCED


def test_a_new_instance_does_not_join_the_writes_of_the_old_one() -> None:
    coordinator = Coordinator()
    producer = decided(coordinator)
    adds = coordinator.begin(adding(producer, P0))
    takes_over = coordinator.begin(InitProducer(TID, 60_000))
    coordinator.commits_at_once = False
    coordinator.mark(coordinator.markers[0])
    assert coordinator.is_in(State.ONGOING)
    coordinator.commit_one()
    assert coordinator.replies[adds].error_code is OK
    assert coordinator.is_in(State.PREPARE_ABORT)
    coordinator.commit()
    coordinator.mark(coordinator.markers[1])
    coordinator.commit()
    assert coordinator.replies[takes_over].producer_epoch == producer[1] + 2


def test_writes_of_an_id_are_bounded() -> None:
    coordinator = Coordinator(uncommitted_per_id_max=2, parked_per_id_max=1)
    producer = coordinator.init()
    coordinator.commits_at_once = False
    tokens = [coordinator.begin(adding(producer, ("t", number))) for number in range(3)]
    assert [*coordinator.entry.partitions] == [P0, P1]  # the third is parked
    refused = coordinator.ask(adding(producer, P2))
    assert refused.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.commit_one()
    assert [*coordinator.entry.partitions] == [P0, P1, ("t", 2)]
    coordinator.commit()
    assert [coordinator.replies[token].error_code for token in tokens] == [OK, OK, OK]


@pytest.mark.parametrize("is_known", [True, False])
def test_each_answer_has_its_own_time(is_known: bool) -> None:
    coordinator = Coordinator(write_timeout_ms=1_000)
    producer = coordinator.init()
    coordinator.commits_at_once = False
    first = coordinator.begin(adding(producer, P0))
    coordinator.pass_time(0.6)
    second = coordinator.begin(adding(producer, P0 if is_known else P1))
    coordinator.pass_time(0.6)
    assert coordinator.replies[first].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert second not in coordinator.replies
    coordinator.pass_time(0.5)
    assert coordinator.replies[second].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.commit()
    assert coordinator.is_in(State.ONGOING)


def test_records_of_one_append_fail_together() -> None:
    coordinator = Coordinator()
    producer = decided(coordinator)
    token = coordinator.begin(adding(producer, P0))
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.mark(coordinator.markers[0])
    assert coordinator.replies[token].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.is_in(State.PREPARE_COMMIT)
    coordinator.append_error = None
    again = coordinator.begin(adding(producer, P0))
    coordinator.pass_time(1)  # the markers are not forgotten
    assert len(coordinator.markers) == 1
    assert coordinator.replies[again].error_code is OK


def test_a_failure_after_a_write_does_not_affect_it() -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    coordinator.commits_at_once = False
    first = coordinator.begin(adding(producer, P0))
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert coordinator.ask(adding(producer, P1)).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.append_error = None
    coordinator.commit()
    assert coordinator.replies[first].error_code is OK
    assert coordinator.entry.partitions == (P0,)


def test_writes_in_a_row_are_lost_together_at_most() -> None:
    coordinator = Coordinator()
    producer = decided(coordinator)
    coordinator.commits_at_once = False
    coordinator.mark(coordinator.markers[0])
    token = coordinator.begin(adding(producer, P0))
    coordinator.fail_over(lost=2)
    assert coordinator.replies[token].error_code is ErrorCode.NOT_COORDINATOR
    assert coordinator.is_in(State.PREPARE_COMMIT)
    coordinator.commits_at_once = True
    coordinator.mark(coordinator.markers[1])
    assert coordinator.add(producer, P0, transaction_version=2) is OK


def test_the_end_of_a_transaction_waits_for_the_beginning_of_the_next() -> None:
    coordinator = Coordinator(completion_linger_ms=20)
    producer = decided(coordinator)
    coordinator.mark(coordinator.markers[0])
    assert coordinator.is_in(State.PREPARE_COMMIT)
    coordinator.pass_time(0.01)
    appended = len(coordinator.log)
    coordinator.commits_at_once = False
    token = coordinator.begin(adding(producer, P0))
    assert states(coordinator)[appended:] == [State.COMPLETE_COMMIT, State.ONGOING]
    coordinator.commit_one()
    assert coordinator.replies[token].error_code is OK
    coordinator.commits_at_once = True
    coordinator.pass_time(1)
    assert len(coordinator.log) == appended + 2


def test_the_end_of_the_last_transaction_is_stored_alone() -> None:
    coordinator = Coordinator(completion_linger_ms=20)
    decided(coordinator)
    coordinator.mark(coordinator.markers[0])
    coordinator.pass_time(0.019)
    assert coordinator.is_in(State.PREPARE_COMMIT)
    coordinator.pass_time(0.002)
    assert coordinator.is_in(State.COMPLETE_COMMIT)


def test_other_commands_do_not_wait_for_the_next_transaction() -> None:
    coordinator = Coordinator(completion_linger_ms=20)
    producer = decided(coordinator)
    retry = EndTransaction(TID, producer[0], producer[1] - 1, commits=True, transaction_version=2)
    coordinator.mark(coordinator.markers[0])
    assert coordinator.ask(retry).producer_epoch == producer[1]
    assert coordinator.is_in(State.PREPARE_COMMIT)
    assert coordinator.init() == (producer[0], producer[1] + 1)
    assert coordinator.is_in(State.EMPTY)


def test_a_coordinator_that_fails_before_it_stores_the_end_writes_the_markers_again() -> None:
    coordinator = Coordinator(completion_linger_ms=20)
    producer = decided(coordinator)
    coordinator.mark(coordinator.markers[0])
    coordinator.fail_over()
    token = coordinator.begin(adding(producer, P0))
    assert [one.producer_epoch for one in coordinator.markers] == [1, 1]
    assert token not in coordinator.replies
    coordinator.mark(coordinator.markers[1])
    assert coordinator.replies[token].error_code is OK


def test_an_end_that_could_not_be_stored_is_tried_again() -> None:
    coordinator = Coordinator(completion_linger_ms=20)
    decided(coordinator)
    coordinator.mark(coordinator.markers[0])
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.pass_time(0.1)
    assert coordinator.is_in(State.PREPARE_COMMIT)
    coordinator.append_error = None
    coordinator.pass_time(0.2)
    assert coordinator.is_in(State.COMPLETE_COMMIT)
    assert len(coordinator.markers) == 1
