"""Who joins the in-sync replicas and who leaves them."""

from minikafka.protocol.errors import ErrorCode
from minikafka.replication import AdvanceHighWatermark, Committed, EligibleBrokers, LeaderReplica
from tests.replication import leaders

# --- joining --------------------------------------------------------------------------------------


def test_a_follower_joins_at_the_high_watermark() -> None:
    leader = leaders.settled(isr=(1, 2))
    leader.appended(110, 0.1)
    assert leader.follower_fetched(3, 13, 99, 0, 0.2) == []
    assert leader.follower_fetched(3, 13, 100, 0, 0.3) == [leaders.proposal(1, 2, 3)]
    assert leader.image_changed((1, 2, 3), (1, 2, 3), 5, 8, 0.4) == []
    assert leader.isr == Committed((1, 2, 3))


def test_a_follower_joins_not_before_the_epochs_start() -> None:
    """Below it the follower may hold what no leader has (KAFKA-7128)."""
    leader = leaders.leader_of(isr=(1, 2))
    assert leader.high_watermark == 90
    assert leader.follower_fetched(3, 13, 95, 0, 0.1) == []
    assert leader.follower_fetched(3, 13, 100, 0, 0.2) == [leaders.proposal(1, 2, 3)]


def test_a_fenced_broker_does_not_join_before_it_is_unfenced() -> None:
    brokers = EligibleBrokers(leaders.broker_epochs(1, 2))
    leader = leaders.settled(isr=(1, 2), brokers=brokers)
    assert leader.follower_fetched(3, 13, 100, 0, 0.2) == []
    brokers.epochs = leaders.broker_epochs(1, 2, 3)
    # Nothing is written to the partition: its next fetch may come much later.
    assert leader.eligibility_changed(0.3) == [leaders.proposal(1, 2, 3)]


def test_a_broker_epoch_that_is_not_known_here_does_not_join() -> None:
    brokers = EligibleBrokers(leaders.broker_epochs(1, 2, 3))
    leader = leaders.settled(isr=(1, 2), brokers=brokers)
    assert leader.follower_fetched(3, 23, 100, 0, 0.2) == []
    brokers.epochs = leaders.broker_epochs(1, 2) | {3: 23}
    leader.eligibility_changed(0.3)
    assert leaders.pending(leader).isr[2] == (3, 23)


def test_one_after_the_other() -> None:
    """While one proposal is on its way there is no second one."""
    leader = leaders.settled(isr=(1,))
    assert leader.follower_fetched(2, 12, 100, 0, 0.1) == [leaders.proposal(1, 2)]
    assert leader.follower_fetched(3, 13, 100, 0, 0.1) == []
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 8, 0.2) == [
        leaders.proposal(1, 2, 3, partition_epoch=8)
    ]


def test_who_left_silently_joins_again_when_it_fetches() -> None:
    """Below min.insync.replicas the high watermark stands still, at their old position."""
    leader = leaders.settled(min_insync=2)
    leader.appended(110, 1.0)
    assert leader.expire(leaders.LAG_TIME_MAX_S + 1.0) == [leaders.proposal(1)]
    assert leader.image_changed((1, 2, 3), (1,), 5, 8, 32.0) == []
    assert leader.deadline() is None
    assert leader.expire(60.0) == []
    fetched = leader.follower_fetched(2, 12, 110, 0, 61.0)
    assert fetched == [leaders.proposal(1, 2, partition_epoch=8)]


def test_a_replica_that_is_no_longer_assigned_does_not_join() -> None:
    leader = leaders.settled(isr=(1, 2, 3))
    leader.image_changed((1, 2), (1, 2, 3), 5, 8, 0.1)
    leader.image_changed((1, 2), (1, 2), 5, 9, 0.2)
    assert leader.progress_of(3) is None
    assert isinstance(leader.isr, Committed)


# --- leaving --------------------------------------------------------------------------------------


def test_a_member_leaves_that_was_never_heard_of() -> None:
    leader = leaders.leader_of(isr=(1, 2))
    assert leader.deadline() == leaders.LAG_TIME_MAX_S
    assert leader.expire(leaders.LAG_TIME_MAX_S - 0.1) == []
    assert leader.expire(leaders.LAG_TIME_MAX_S) == [leaders.proposal(1)]
    assert leader.image_changed((1, 2, 3), (1,), 5, 8, leaders.LAG_TIME_MAX_S) == [
        AdvanceHighWatermark(100)
    ]


def test_a_member_leaves_that_does_not_fetch() -> None:
    leader = leaders.settled()
    leader.appended(110, 10.0)
    leader.follower_fetched(2, 12, 110, 0, 10.1)
    assert leader.deadline() == 10.0 + leaders.LAG_TIME_MAX_S
    assert leader.expire(40.0) == [leaders.proposal(1, 2)]
    assert leader.high_watermark == 100
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 8, 40.1) == [AdvanceHighWatermark(110)]
    assert leader.deadline() is None


def test_a_member_stays_that_has_everything() -> None:
    """It has waited for records; how long it has been silent does not matter."""
    leader = leaders.settled()
    assert leader.deadline() is None
    assert leader.expire(1000.0) == []
    leader.appended(110, 1000.0)
    assert leader.deadline() == 1000.0 + leaders.LAG_TIME_MAX_S


def test_a_member_stays_that_keeps_up() -> None:
    """Behind a busy leader it never has everything, but soon what there was."""
    leader = leaders.settled(isr=(1, 2))
    for second in range(1, 100):
        leader.appended(100 + 10 * second, second)
        leader.follower_fetched(2, 12, 90 + 10 * second, 0, second + 0.5)
        leader.appended(105 + 10 * second, second + 0.6)
        assert leader.expire(second + 0.9) == []
    assert leader.isr == Committed((1, 2))


def test_a_member_leaves_that_falls_behind() -> None:
    """It fetches all the time and gets slower than the leader."""
    leader = leaders.settled(isr=(1, 2))
    for second in range(1, 100):
        leader.appended(100 + 10 * second, second)
        leader.follower_fetched(2, 12, 100 + 9 * second, 0, second)
        if leader.expire(second):
            break
    assert leaders.pending(leader) == leaders.proposal(1)
    assert leaders.LAG_TIME_MAX_S < second < 2 * leaders.LAG_TIME_MAX_S


def test_two_members_leave_together() -> None:
    leader = leaders.settled()
    leader.appended(110, 1.0)
    assert leader.expire(31.0) == [leaders.proposal(1)]


def test_a_member_that_lost_records_leaves_at_once() -> None:
    """Its disk failed and it begins behind the high watermark: it must not be elected."""
    leader = leaders.settled()
    assert leader.follower_fetched(2, 12, 40, 0, 1.0) == [leaders.proposal(1, 3)]
    assert leader.image_changed((1, 2, 3), (1, 3), 5, 8, 1.1) == []
    leader.follower_fetched(2, 12, 90, 0, 1.2)
    leader.appended(110, 1.3)
    assert leader.follower_fetched(3, 13, 110, 0, 1.4) == [AdvanceHighWatermark(110)]


def test_a_member_that_lost_records_while_the_isr_changes_leaves_later() -> None:
    leader = leaders.settled(isr=(1, 2))
    leader.follower_fetched(3, 13, 100, 0, 0.1)
    assert leader.follower_fetched(2, 12, 40, 0, 0.2) == []
    assert leader.image_changed((1, 2, 3), (1, 2, 3), 5, 8, 0.3) == []
    assert leader.follower_fetched(2, 12, 41, 0, 0.4)[0] == leaders.proposal(
        1, 3, partition_epoch=8
    )


def test_a_shorter_lag_time_counts_from_the_past() -> None:
    leader = leaders.settled()
    leader.appended(110, 10.0)
    leader.configure(min_insync=1, lag_time_max_s=5.0, is_sync_counted=False, now=12.0)
    assert leader.deadline() == 15.0


# --- refused joins --------------------------------------------------------------------------------


WITHDRAWAL = leaders.proposal(1, 2, leader=1)


def refused_join() -> LeaderReplica:
    """The controller says that broker 3 may not join; its records count no more at 0.2."""
    leader = leaders.settled(isr=(1, 2))
    leader.follower_fetched(3, 13, 100, 0, 0.1)
    join = leaders.pending(leader)
    assert leader.isr_refused(join, ErrorCode.INELIGIBLE_REPLICA, 0.2) == [WITHDRAWAL]
    return leader


def test_a_refused_join_is_withdrawn() -> None:
    """A copy may still arrive when broker 3 is welcome: until then it has to be waited for."""
    leader = refused_join()
    leader.appended(110, 0.3)
    assert leader.follower_fetched(2, 12, 110, 0, 0.4) == []
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 8, 0.5) == []
    assert leader.isr == Committed((1, 2))


def test_a_refused_join_is_tried_again_later() -> None:
    leader = refused_join()
    leader.image_changed((1, 2, 3), (1, 2), 5, 8, 0.3)
    assert leader.follower_fetched(3, 13, 100, 0, 0.4) == []
    assert leader.deadline() == 0.7
    assert leader.expire(0.7) == [leaders.proposal(1, 2, 3, partition_epoch=8)]


def test_the_join_that_was_withdrawn_may_still_have_happened() -> None:
    leader = refused_join()
    leader.image_changed((1, 2, 3), (1, 2, 3), 5, 8, 0.3)
    assert leader.isr == Committed((1, 2, 3))
    # The answer to the withdrawal comes late and means nothing any more.
    assert leader.isr_refused(WITHDRAWAL, ErrorCode.INVALID_UPDATE_VERSION, 0.4) == []
    assert leader.isr == Committed((1, 2, 3))


def test_a_refused_withdrawal_is_repeated() -> None:
    leader = refused_join()
    assert leader.isr_refused(WITHDRAWAL, ErrorCode.INELIGIBLE_REPLICA, 0.3) == []
    assert leader.deadline() == 0.35
    assert leader.expire(0.35) == [WITHDRAWAL]
