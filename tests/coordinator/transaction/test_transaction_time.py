"""Transactions that take too long, clocks that jump, unused ids."""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import (
    AddPartitions,
    TransactionState,
)
from minikafka.coordinator.transaction.records import encode_entry
from minikafka.coordinator.transaction.states import PRODUCER_EPOCH_MAX
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0)
    coordinator.pass_time(9.9)
    assert coordinator.markers == []
    coordinator.pass_time(0.2)
    assert [one.commits for one in coordinator.markers] == [False]
    assert coordinator.end(producer).error_code is ErrorCode.PRODUCER_FENCED
    # KIP-588: its producer may continue with its id.
    assert coordinator.init(producer_id=producer[0], producer_epoch=producer[1]) == (
        producer[0],
        producer[1] + 1,
    )


@pytest.mark.parametrize("version", [0, 2])
def test_a_commit_after_the_timeout_succeeds_if_it_comes_before_the_abort(version: int) -> None:
    """As in Kafka, where only the task that aborts looks at the time."""
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0, transaction_version=version)
    coordinator.stall(10.1)
    assert coordinator.end(producer, version=version).error_code is OK
    coordinator.pass_time(0.1)
    assert [one.commits for one in coordinator.markers] == [True]


def test_a_commit_that_meets_an_abort_of_the_coordinator() -> None:
    """KAFKA-20785: the answer to a commit is never the success of an abort."""
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0, transaction_version=2)
    coordinator.pass_time(10.1)
    reply = coordinator.end(producer, version=2)
    assert reply.error_code is ErrorCode.TRANSACTION_ABORTABLE
    reply = coordinator.end(producer, commits=False, version=2)
    assert (reply.error_code, reply.producer_epoch) == (OK, producer[1] + 1)
    assert coordinator.add((producer[0], producer[1] + 1), P0, transaction_version=2) is OK


def test_each_transaction_has_its_own_time() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    for _ in range(3):
        coordinator.add(producer, P0)
        coordinator.pass_time(6)
        coordinator.add(producer, P1)  # does not make it longer
        coordinator.pass_time(3)
        assert coordinator.end(producer).error_code is OK
    assert all(one.commits for one in coordinator.markers)


@pytest.mark.parametrize("jump_s", [-86_400, 86_400])
def test_the_wall_clock_may_jump(jump_s: int) -> None:
    """KAFKA-8803: a clock that goes back must not keep a transaction open forever."""
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0)
    coordinator.wall_ms += jump_s * 1000
    coordinator.pass_time(9.9)
    assert coordinator.markers == []
    coordinator.pass_time(0.2)
    assert len(coordinator.markers) == 1


def test_a_transaction_times_out_after_a_failover() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0)
    coordinator.pass_time(6)
    coordinator.fail_over()
    coordinator.pass_time(3.9)
    assert coordinator.markers == []
    coordinator.pass_time(0.2)
    assert len(coordinator.markers) == 1


def test_a_timeout_waits_for_a_write() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0)
    coordinator.commits_at_once = False
    token = coordinator.begin(AddPartitions(TID, *producer, (P1,)))
    coordinator.pass_time(10.1)
    assert coordinator.markers == []
    assert coordinator.replies[token].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.commits_at_once = True
    coordinator.commit()
    coordinator.pass_time(0.2)
    assert coordinator.markers[0].partitions == (P0, P1)


def test_a_timeout_waits_for_a_producer_id() -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=10_000)
    last = coordinator.entry._replace(producer_epoch=PRODUCER_EPOCH_MAX - 1)
    coordinator.log.append(encode_entry(last))
    coordinator.fail_over()
    coordinator.add((last.producer_id, last.producer_epoch), P0)
    coordinator.ids_left = 0
    coordinator.pass_time(11)
    assert coordinator.markers == []
    coordinator.ids_left = 1
    coordinator.pass_time(0.2)
    assert coordinator.markers[0].producer_epoch == PRODUCER_EPOCH_MAX
    assert coordinator.entry.producer_epoch == 0


def test_unused_ids_expire() -> None:
    coordinator = Coordinator(transactional_id_expiration_ms=7_200_000)
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.pass_time(1)
    coordinator.carry_out([])
    coordinator.writes_markers = False
    coordinator.pass_time(3 * 3_600)
    assert coordinator.is_in(State.PREPARE_ABORT)  # not while anything is open
    coordinator.mark(coordinator.markers[-1])
    coordinator.pass_time(4 * 3_600)
    assert coordinator.shard.entries() == []
    assert coordinator.log[-1][1] is None
    coordinator.fail_over()
    assert coordinator.shard.entries() == []
    assert coordinator.init()[0] != producer[0]


# --- on command ---------------------------------------------------------------------------------


def test_a_transaction_times_out_on_command() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.add(producer, P0)
    coordinator.carry_out(coordinator.shard.time_out(TID, coordinator.now))
    assert [one.commits for one in coordinator.markers] == [False]
    assert coordinator.end(producer).error_code is ErrorCode.PRODUCER_FENCED


def test_a_timeout_on_command_waits_for_the_write_before_it() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=10_000)
    coordinator.commits_at_once = False
    coordinator.begin(AddPartitions(TID, *producer, (P0,)))
    coordinator.carry_out(coordinator.shard.time_out(TID, coordinator.now))
    assert coordinator.markers == []
    coordinator.commit()
    coordinator.commits_at_once = True
    coordinator.pass_time(1)
    assert [one.commits for one in coordinator.markers] == [False]


def test_only_an_open_transaction_times_out_on_command() -> None:
    coordinator = Coordinator()
    with pytest.raises(ValueError, match="no open transaction: it is unknown"):
        coordinator.shard.time_out(TID, coordinator.now)
    coordinator.init(timeout_ms=10_000)
    with pytest.raises(ValueError, match="no open transaction: it is EMPTY"):
        coordinator.shard.time_out(TID, coordinator.now)
