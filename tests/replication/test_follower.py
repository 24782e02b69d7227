"""A follower asks, cuts, appends and waits."""

from typing import Any

import pytest

from minikafka import replication
from minikafka.protocol.errors import ErrorCode
from minikafka.storage.leader_epochs import EpochEndOffset
from minikafka.storage.repair import QuarantinedRange
from tests.replication.histories import PlainLog


class Following:
    """A follower of broker 1 in epoch 5; its log has records of epochs 3 and 4 up to 6."""

    def __init__(self, **changes: Any) -> None:
        self.log = PlainLog([3, 3, 3, 4, 4, 4], **{"high_watermark": 2} | changes)
        self.replica = replication.FollowerReplica(self.log, leader_id=1, leader_epoch=5)

    @property
    def position(self) -> replication.FetchPosition:
        position = self.replica.position()
        assert position is not None
        return position

    def answer(self, error_code: ErrorCode = ErrorCode.NONE, **fields: Any) -> list[Any]:
        """What it does about an answer to what it asks now."""
        fields = {"high_watermark": 2, "log_start_offset": 0, "log_end_offset": 9} | fields
        return self.replica.answered(
            self.position, replication.FetchAnswer(error_code, **fields), 10.0
        )

    @property
    def state(self) -> replication.FollowerState:
        return self.replica.state


def test_it_cuts_where_its_disk_was_damaged() -> None:
    """The leader has what was there, and both have the same epochs: it would go unnoticed."""
    following = Following(high_watermark=6)
    assert following.replica.begin() == []
    following.log.quarantined = (QuarantinedRange(2, 3), QuarantinedRange(4, 5))
    assert following.replica.begin() == [replication.TruncateTo(2, is_below_high_watermark=False)]


def test_it_asks_for_what_follows_its_last_record() -> None:
    following = Following()
    assert following.position == replication.FetchPosition(5, 6, 4, 0)
    assert following.state is replication.FollowerState.TRUNCATING


def test_an_answer_that_agrees() -> None:
    following = Following()
    effects = following.answer(records=b"batches", high_watermark=8)
    assert effects == [replication.AppendRecords(b"batches"), replication.FollowHighWatermark(8)]
    assert following.state is replication.FollowerState.FETCHING


def test_an_answer_without_records_may_have_a_high_watermark() -> None:
    following = Following()
    assert following.answer(high_watermark=6) == [replication.FollowHighWatermark(6)]


def test_an_answer_without_news() -> None:
    following = Following()
    assert following.answer(high_watermark=2) == []
    assert following.state is replication.FollowerState.FETCHING


def test_the_leaders_log_start_is_followed_after_its_high_watermark() -> None:
    """A log cannot begin above its high watermark."""
    following = Following()
    effects = following.answer(high_watermark=5, log_start_offset=5)
    assert effects == [replication.FollowHighWatermark(5), replication.AdvanceLogStart(5)]


# --- cutting --------------------------------------------------------------------------------------


def test_a_diverging_answer_cuts_and_shows_nothing() -> None:
    """The leader's high watermark says nothing about a log that is not the leader's."""
    following = Following()
    effects = following.answer(diverging=EpochEndOffset(3, 3), high_watermark=5)
    assert effects == [replication.TruncateTo(3, is_below_high_watermark=False)]
    assert following.state is replication.FollowerState.TRUNCATING


def test_a_log_that_begins_to_diverge_is_cut_too() -> None:
    following = Following()
    following.answer()
    following.answer(diverging=EpochEndOffset(4, 5))
    assert following.state is replication.FollowerState.TRUNCATING


def test_a_cut_below_the_high_watermark_is_said() -> None:
    following = Following(high_watermark=4)
    effects = following.answer(diverging=EpochEndOffset(3, 3))
    assert effects == [replication.TruncateTo(3, is_below_high_watermark=True)]


def test_nothing_agrees() -> None:
    """It begins where the leader begins: the leader may have records below its own start."""
    following = Following(log_start_offset=20, high_watermark=22)
    effects = following.answer(diverging=EpochEndOffset(2, 15), log_start_offset=7)
    assert effects == [replication.RestartAt(7, is_below_high_watermark=True)]


def test_the_leaders_retention_was_faster() -> None:
    following = Following()
    effects = following.answer(
        ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=50, log_end_offset=60
    )
    assert effects == [replication.RestartAt(50, is_below_high_watermark=False)]
    assert following.state is replication.FollowerState.TRUNCATING


def test_an_end_the_leader_does_not_reach() -> None:
    following = Following(high_watermark=6)
    effects = following.answer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=0, log_end_offset=4)
    assert effects == [replication.TruncateTo(4, is_below_high_watermark=True)]


def test_an_epoch_that_there_never_was_is_cut() -> None:
    """A bit of it is wrong, which no CRC notices; its leader could never say where it ended."""
    following = Following()
    following.log = PlainLog([3, 3, 3, 4, 4, 1 << 20], high_watermark=2)
    following.replica = replication.FollowerReplica(following.log, leader_id=1, leader_epoch=5)
    effects = following.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert effects == [replication.TruncateTo(5, is_below_high_watermark=False)]


def test_out_of_range_when_it_is_not() -> None:
    following = Following()
    assert following.answer(ErrorCode.OFFSET_OUT_OF_RANGE) == []
    assert following.state is replication.FollowerState.WAITING


# --- waiting --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error_code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_errors_are_waited_out(error_code: ErrorCode) -> None:
    following = Following()
    assert following.replica.deadline() is None
    assert following.answer(error_code) == []
    replica = following.replica
    assert replica.position() is None
    assert replica.deadline() == 10.02
    replica.expire(10.01)
    assert replica.position() is None
    replica.expire(10.02)
    assert replica.position() == replication.FetchPosition(5, 6, 4, 0)
    replica.expire(11.0)
    assert following.state is replication.FollowerState.TRUNCATING


def test_it_waits_longer_each_time() -> None:
    replica = Following().replica
    pauses: list[float] = []
    for _ in range(8):
        replica.not_answered(0.0)
        replica.not_answered(0.5)
        pauses.append(replica.retry_at)
        replica.expire(replica.retry_at)
    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]


def test_an_answer_resets_the_back_off() -> None:
    following = Following()
    following.replica.not_answered(0.0)
    following.replica.expire(1.0)
    following.answer()
    following.replica.append_failed(2.0)
    assert following.replica.deadline() == 2.02


# --- leaders that change --------------------------------------------------------------------------


def test_another_leader() -> None:
    following = Following()
    following.answer()
    following.replica.leader_changed(2, 6)
    assert following.position.leader_epoch == 6
    assert following.replica.leader_id == 2
    assert following.state is replication.FollowerState.TRUNCATING


def test_a_waiting_follower_asks_the_next_leader_at_once() -> None:
    following = Following()
    following.replica.not_answered(0.0)
    following.replica.leader_changed(2, 6)
    assert following.position.leader_epoch == 6


def test_an_older_leader_epoch_is_ignored() -> None:
    following = Following()
    following.replica.leader_changed(3, 5)
    assert following.replica.leader_id == 1
    assert following.position.leader_epoch == 5


DIVERGING = replication.FetchAnswer(ErrorCode.NONE, 2, 0, 9, EpochEndOffset(3, 1))


def test_the_answer_of_an_older_leader_is_dropped() -> None:
    """It would cut what the present leader has (KAFKA-7786)."""
    following = Following()
    asked = following.position
    following.replica.leader_changed(2, 6)
    assert following.replica.answered(asked, DIVERGING, 1.0) == []


def test_an_answer_about_another_end_is_dropped() -> None:
    following = Following()
    asked = following.position
    following.log.append([4])
    assert following.replica.answered(asked, DIVERGING, 1.0) == []


def test_an_answer_about_another_last_epoch_is_dropped() -> None:
    following = Following()
    asked = following.position
    following.log.truncate_to(5)
    following.log.append([5])
    assert following.replica.answered(asked, DIVERGING, 1.0) == []


def test_an_answer_that_comes_while_waiting_is_dropped() -> None:
    following = Following()
    asked = following.position
    following.replica.not_answered(0.0)
    assert following.replica.answered(asked, DIVERGING, 1.0) == []
    assert following.state is replication.FollowerState.WAITING
