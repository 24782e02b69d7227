"""Prepared transactions, and which producer may end them (KIP-939)."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import (
    InitProducer,
    TransactionState,
)
from minikafka.coordinator.transaction.records import encode_entry
from minikafka.coordinator.transaction.states import PRODUCER_EPOCH_MAX
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


def two_phase() -> tuple[Coordinator, tuple[int, int]]:
    coordinator = Coordinator(is_two_phase_commit_enabled=True)
    producer = coordinator.init(is_two_phase=True)
    coordinator.add(producer, P0, transaction_version=2)
    return coordinator, producer


@pytest.mark.parametrize("fields", [{"is_two_phase": True}, {"keeps_prepared": True}])
def test_two_phase_commit_must_be_enabled(fields: dict[str, bool]) -> None:
    reply = Coordinator().ask(InitProducer(TID, 1_000, **fields))
    assert reply.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_prepared_transactions_do_not_time_out() -> None:
    coordinator, producer = two_phase()
    coordinator.pass_time(30 * 86_400)
    coordinator.fail_over()
    coordinator.pass_time(30 * 86_400)
    assert coordinator.markers == []
    with pytest.raises(ValueError, match="has no timeout"):
        coordinator.shard.time_out(TID, coordinator.now)
    assert coordinator.end(producer, version=2).error_code is OK


@pytest.mark.parametrize("commits", [True, False])
def test_a_prepared_transaction_is_decided_by_the_producer_that_recovers_it(commits: bool) -> None:
    coordinator, old = two_phase()
    keep = InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=True)
    for number in (1, 2):  # it may crash, too
        reply = coordinator.ask(keep)
        assert (reply.ongoing_producer_id, reply.ongoing_producer_epoch) == old
        assert (reply.producer_id, reply.producer_epoch) == (old[0], old[1] + number)
    new = (reply.producer_id, reply.producer_epoch)
    assert coordinator.end(old, version=2).error_code is ErrorCode.PRODUCER_FENCED
    assert coordinator.add(new, P1, transaction_version=2) is ErrorCode.INVALID_TXN_STATE
    ended = coordinator.end(new, commits=commits, version=2)
    assert (ended.error_code, ended.producer_epoch) == (OK, new[1] + 1)
    assert coordinator.markers[0].commits is commits
    assert coordinator.markers[0].producer_epoch == new[1] + 1
    assert coordinator.add((new[0], new[1] + 1), P0, transaction_version=2) is OK


@pytest.mark.parametrize("commits", [True, False])
def test_the_recovering_producer_may_retry_the_end_and_the_preparing_one_may_not(
    commits: bool,
) -> None:
    coordinator, old = two_phase()
    keep = InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=True)
    reply = coordinator.ask(keep)
    new = (reply.producer_id, reply.producer_epoch)
    ended = coordinator.end(new, commits=commits, version=2)
    again = coordinator.end(new, commits=commits, version=2)
    assert again == ended
    assert again.error_code is OK
    zombie = coordinator.end(old, commits=commits, version=2)
    assert zombie.error_code is ErrorCode.PRODUCER_FENCED
    assert len(coordinator.markers) == 1


def test_without_keeping_it_a_prepared_transaction_is_aborted() -> None:
    coordinator, old = two_phase()
    new = coordinator.init(is_two_phase=True)
    assert new[1] > old[1]
    assert [one.commits for one in coordinator.markers] == [False]


@pytest.mark.parametrize("commits", [True, False])
def test_a_decided_transaction_is_not_prepared_while_its_markers_are_written(commits: bool) -> None:
    coordinator, producer = two_phase()
    coordinator.writes_markers = False
    coordinator.end(producer, commits=commits, version=2)
    keep = InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=True)
    token = coordinator.begin(keep)
    assert token not in coordinator.replies
    coordinator.mark(coordinator.markers[0])
    reply = coordinator.replies[token]
    assert (reply.error_code, reply.ongoing_producer_id) == (OK, -1)
    assert coordinator.add((reply.producer_id, reply.producer_epoch), P0) is OK


def test_a_recovery_that_is_not_stored_changes_nothing() -> None:
    coordinator, old = two_phase()
    keep = InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=True)
    coordinator.commits_at_once = False
    token = coordinator.begin(keep)
    coordinator.fail_over(lost=1)
    coordinator.commits_at_once = True
    assert coordinator.replies[token].error_code is not OK
    assert coordinator.end(old, version=2).error_code is OK
    assert [one.commits for one in coordinator.markers] == [True]


def test_keeping_when_nothing_is_open() -> None:
    coordinator = Coordinator(is_two_phase_commit_enabled=True)
    reply = coordinator.ask(InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=True))
    assert (reply.error_code, reply.ongoing_producer_id) == (OK, -1)


def test_epochs_run_out_while_a_transaction_is_prepared() -> None:
    coordinator, old = two_phase()
    last = coordinator.entry._replace(producer_epoch=PRODUCER_EPOCH_MAX - 2)
    coordinator.log.append(encode_entry(last))
    coordinator.fail_over()
    keep = InitProducer(TID, 1_000, is_two_phase=True, keeps_prepared=True)
    coordinator.ids_left = 0
    assert coordinator.ask(keep).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.ids_left = 9
    reply = coordinator.ask(keep)
    assert reply.producer_id != old[0]
    assert reply.producer_epoch == 0
    zombie = (old[0], PRODUCER_EPOCH_MAX - 2)
    ended = coordinator.end((reply.producer_id, 0), version=2)
    assert coordinator.end(zombie, version=2).error_code is not OK
    assert (ended.producer_id, ended.producer_epoch) == (reply.producer_id, 1)
    marker = coordinator.markers[0]
    assert (marker.producer_id, marker.producer_epoch) == (old[0], PRODUCER_EPOCH_MAX - 1)
    assert (coordinator.entry.producer_id, coordinator.entry.producer_epoch) == (
        reply.producer_id,
        1,
    )
