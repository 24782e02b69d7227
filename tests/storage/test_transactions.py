"""Transactions in a log: what is stable, what was aborted, what is refused (KIP-98, KIP-890)."""

from collections.abc import Callable

import pytest

from minikafka.protocol.records.batch import parse_batch_header
from minikafka.protocol.records.builder import encode_batch
from minikafka.storage import transactions
from minikafka.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from minikafka.storage.log import Log
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.transactions import AbortedTransaction
from tests.storage.batches import NOW_MS, batch_of
from tests.storage.transactional import (
    ABORT,
    COMMIT,
    TransactionalLog,
    read_committed,
    transactional_batch,
)

DAY_MS = 86_400_000


# --- the last stable offset -----------------------------------------------------------------------


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    under_test = TransactionalLog()
    under_test.append("plain")
    under_test.write(7, "a", "b")
    under_test.append("behind it")
    under_test.replicate()
    assert (under_test.log.last_stable_offset, under_test.log.high_watermark) == (1, 4)
    assert read_committed(under_test.log) == ["plain"]
    under_test.end(7, COMMIT)
    under_test.replicate()
    assert under_test.log.last_stable_offset == 5
    assert read_committed(under_test.log) == ["plain", "a", "b", "behind it"]


def test_a_marker_counts_when_it_is_below_the_high_watermark() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    under_test.end(7, COMMIT)
    under_test.log.high_watermark = 1  # the marker, at offset 1, may still be truncated
    assert under_test.log.last_stable_offset == 0
    under_test.replicate()
    assert under_test.log.last_stable_offset == 2


def test_the_oldest_open_transaction_counts() -> None:
    under_test = TransactionalLog()
    for producer_id in (1, 2, 3):
        under_test.write(producer_id, "x")
    under_test.replicate()
    under_test.end(2, COMMIT)
    under_test.replicate()
    assert under_test.log.last_stable_offset == 0
    under_test.end(1, ABORT)
    under_test.replicate()
    assert under_test.log.last_stable_offset == 2  # the third producer's


def test_the_start_of_the_log_bounds_the_last_stable_offset() -> None:
    """Records of an open transaction were deleted."""
    under_test = TransactionalLog()
    for value in "abc":
        under_test.write(1, value)
    under_test.replicate()
    under_test.log.advance_log_start_offset(2)
    assert under_test.log.last_stable_offset == under_test.log.log_start_offset == 2
    under_test.end(1, COMMIT)
    under_test.replicate()
    assert under_test.log.last_stable_offset == 4
    assert read_committed(under_test.log) == ["c"]


def test_the_high_watermark_bounds_the_last_stable_offset() -> None:
    under_test = TransactionalLog()
    under_test.append("a")
    under_test.append("b")
    under_test.write(7, "c")
    under_test.log.high_watermark = 1
    assert under_test.log.last_stable_offset == 1


# --- aborted transactions -------------------------------------------------------------------------


def test_records_of_an_aborted_transaction_are_filtered_out() -> None:
    under_test = TransactionalLog()
    under_test.write(1, "no")
    under_test.write(2, "yes")
    under_test.write(1, "neither")
    under_test.end(1, ABORT)
    under_test.end(2, COMMIT)
    under_test.write(1, "now")
    under_test.end(1, COMMIT)
    under_test.replicate()
    assert read_committed(under_test.log) == ["yes", "now"]
    assert read_committed(under_test.log, size_bytes_max=1) == ["yes", "now"]


def test_only_transactions_that_overlap_a_fetch_are_named() -> None:
    under_test = TransactionalLog()
    for _ in range(3):
        under_test.write(1, "x")  # offsets 0, 2 and 4; the markers at 1, 3 and 5
        under_test.end(1, ABORT)
    log = under_test.log
    assert [one.first_offset for one in log.aborted_transactions(0, 6)] == [0, 2, 4]
    assert [one.first_offset for one in log.aborted_transactions(2, 4)] == [2]
    assert [one.first_offset for one in log.aborted_transactions(3, 5)] == [2, 4]
    assert log.aborted_transactions(6, 9) == []


def test_a_long_transaction_is_found_behind_short_ones() -> None:
    under_test = TransactionalLog()
    under_test.write(9, "long")
    under_test.write(1, "short")
    under_test.end(1, ABORT)
    under_test.write(2, "short")
    under_test.end(2, ABORT)
    under_test.end(9, ABORT)
    log = under_test.log
    assert [one.producer_id for one in log.aborted_transactions(0, 1)] == [9]
    assert log.aborted_transactions(0, 1)[0] == AbortedTransaction(9, 0, 5, 6)


def test_deleted_transactions_are_no_longer_named() -> None:
    under_test = TransactionalLog()
    under_test.write(1, "x")
    under_test.end(1, ABORT)
    under_test.write(1, "y")
    under_test.end(1, ABORT)
    under_test.replicate()
    under_test.log.advance_log_start_offset(2)
    assert [one.first_offset for one in under_test.log.aborted_transactions(0, 9)] == [2]


# --- what is refused ------------------------------------------------------------------------------


def refused(log: Log, batch: bytes) -> None:
    end_offset = log.log_end_offset
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == end_offset


def test_a_transaction_begins_only_when_its_coordinator_knows_it() -> None:
    under_test = TransactionalLog()
    refused(under_test.log, transactional_batch("x", producer_id=7, epoch=0, sequence=0))


def test_a_late_record_cannot_open_a_transaction_after_its_marker() -> None:
    under_test = TransactionalLog()
    log = under_test.log
    batch = transactional_batch("late", producer_id=7, epoch=0, sequence=0)
    verification = log.verify_transaction(7, 0)
    assert verification is not None
    assert log.verify_transaction(7, 0) is verification  # asked twice, at the same time
    refused(log, batch)  # the coordinator has not answered
    under_test.end(7, ABORT)
    verification.is_confirmed = True
    refused(log, batch)


def test_a_verification_covers_one_epoch() -> None:
    under_test = TransactionalLog()
    under_test.confirm(7, 1)
    refused(under_test.log, transactional_batch("x", producer_id=7, epoch=0, sequence=0))
    # A late batch of an earlier epoch does not affect the confirmed one.
    assert under_test.log.verify_transaction(7, 0) is not None
    assert under_test.write(7, "y", epoch=1) == 0


def test_kafka_14920_the_first_record_is_not_overtaken() -> None:
    """While it waited for the coordinator, a later one could begin the transaction."""
    under_test = TransactionalLog()
    log = under_test.log
    first, second = (log.verify_transaction(7, 0, sequence) for sequence in (0, 1))
    assert second is not None
    assert first is second
    # The first one has given up waiting, and will be sent again; the second one is confirmed.
    second.is_confirmed = True
    batches = [transactional_batch("x", producer_id=7, epoch=0, sequence=one) for one in (0, 1)]
    with pytest.raises(OutOfOrderSequence, match="waits for the transaction's coordinator"):
        log.append_as_leader(batches[1], leader_epoch=0, now_ms=NOW_MS)
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 2


def test_an_expired_producer_continues_its_sequences() -> None:
    under_test = TransactionalLog()
    log = under_test.log
    verification = log.verify_transaction(7, 0, 41)
    assert verification is not None
    verification.is_confirmed = True
    batch = transactional_batch("x", producer_id=7, epoch=0, sequence=41)
    assert log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS).base_offset == 0


def test_an_open_transaction_keeps_its_sequences_beyond_the_expiration() -> None:
    """With two-phase commit it may stay open for days."""
    under_test = TransactionalLog(producer_id_expiration_ms=1000)
    under_test.write(7, "a")
    batch = transactional_batch("a", producer_id=7, epoch=0, sequence=0, key="k")
    late = under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS + 10**9)
    assert late.is_duplicate
    gap = transactional_batch("b", producer_id=7, epoch=0, sequence=2)
    with pytest.raises(OutOfOrderSequence):
        under_test.log.append_as_leader(gap, leader_epoch=0, now_ms=NOW_MS + 10**9)


def test_pending_verifications_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any client can send batches of producers and epochs that do not exist."""
    monkeypatch.setattr(transactions, "VERIFICATIONS_MAX", 3)
    state = transactions.TransactionState()
    first = state.verify(0, 0)
    assert first is not None
    first.is_confirmed = True
    assert state.confirmed(0, 0) is first
    for producer_id in range(1, 4):
        state.verify(producer_id, 0)
    assert state.confirmed(0, 0) is None  # has to ask again
    for epoch in range(10):
        verification = state.verify(1, epoch)
        assert verification is not None
        verification.is_confirmed = True
    assert [epoch for epoch in range(10) if state.confirmed(1, epoch)] == [6, 7, 8, 9]


def test_a_new_leader_forgets_what_was_verified() -> None:
    """Another broker led in between, and may have ended the transaction."""
    under_test = TransactionalLog()
    under_test.confirm(7, 0)
    under_test.log.producer_state.transactions.forget_verifications()
    refused(under_test.log, transactional_batch("x", producer_id=7, epoch=0, sequence=0))


@pytest.mark.parametrize(("marker_epoch", "is_kept"), [(0, False), (1, True), (2, False)])
def test_a_marker_voids_verifications_of_older_epochs(marker_epoch: int, is_kept: bool) -> None:
    """The next transaction may be verified while the marker of this one is on its way."""
    under_test = TransactionalLog()
    under_test.write(7, "a")
    under_test.confirm(7, 1)
    under_test.end(7, COMMIT, epoch=marker_epoch, transaction_version=2 if marker_epoch else 0)
    is_confirmed = under_test.log.producer_state.transactions.confirmed(7, 1) is not None
    assert is_confirmed == is_kept


def test_an_open_transaction_needs_no_further_verification() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    assert under_test.log.verify_transaction(7, 0) is None
    assert under_test.write(7, "b") == 1


def test_no_batch_outside_the_open_transaction() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    refused(under_test.log, batch_of("b", producer=(7, 0, 1)))


def test_no_batch_of_another_epoch_into_the_open_transaction() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    refused(under_test.log, transactional_batch("b", producer_id=7, epoch=1, sequence=0))


def test_a_coordinator_writes_in_a_transaction_without_sequences() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    batch = transactional_batch("offsets", producer_id=7, epoch=0, sequence=-1)
    under_test.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, from_client=False)
    assert under_test.write(7, "b") == 2
    under_test.kill()
    assert under_test.write(7, "c") == 3


# --- markers --------------------------------------------------------------------------------------


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    under_test.end(7, COMMIT, coordinator_epoch=4)
    under_test.write(7, "b")
    with pytest.raises(TransactionCoordinatorFenced, match="of epoch 4 has been written"):
        under_test.end(7, COMMIT, coordinator_epoch=3)
    assert under_test.log.producer_state.active_producers()[0].coordinator_epoch == 4


def test_a_marker_of_an_older_producer_is_fenced() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a", epoch=3)
    with pytest.raises(InvalidProducerEpoch, match="epoch 3 has written"):
        under_test.end(7, COMMIT, epoch=2)


def test_before_version_2_a_marker_has_its_transactions_epoch() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a", epoch=3)
    assert under_test.end(7, COMMIT, epoch=3) is not None
    assert under_test.write(7, "b", epoch=3) == 2  # the sequence continues


def test_with_version_2_a_delayed_marker_cannot_end_the_next_transaction() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a", epoch=3)
    assert under_test.end(7, COMMIT, epoch=4, transaction_version=2) is not None
    # A new coordinator repeats it, before and after the next transaction has begun.
    assert under_test.end(7, COMMIT, epoch=4, transaction_version=2) is None
    under_test.write(7, "b", epoch=4)
    with pytest.raises(InvalidProducerEpoch):
        under_test.end(7, COMMIT, epoch=4, transaction_version=2)
    under_test.replicate()
    assert read_committed(under_test.log) == ["a"]


def test_a_marker_for_a_producer_that_wrote_nothing_here() -> None:
    under_test = TransactionalLog()
    assert under_test.end(7, ABORT, transaction_version=2) is not None
    under_test.replicate()
    assert under_test.log.last_stable_offset == 1
    assert under_test.log.aborted_transactions(0, 1) == []


def test_a_control_batch_that_is_not_a_marker_changes_nothing() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    for key in (b"\0\0\0\4", b"?"):
        batch = encode_batch(
            [(key, b"value", (), NOW_MS)],
            producer_id=7,
            producer_epoch=0,
            base_sequence=-1,
            is_control=True,
            base_offset=under_test.log.log_end_offset,
            partition_leader_epoch=0,
        )
        under_test.log.append_as_follower(batch, now_ms=NOW_MS)
    under_test.replicate()
    assert under_test.log.last_stable_offset == 0


# --- forgetting and remembering -------------------------------------------------------------------


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    under_test = TransactionalLog(producer_id_expiration_ms=1)
    under_test.write(7, "a")
    under_test.write(8, "b")
    under_test.end(8, COMMIT)
    under_test.replicate()
    under_test.log.apply_retention(NOW_MS + DAY_MS)
    left = under_test.log.producer_state.active_producers()
    assert [one.producer_id for one in left] == [7]
    assert left[0].current_transaction_start_offset == 0


def test_producers_without_a_transaction_are_forgotten_first() -> None:
    producers = ProducerStateManager(producers_max=2)

    def append(producer_id: int, *, is_transactional: bool) -> None:
        batch = encode_batch(
            [(None, b"x", (), NOW_MS)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=is_transactional,
        )
        producers.update(parse_batch_header(batch), producer_id, now_ms=NOW_MS)

    append(1, is_transactional=True)
    append(2, is_transactional=False)
    append(3, is_transactional=True)
    assert [one.producer_id for one in producers.active_producers()] == [1, 3]
    append(4, is_transactional=True)
    assert len(producers) == 3  # none can be forgotten: their transactions would never end


Reopen = Callable[[TransactionalLog], object]


@pytest.mark.parametrize(
    "reopen",
    [
        TransactionalLog.restart,
        lambda one: one.kill(high_watermark=one.log.high_watermark),
        lambda one: (one.log.roll(NOW_MS), one.kill(high_watermark=one.log.high_watermark)),
    ],
    ids=["clean", "killed", "killed after a snapshot"],
)
def test_a_restart_changes_nothing(reopen: Reopen) -> None:
    under_test = TransactionalLog()
    under_test.write(1, "no")
    under_test.end(1, ABORT, coordinator_epoch=5)
    under_test.write(2, "yes")
    under_test.end(2, COMMIT)
    under_test.write(3, "open")
    under_test.replicate()
    under_test.write(1, "not certain")
    under_test.end(1, ABORT, coordinator_epoch=5)
    before = under_test.log.aborted_transactions(0, 99)
    reopen(under_test)
    log = under_test.log
    assert log.aborted_transactions(0, 99) == before
    assert log.last_stable_offset == 4
    assert read_committed(log) == ["yes"]
    with pytest.raises(TransactionCoordinatorFenced):
        under_test.end(1, ABORT, coordinator_epoch=4)
    under_test.end(3, COMMIT)
    log.high_watermark = 7
    assert log.last_stable_offset == 4  # this marker, at offset 7, is not certain yet
    under_test.replicate()
    assert read_committed(log) == ["yes", "open"]


def test_a_truncated_marker_has_no_effect() -> None:
    under_test = TransactionalLog()
    under_test.write(7, "a")
    under_test.end(7, ABORT)
    under_test.log.truncate_to(1)
    under_test.replicate()
    assert under_test.log.last_stable_offset == 0
    assert under_test.log.aborted_transactions(0, 9) == []
    under_test.end(7, COMMIT)
    under_test.replicate()
    assert read_committed(under_test.log) == ["a"]


def test_a_follower_knows_what_its_leader_knows() -> None:
    leader = TransactionalLog()
    leader.write(1, "no")
    leader.write(2, "open")
    leader.end(1, ABORT)
    copied = leader.log.read(0, size_bytes_max=10_000, upper_bound_offset=99).records
    assert copied is not None
    for segment_bytes in (10_000, 100):  # in one write, and in several
        follower = TransactionalLog(segment_bytes=segment_bytes)
        follower.log.append_as_follower(copied.read(), now_ms=NOW_MS)
        follower.replicate()
        assert follower.log.last_stable_offset == 1
        assert follower.log.aborted_transactions(0, 9) == leader.log.aborted_transactions(0, 9)
