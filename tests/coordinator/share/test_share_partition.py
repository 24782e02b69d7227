"""What members of a share group get, and what happens to it, case by case."""

from __future__ import annotations

import pytest

from minikafka.coordinator.share.share_partition import (
    SAVE_AGAIN_SECONDS,
    Acknowledged,
    AcknowledgementBatch,
    AcknowledgeType,
    Acquired,
    Available,
    DeadLetter,
    Effect,
    Limits,
    LogBatch,
    Persist,
    RecordState,
    SharePartition,
    StateBatch,
)
from minikafka.protocol.errors import ErrorCode

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ARCHIVING = RecordState.ARCHIVING


def partition(*, has_dead_letters: bool = False, **limits: int) -> SharePartition:
    given = Limits(**limits, has_dead_letters=has_dead_letters)
    return SharePartition(0, log_end_offset=1000, limits=given)


def take(
    share: SharePartition, *batches: LogBatch, member: str = "m", now: float = 0.0, **wanted: int
) -> list[Acquired]:
    offset = share.fetch_offset()
    assert offset is not None
    return share.acquire(
        member,
        offset,
        batches,
        records_max=wanted.get("records_max", 500),
        batch_size=wanted.get("batch_size", 500),
        is_exact=bool(wanted.get("is_exact")),
        now=now,
    )


def say(share: SharePartition, first: int, last: int, *types: int) -> ErrorCode | None:
    """Acknowledge as member m; the error, or None while it is being stored."""
    effects = share.acknowledge("m", [AcknowledgementBatch(first, last, types)], "t", 0.0)
    return next((one.error_code for one in effects if isinstance(one, Acknowledged)), None)


def test_small_record_batches_are_acknowledged_together() -> None:
    batches = [LogBatch(first, first + 2) for first in range(0, 12, 3)]
    assert take(partition(), *batches, batch_size=5) == [Acquired(0, 5, 1), Acquired(6, 11, 1)]


def test_the_last_record_batch_is_acquired_as_a_whole_unless_the_limit_is_exact() -> None:
    batches = [LogBatch(0, 9), LogBatch(10, 19)]
    assert take(partition(), *batches, records_max=12) == [Acquired(0, 19, 1)]
    share = partition()
    assert take(share, *batches, records_max=12, is_exact=1) == [Acquired(0, 11, 1)]
    assert share.fetch_offset() == 12


def test_no_more_is_in_flight_than_allowed() -> None:
    share = partition(record_locks_max=10)
    assert take(share, LogBatch(0, 9), LogBatch(10, 19)) == [Acquired(0, 9, 1)]
    assert share.fetch_offset() is None
    assert say(share, 0, 4, ACCEPT) is None
    effects = share.persisted(1, ErrorCode.NONE, 0.0)
    assert Available() in effects
    assert share.fetch_offset() == 10


def test_offsets_without_records_are_passed_over() -> None:
    share = partition()
    marker, hole_before = LogBatch(3, 3, has_records=False), LogBatch(6, 7)
    assert take(share, LogBatch(0, 2), marker, hole_before) == [
        Acquired(0, 2, 1),
        Acquired(6, 7, 1),
    ]
    assert say(share, 0, 2, ACCEPT) is None
    share.persisted(1, ErrorCode.NONE, 0.0)
    assert share.start_offset == 6


def test_a_suspicious_record_does_not_take_others_with_it() -> None:
    share = partition(delivery_count_max=4)
    batch = LogBatch(0, 7)
    for count in (1, 2):
        assert take(share, batch) == [Acquired(0, 7, count)]
        share.release_member("m")
    assert take(share, batch) == [Acquired(0, 3, 3)]
    assert take(share, batch) == [Acquired(4, 5, 3)]
    share.release_member("m")
    assert take(share, batch) == [Acquired(0, 0, 4)]


def test_an_acknowledgement_is_all_or_nothing() -> None:
    share = partition()
    take(share, LogBatch(0, 4))
    take(share, LogBatch(5, 9), member="other")
    assert say(share, 3, 6, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    assert share.states() == [StateBatch(0, 4, ACQUIRED, 1), StateBatch(5, 9, ACQUIRED, 1)]


@pytest.mark.parametrize(
    "batches",
    [
        [AcknowledgementBatch(0, 2, [1, 1])],
        [AcknowledgementBatch(0, 2, [])],
        [AcknowledgementBatch(0, 0, [5])],
        [AcknowledgementBatch(2, 0, [1])],
        [AcknowledgementBatch(0, 2, [1]), AcknowledgementBatch(2, 3, [1])],
        [AcknowledgementBatch(0, 99, [1])],
    ],
)
def test_what_no_client_should_send(batches: list[AcknowledgementBatch]) -> None:
    share = partition()
    take(share, LogBatch(0, 4))
    assert share.acknowledge("m", batches, "t", 0.0) == [
        Acknowledged("t", ErrorCode.INVALID_REQUEST)
    ]


def test_acknowledgements_share_a_write() -> None:
    share = partition()
    take(share, LogBatch(0, 9))
    effects = [
        effect
        for offset in range(1, 5)
        for effect in share.acknowledge(
            "m", [AcknowledgementBatch(offset, offset, [ACCEPT])], offset, 0.0
        )
    ]
    done = RecordState.ACKNOWLEDGED
    assert effects == [Persist(1, 0, (StateBatch(1, 1, done, 1),), 1)]
    assert share.persisted(1, ErrorCode.NONE, 0.0) == [
        Acknowledged(1, ErrorCode.NONE),
        Persist(2, 0, (StateBatch(2, 4, done, 1),), 4),
    ]


def test_what_cannot_be_stored_stays_with_the_member() -> None:
    share = partition()
    take(share, LogBatch(0, 4))
    say(share, 0, 4, REJECT)
    assert share.persisted(1, ErrorCode.COORDINATOR_NOT_AVAILABLE, 1.0) == [
        Acknowledged("t", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ]
    assert share.states() == [StateBatch(0, 4, ACQUIRED, 1)]
    assert say(share, 0, 4, ACCEPT) is None


def test_a_lock_does_not_run_out_while_its_end_is_being_stored() -> None:
    share = partition(lock_duration_ms=1000)
    take(share, LogBatch(0, 4))
    say(share, 0, 1, ACCEPT)
    effects = share.expire(2.0)
    assert Available() in effects
    assert share.states() == [StateBatch(0, 1, ACQUIRED, 1), StateBatch(2, 4, AVAILABLE, 1)]


def test_a_new_leader_offers_what_was_read_but_not_acknowledged() -> None:
    stored = [StateBatch(5, 6, RecordState.ACKNOWLEDGED, 1), StateBatch(8, 8, AVAILABLE, 2)]
    share = SharePartition(3, stored, log_end_offset=20, limits=Limits())
    assert share.fetch_offset() == 3
    assert take(share, LogBatch(0, 9)) == [
        Acquired(3, 4, 1),
        Acquired(7, 7, 1),
        Acquired(8, 8, 3),
        Acquired(9, 9, 1),
    ]


def test_what_the_log_has_lost_is_nobodys() -> None:
    stored = [StateBatch(5, 9, RecordState.ACKNOWLEDGED, 1)]
    share = SharePartition(3, stored, log_end_offset=7, limits=Limits())
    assert (share.start_offset, share.next_offset) == (3, 7)
    share.log_start_moved(12)
    assert (share.start_offset, share.next_offset) == (12, 12)


def test_everybody_is_answered_when_the_leader_changes() -> None:
    share = partition()
    take(share, LogBatch(0, 9))
    say(share, 0, 1, ACCEPT)
    share.acknowledge("m", [AcknowledgementBatch(2, 3, [RELEASE])], "later", 0.0)
    assert share.closed(ErrorCode.NOT_LEADER_OR_FOLLOWER) == [
        Acknowledged("t", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Acknowledged("later", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Available(),
    ]


def test_types_may_differ_within_a_batch() -> None:
    share = partition()
    take(share, LogBatch(0, 5))
    assert say(share, 0, 5, ACCEPT, ACCEPT, RELEASE, REJECT, REJECT, ACCEPT) is None
    share.persisted(1, ErrorCode.NONE, 0.0)
    assert share.states() == [
        StateBatch(2, 2, AVAILABLE, 1),
        StateBatch(3, 4, RecordState.ARCHIVED, 1),
        StateBatch(5, 5, RecordState.ACKNOWLEDGED, 1),
    ]


def test_a_renewed_lock_begins_once_more_without_a_write() -> None:
    share = partition(lock_duration_ms=1000)
    take(share, LogBatch(0, 0))
    renew = AcknowledgementBatch(0, 0, [AcknowledgeType.RENEW])
    assert share.acknowledge("m", [renew], "t", 0.9) == [Acknowledged("t", ErrorCode.NONE)]
    assert share.expire(1.5) == []
    assert Available() in share.expire(1.9)


def test_a_first_start_is_stored() -> None:
    share = SharePartition(7, log_end_offset=7, limits=Limits())
    assert share.save_start() == [Persist(1, 7, (), 0)]
    assert share.persisted(1, ErrorCode.NONE, 0.0) == []
    assert share.persisted(1, ErrorCode.NONE, 0.0) == []


def test_compaction_may_remove_what_was_released() -> None:
    share = partition()
    take(share, LogBatch(0, 9))
    say(share, 0, 1, ACCEPT)
    share.persisted(1, ErrorCode.NONE, 0.0)
    share.release_member("m")
    assert take(share, LogBatch(4, 5), LogBatch(8, 8)) == [Acquired(4, 5, 2), Acquired(8, 8, 2)]
    assert share.states()[0] == StateBatch(4, 5, ACQUIRED, 2)


def test_a_lock_that_ran_out_during_a_failed_write_is_released() -> None:
    share = partition(lock_duration_ms=1000)
    take(share, LogBatch(0, 0))
    say(share, 0, 0, ACCEPT)
    assert share.expire(2.0) == []
    effects = share.persisted(1, ErrorCode.COORDINATOR_NOT_AVAILABLE, 2.0)
    assert Acknowledged("t", ErrorCode.COORDINATOR_NOT_AVAILABLE) in effects
    assert Available() in effects
    assert share.states() == [StateBatch(0, 0, AVAILABLE, 1)]


# --- dead letters --------------------------------------------------------------------------------


def with_dead_letters() -> SharePartition:
    return partition(delivery_count_max=2, lock_duration_ms=1000, has_dead_letters=True)


def letters(effects: list[Effect]) -> list[DeadLetter]:
    return [one for one in effects if isinstance(one, DeadLetter)]


def test_a_dead_letter_is_due_when_it_is_stored_that_nobody_gets_the_record() -> None:
    share = with_dead_letters()
    take(share, LogBatch(0, 3))
    batches = [AcknowledgementBatch(0, 3, [REJECT, REJECT, ACCEPT, RELEASE])]
    (persist,) = share.acknowledge("m", batches, "t", 0.0)
    assert persist == Persist(
        1,
        0,
        (
            StateBatch(0, 1, ARCHIVING, 1),
            StateBatch(2, 2, RecordState.ACKNOWLEDGED, 1),
            StateBatch(3, 3, AVAILABLE, 1),
        ),
        1,
    )
    effects = share.persisted(1, ErrorCode.NONE, 0.0)
    assert letters(effects) == [DeadLetter(0, 1, 1, is_rejected=True)]
    assert share.start_offset == 0
    assert share.fetch_offset() == 3
    assert share.dead_letters_written(0, 1) == [Persist(2, 3, (), 0)]
    assert share.states() == [StateBatch(3, 3, AVAILABLE, 1)]


def test_a_lock_that_runs_out_for_the_last_time_makes_a_dead_letter() -> None:
    share = with_dead_letters()
    take(share, LogBatch(0, 0))
    say(share, 0, 0, RELEASE)
    share.persisted(1, ErrorCode.NONE, 0.0)
    assert take(share, LogBatch(0, 0)) == [Acquired(0, 0, 2)]
    assert letters(share.expire(1.0)) == []
    effects = share.persisted(2, ErrorCode.NONE, 1.0)
    assert letters(effects) == [DeadLetter(0, 0, 2, is_rejected=False)]


def test_what_is_given_up_is_stored_again_after_a_failure_although_nobody_waits() -> None:
    share = with_dead_letters()
    take(share, LogBatch(0, 0))
    share.release_member("m")
    share.persisted(1, ErrorCode.NONE, 0.0)
    take(share, LogBatch(0, 0))
    share.release_member("m")
    assert share.persisted(2, ErrorCode.COORDINATOR_NOT_AVAILABLE, 5.0) == []
    assert share.expire(5.0 + SAVE_AGAIN_SECONDS / 2) == []
    assert share.deadline() == 5.0 + SAVE_AGAIN_SECONDS
    (persist,) = share.expire(5.0 + SAVE_AGAIN_SECONDS)
    assert persist == Persist(3, 0, (StateBatch(0, 0, ARCHIVING, 2),), 0)
    assert share.deadline() is None


def test_a_rejection_that_cannot_be_stored_is_none() -> None:
    share = with_dead_letters()
    take(share, LogBatch(0, 0))
    say(share, 0, 0, REJECT)
    effects = share.persisted(1, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0.0)
    assert effects == [Acknowledged("t", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    say(share, 0, 0, RELEASE)
    share.persisted(2, ErrorCode.NONE, 0.0)
    take(share, LogBatch(0, 0))
    say(share, 0, 0, RELEASE)
    effects = share.persisted(3, ErrorCode.NONE, 0.0)
    assert letters(effects) == [DeadLetter(0, 0, 2, is_rejected=False)]


def test_a_new_leader_writes_the_dead_letters_of_the_last_one() -> None:
    stored = [
        StateBatch(0, 1, ARCHIVING, 1),
        StateBatch(2, 2, ARCHIVING, 2),
        StateBatch(3, 3, AVAILABLE, 1),
    ]
    limits = Limits(delivery_count_max=2, has_dead_letters=True)
    share = SharePartition(0, stored, log_end_offset=10, limits=limits)
    assert share.resume() == [
        DeadLetter(0, 1, 1, is_rejected=True),
        DeadLetter(2, 2, 2, is_rejected=False),
    ]
    assert share.fetch_offset() == 3


def test_a_lower_limit_gives_up_what_was_delivered_as_often() -> None:
    share = partition(has_dead_letters=True)
    take(share, LogBatch(0, 1))
    say(share, 0, 1, RELEASE)
    share.persisted(1, ErrorCode.NONE, 0.0)
    take(share, LogBatch(0, 1), records_max=1, is_exact=True)
    say(share, 0, 0, RELEASE)
    share.persisted(2, ErrorCode.NONE, 0.0)
    lower = Limits(delivery_count_max=2, has_dead_letters=True)
    assert share.set_limits(lower) == [Persist(3, 0, (StateBatch(0, 0, ARCHIVING, 2),), 0)]
    assert share.set_limits(lower) == []
    assert share.fetch_offset() == 1
