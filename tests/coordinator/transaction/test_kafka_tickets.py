"""Apache Kafka's own tickets about the transaction coordinator, each as a scenario.

KAFKA-8803, 9666 and 18660 (epochs that run out) and 20357 are also where the feature they are
about is tested; those about partitions are in tests/storage/test_kafka_producer_tickets.py, and
those about brokers in tests/broker/test_kafka_transaction_tickets.py.
"""

from __future__ import annotations

import pytest

from minikafka.coordinator.transaction import EndTransaction, InitProducer, TransactionState
from minikafka.coordinator.transaction.records import encode_entry
from minikafka.coordinator.transaction.states import PRODUCER_EPOCH_MAX
from minikafka.protocol.errors import ErrorCode
from tests.coordinator.transaction.harness import P0, P1, TID, Coordinator

OK = ErrorCode.NONE
State = TransactionState
LAST = PRODUCER_EPOCH_MAX - 1


def at_epoch(epoch: int) -> tuple[Coordinator, tuple[int, int]]:
    """A coordinator whose producer has reached an epoch."""
    coordinator = Coordinator()
    producer_id, _ = coordinator.init()
    coordinator.log.append(encode_entry(coordinator.entry._replace(producer_epoch=epoch)))
    coordinator.fail_over()
    return coordinator, (producer_id, epoch)


def test_kafka_8803_the_clock_goes_back_and_the_transaction_still_expires() -> None:
    coordinator = Coordinator()
    producer = coordinator.init(timeout_ms=60_000)
    coordinator.add(producer, P0)
    coordinator.wall_ms -= 365 * 86_400_000
    coordinator.pass_time(61)
    assert coordinator.is_in(State.COMPLETE_ABORT)
    # Even if it was loaded by a broker whose clock is behind.
    producer = coordinator.init(timeout_ms=60_000)
    coordinator.add(producer, P0)
    coordinator.wall_ms -= 365 * 86_400_000
    coordinator.fail_over()
    assert coordinator.is_in(State.ONGOING)
    coordinator.pass_time(61)
    assert coordinator.is_in(State.COMPLETE_ABORT)


@pytest.mark.parametrize("is_ongoing", [True, False])
def test_kafka_9666_a_log_that_accepts_no_writes_uses_no_epochs(is_ongoing: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.init()
    if is_ongoing:
        coordinator.add(producer, P0)
    before = coordinator.entry
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(100):
        refused = coordinator.ask(InitProducer(TID, 60_000))
        assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        coordinator.pass_time(1)
    assert coordinator.entry == before
    coordinator.append_error = None
    assert coordinator.init()[1] <= producer[1] + 2


@pytest.mark.parametrize("commits_first", [True, False])
def test_kafka_18464_aborting_an_empty_transaction_fences_no_producer(commits_first: bool) -> None:
    """The one before it is still being ended."""
    coordinator = Coordinator()
    coordinator.writes_markers = False
    producer = coordinator.init()
    coordinator.add(producer, P0, P1, transaction_version=2)
    first = coordinator.end(producer, commits=commits_first, version=2)
    successor = (first.producer_id, first.producer_epoch)
    token = coordinator.begin(EndTransaction(TID, *successor, False, 2))
    coordinator.mark(coordinator.markers[0])
    assert coordinator.replies[token].error_code is OK
    third = (coordinator.replies[token].producer_id, coordinator.replies[token].producer_epoch)
    assert third == (successor[0], successor[1] + 1)
    assert coordinator.add(third, P0, transaction_version=2) is OK


def test_kafka_18660_the_last_epoch_ends_and_the_next_producer_id_begins() -> None:
    coordinator, producer = at_epoch(LAST)
    coordinator.add(producer, P0, transaction_version=2)
    reply = coordinator.end(producer, version=2)
    assert (reply.error_code, reply.producer_epoch) == (OK, 0)
    assert reply.producer_id != producer[0]
    # The markers end the last transaction of the old id, with the epoch that is kept for them.
    assert (coordinator.markers[-1].producer_id, coordinator.markers[-1].producer_epoch) == (
        producer[0],
        PRODUCER_EPOCH_MAX,
    )
    successor = (reply.producer_id, reply.producer_epoch)
    assert coordinator.add(successor, P0, transaction_version=2) is OK
    assert coordinator.end(successor, version=2).error_code is OK


def test_kafka_19367_a_new_instance_ends_a_transaction_of_the_last_epoch() -> None:
    """Fencing it and ending it must not raise the epoch twice, beyond what a number can be."""
    for epoch in (LAST - 1, LAST):
        coordinator, producer = at_epoch(epoch)
        coordinator.add(producer, P0, transaction_version=2)
        fresh = coordinator.init()
        assert 0 <= coordinator.markers[-1].producer_epoch <= PRODUCER_EPOCH_MAX
        assert coordinator.markers[-1].producer_id == producer[0]
        assert 0 <= fresh[1] < PRODUCER_EPOCH_MAX
        assert coordinator.add(fresh, P0, transaction_version=2) is OK
        assert coordinator.add(producer, P0) is not OK


def test_kafka_20090_a_transaction_of_the_last_epoch_times_out() -> None:
    """The producer is late, gets the new id, and continues."""
    coordinator, producer = at_epoch(LAST)
    coordinator.add(producer, P0, transaction_version=2)
    coordinator.pass_time(61)
    assert coordinator.is_in(State.COMPLETE_ABORT)
    late = coordinator.end(producer, commits=False, version=2)
    assert (late.error_code, late.producer_epoch) == (OK, 0)
    assert late.producer_id != producer[0]
    assert coordinator.add((late.producer_id, 0), P0, transaction_version=2) is OK


@pytest.mark.parametrize("epoch", [0, LAST])
def test_kafka_20357_a_retry_after_a_failover_is_not_a_zombie(epoch: int) -> None:
    """Its answer was lost together with the coordinator, even if the epochs were exhausted."""
    coordinator, producer = at_epoch(epoch)
    going_on = {"producer_id": producer[0], "producer_epoch": producer[1]}
    first = coordinator.init(**going_on)
    coordinator.fail_over()
    assert coordinator.init(**going_on) == first
    coordinator.add(first, P0, transaction_version=2)
    ended = coordinator.end(first, version=2)
    coordinator.fail_over()
    assert coordinator.end(first, version=2) == ended


@pytest.mark.parametrize("epoch", [0, LAST])
def test_kafka_20785_a_commit_meets_the_coordinators_own_abort(epoch: int) -> None:
    """The producer gets TRANSACTION_ABORTABLE, not INVALID_TXN_STATE: nothing was committed."""
    coordinator, producer = at_epoch(epoch)
    coordinator.add(producer, P0, transaction_version=2)
    coordinator.writes_markers = False
    coordinator.pass_time(61)
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert coordinator.is_in(State.PREPARE_ABORT)
    assert coordinator.end(producer, version=2).error_code is abortable
    coordinator.mark(coordinator.markers[0])
    assert coordinator.is_in(State.COMPLETE_ABORT)
    assert coordinator.end(producer, version=2).error_code is abortable
    aborted = coordinator.end(producer, commits=False, version=2)
    assert aborted.error_code is OK
    successor = (aborted.producer_id, aborted.producer_epoch)
    assert coordinator.add(successor, P0, transaction_version=2) is OK
    # An older client learns that another producer has the id, and can continue with its own.
    coordinator, producer = at_epoch(0)
    coordinator.add(producer, P0)
    coordinator.pass_time(61)
    assert coordinator.end(producer).error_code is ErrorCode.PRODUCER_FENCED
    again = coordinator.init(producer_id=producer[0], producer_epoch=producer[1])
    assert coordinator.add(again, P0) is OK
