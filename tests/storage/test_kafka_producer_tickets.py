"""Apache Kafka's own tickets about a partition's producer state, each as a scenario.

KAFKA-14920 (a first record that is overtaken) is in test_transactions.py; those about the
coordinator are in tests/coordinator/transaction/test_kafka_tickets.py.
"""

from __future__ import annotations

import pytest

from minikafka.storage.errors import OutOfOrderSequence, TransactionCoordinatorFenced
from tests.storage.batches import NOW_MS, LogUnderTest, batch_of, value_at
from tests.storage.transactional import ABORT, COMMIT, TransactionalLog, transactional_batch

HOUR_MS = 3_600_000


def test_kafka_6003_a_follower_begins_in_the_middle_of_a_producers_sequences() -> None:
    """It is empty, and the first batch it gets is not the producer's first."""
    leader, follower = LogUnderTest(), LogUnderTest()
    for sequence in range(5):
        leader.append(value_at(sequence), producer=(7, 0, sequence))
    follower.log.truncate_fully_and_start_at(3, now_ms=NOW_MS)
    found = leader.log.read(3, size_bytes_max=10_000, upper_bound_offset=5)
    assert found.records is not None
    follower.log.append_as_follower(found.records.read(), now_ms=NOW_MS)
    assert follower.log.log_end_offset == 5
    # As leader it knows the next sequence, and recognises retries.
    log = follower.log
    retry = batch_of(value_at(4), producer=(7, 0, 4))
    assert log.append_as_leader(retry, leader_epoch=1, now_ms=NOW_MS).is_duplicate
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(batch_of("x", producer=(7, 0, 6)), leader_epoch=1, now_ms=NOW_MS)
    log.append_as_leader(batch_of("x", producer=(7, 0, 5)), leader_epoch=1, now_ms=NOW_MS)


@pytest.mark.parametrize("restarts", [1, 2])
def test_kafka_7298_records_are_deleted_before_their_marker_is_written(restarts: int) -> None:
    """Only the producer's marker is left, so its next sequence is unknown."""
    under_test = TransactionalLog(segment_bytes=200)
    for number in range(6):
        under_test.write(7, value_at(number))
    under_test.replicate()
    under_test.log.advance_log_start_offset(6)
    under_test.end(7, COMMIT)
    under_test.replicate()
    under_test.log.apply_retention(NOW_MS)
    for path in under_test.disk.paths("snapshot"):  # as if they had been lost
        under_test.disk.remove(path)
    for _ in range(restarts):  # the second one finds a snapshot from the first one
        under_test.log.close()
        under_test.open()
    under_test.confirm(7, 0)
    batch = transactional_batch("more", producer_id=7, epoch=0, sequence=6)
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    gap = transactional_batch("gap", producer_id=7, epoch=0, sequence=8)
    with pytest.raises(OutOfOrderSequence):
        under_test.log.append_as_leader(gap, leader_epoch=0, now_ms=NOW_MS)


def test_a_new_epoch_begins_at_zero_after_its_marker() -> None:
    """With an epoch per transaction the next sequence is known."""
    under_test = TransactionalLog()
    under_test.write(7, "a", epoch=0)
    under_test.end(7, COMMIT, epoch=1, transaction_version=2)
    under_test.confirm(7, 1)
    gap = transactional_batch("gap", producer_id=7, epoch=1, sequence=1)
    with pytest.raises(OutOfOrderSequence):
        under_test.log.append_as_leader(gap, leader_epoch=0, now_ms=NOW_MS)


def test_kafka_9144_a_marker_keeps_its_producer_and_its_coordinators_epoch() -> None:
    """Or a deposed coordinator could write markers again once the producer has expired."""
    under_test = TransactionalLog(producer_id_expiration_ms=HOUR_MS)
    under_test.write(7, "a")
    log, state = under_test.log, under_test.log.producer_state
    log.append_marker(
        ABORT,
        producer_id=7,
        producer_epoch=1,
        coordinator_epoch=5,
        transaction_version=2,
        leader_epoch=0,
        now_ms=NOW_MS + HOUR_MS - 1,  # the transaction took too long
    )
    assert state.expire(now_ms=NOW_MS + HOUR_MS, expiration_ms=HOUR_MS) == 0
    with pytest.raises(TransactionCoordinatorFenced):
        under_test.end(7, ABORT, epoch=2, coordinator_epoch=4, transaction_version=2)


def test_kafka_9144_a_log_with_decreasing_coordinator_epochs_can_be_read() -> None:
    """It must stop neither a restart nor a follower."""
    under_test = TransactionalLog()
    for number, coordinator_epoch in enumerate((5, 4)):
        under_test.write(7, "a", epoch=number)
        under_test.end(
            7,
            COMMIT,
            epoch=number + 1,
            coordinator_epoch=coordinator_epoch,
            transaction_version=2,
        )
        # As when the producer had expired.
        under_test.log.producer_state.expire(now_ms=NOW_MS + HOUR_MS, expiration_ms=0)
    found = under_test.log.read(0, size_bytes_max=10_000, upper_bound_offset=4)
    assert found.records is not None
    records = found.records.read()
    assert under_test.kill().log_end_offset == 4
    follower = LogUnderTest()
    follower.log.append_as_follower(records, now_ms=NOW_MS)
    assert follower.log.log_end_offset == 4
    with pytest.raises(TransactionCoordinatorFenced):
        under_test.end(7, COMMIT, epoch=3, coordinator_epoch=4, transaction_version=2)


@pytest.mark.parametrize("reopens", [False, True])
def test_kafka_19999_a_repeated_marker_is_not_appended(reopens: bool) -> None:
    """The response was lost, or the coordinator loaded its decision again after a failover."""
    under_test = TransactionalLog()
    under_test.write(7, "a")
    assert under_test.end(7, COMMIT, epoch=1, transaction_version=2) is not None
    if reopens:
        under_test.kill()
    again = under_test.end(7, COMMIT, epoch=1, coordinator_epoch=1, transaction_version=2)
    assert again is None
    assert under_test.log.log_end_offset == 2
