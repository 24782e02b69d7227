"""Where two logs part: what the leader answers and where the follower cuts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.replication import find_divergence, truncation_offset
from minikafka.storage.errors import OffsetOutOfRange
from minikafka.storage.leader_epochs import EpochEndOffset
from tests.replication.histories import PlainLog


def divergence(leader: PlainLog, follower: PlainLog) -> EpochEndOffset | None:
    return find_divergence(
        leader, fetch_offset=follower.log_end_offset, last_fetched_epoch=follower.last_epoch
    )


def test_a_log_that_the_leader_continues() -> None:
    leader = PlainLog([0, 0, 1, 1])
    for count in range(5):
        assert divergence(leader, PlainLog([0, 0, 1, 1][:count])) is None


def test_a_longer_epoch() -> None:
    leader = PlainLog([0, 0, 1])
    follower = PlainLog([0, 0, 0, 0])
    diverging = divergence(leader, follower)
    assert diverging == EpochEndOffset(0, 2)
    assert truncation_offset(follower, diverging) == 2


def test_an_epoch_that_the_leader_has_not() -> None:
    leader = PlainLog([0, 0, 0, 2])
    follower = PlainLog([0, 0, 1, 1, 1])
    diverging = divergence(leader, follower)
    assert diverging == EpochEndOffset(0, 3)
    assert truncation_offset(follower, diverging) == 2


def test_an_epoch_that_the_follower_has_not() -> None:
    """It goes down epoch by epoch (KIP-279)."""
    leader = PlainLog([0, 1, 1, 1, 4])
    follower = PlainLog([0, 0, 0, 2, 3])
    diverging = divergence(leader, follower)
    assert diverging == EpochEndOffset(1, 4)
    assert truncation_offset(follower, diverging) == 3
    follower.truncate_to(3)
    diverging = divergence(leader, follower)
    assert diverging == EpochEndOffset(0, 1)
    assert truncation_offset(follower, diverging) == 1


def test_an_epoch_in_which_nothing_was_written() -> None:
    leader = PlainLog([0, 0])
    leader.leader_epochs.assign(2, 2)
    follower = PlainLog([0, 0])
    follower.leader_epochs.assign(1, 2)
    diverging = divergence(leader, follower)
    assert diverging == EpochEndOffset(0, 2)
    assert truncation_offset(follower, diverging) == 2
    follower.truncate_to(2)
    assert divergence(leader, follower) is None


def test_an_epoch_that_ended_before_the_followers_log() -> None:
    leader = PlainLog([0, 0, 0, 3])
    follower = PlainLog([1, 1], log_start_offset=5)
    diverging = divergence(leader, follower)
    assert diverging == EpochEndOffset(0, 3)
    assert truncation_offset(follower, diverging) == 3  # below its start: nothing agrees


def test_below_the_leaders_start() -> None:
    leader = PlainLog([3, 3], log_start_offset=10)
    with pytest.raises(OffsetOutOfRange, match="offset 2 was requested, the log begins at 10"):
        divergence(leader, PlainLog([0, 0]))


def test_an_empty_log_at_the_leaders_end() -> None:
    leader = PlainLog([3, 3], log_start_offset=10)
    assert divergence(leader, PlainLog([], log_start_offset=12)) is None
    with pytest.raises(OffsetOutOfRange, match="offset 13 was requested, the log ends at 12"):
        divergence(leader, PlainLog([], log_start_offset=13))


def test_an_epoch_from_the_future() -> None:
    with pytest.raises(OffsetOutOfRange, match="leader epoch 4 is not known here"):
        divergence(PlainLog([3, 3]), PlainLog([4]))


def test_a_follower_that_knows_no_epochs() -> None:
    """Which does not happen, as it has then nothing to diverge with; the leader's end is right."""
    assert truncation_offset(PlainLog([]), EpochEndOffset(2, 5)) == 0


@st.composite
def leaderships(draw: st.DrawFn) -> tuple[PlainLog, PlainLog]:
    """Two logs of a partition whose leaders were elected from anywhere, even uncleanly.

    Each epoch has one leader, which appends and is followed by the other for a while, after
    agreeing on where they part: what replication guarantees.
    """
    logs = [PlainLog([]), PlainLog([])]
    for epoch in range(draw(st.integers(0, 6))):
        leader, follower = draw(st.permutations(logs))
        leader.leader_epochs.assign(epoch, leader.log_end_offset)
        leader.append([epoch] * draw(st.integers(0, 3)))
        if draw(st.booleans()):
            agree(leader, follower)
            copied = leader.epochs[follower.log_end_offset :]
            follower.append(copied[: draw(st.integers(0, len(copied)))])
    leader, follower = draw(st.permutations(logs))
    leader.leader_epochs.assign(10, leader.log_end_offset)
    leader.append([10] * draw(st.integers(0, 2)))
    return leader, follower


def agree(leader: PlainLog, follower: PlainLog) -> int:
    """Ask and cut until the logs agree; returns how often it was asked."""
    for rounds in range(20):
        diverging = divergence(leader, follower)
        if diverging is None:
            return rounds
        follower.truncate_to(truncation_offset(follower, diverging))
    raise AssertionError(f"{follower.epochs} and {leader.epochs} do not agree after 20 rounds")


@given(leaderships())
def test_the_follower_keeps_what_both_have_and_nothing_else(
    logs: tuple[PlainLog, PlainLog],
) -> None:
    leader, follower = logs
    common = 0
    for mine, other in zip(leader.epochs, follower.epochs, strict=False):
        if mine != other:
            break
        common += 1
    distinct = len(set(follower.epochs))
    rounds = agree(leader, follower)
    assert follower.epochs == leader.epochs[:common]
    assert rounds <= distinct + 1
