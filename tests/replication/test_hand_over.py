"""A leader hands over without losing a record: it freezes, waits, and proposes its successor."""

from typing import Any

from minikafka import replication
from minikafka.protocol.errors import ErrorCode
from tests.replication.leaders import broker_epochs, leader_of, pending, proposal, settled

TO_2 = proposal(1, 2, 3, partition_epoch=8, leader=2)
TO_MYSELF = proposal(1, 2, 3, partition_epoch=8, leader=1)


def ask(leader: replication.LeaderReplica, next_leader: int, now: float) -> list[object]:
    """The metadata log asks for a hand-over."""
    effects = leader.image_changed((1, 2, 3), (1, 2, 3), 5, 8, now, next_leader)
    return list(effects)


def frozen(**changes: Any) -> replication.LeaderReplica:
    """Asked to hand over to broker 2, which lacks the last ten records; frozen at 1.0."""
    leader = settled(**changes)
    leader.appended(110, 0.9)
    assert ask(leader, 2, 1.0) == [replication.Freeze(2)]
    assert leader.is_frozen
    return leader


def proposed(**changes: Any) -> replication.LeaderReplica:
    """The change was proposed at 1.1."""
    leader = frozen(**changes)
    assert leader.follower_fetched(2, 12, 110, 0, 1.1) == [TO_2]
    return leader


def test_a_successor_that_has_everything_is_proposed_at_once() -> None:
    leader = settled()
    assert ask(leader, 2, 1.0) == [replication.Freeze(2), TO_2]
    assert leader.is_frozen


def test_the_leader_freezes_when_its_successor_has_nearly_everything() -> None:
    leader = settled()
    leader.appended(200, 1.0)
    assert ask(leader, 2, 5.0) == []
    assert leader.follower_fetched(2, 12, 150, 0, 5.1) == []
    leader.appended(210, 5.2)
    assert leader.follower_fetched(2, 12, 200, 0, 5.3) == [replication.Freeze(2)]
    assert leader.follower_fetched(2, 12, 205, 0, 5.4) == []
    assert leader.follower_fetched(2, 12, 210, 0, 5.5) == [TO_2]


def test_a_successor_that_never_fetched_is_not_near() -> None:
    leader = leader_of()
    assert ask(leader, 2, 0.1) == []
    assert not leader.is_frozen


def test_what_was_appended_goes_on_being_committed() -> None:
    leader = proposed()
    assert leader.follower_fetched(3, 13, 110, 0, 1.2) == [replication.AdvanceHighWatermark(110)]


def test_no_replica_joins_or_leaves_while_it_is_frozen() -> None:
    leader = settled(isr=(1, 2))
    leader.appended(110, 0.9)
    leader.image_changed((1, 2, 3), (1, 2), 5, 8, 1.0, 2)
    assert leader.is_frozen
    assert leader.follower_fetched(3, 13, 110, 0, 1.1) == []
    assert leader.follower_fetched(2, 12, 40, 0, 1.2) == []
    assert leader.deadline() == 2.0


def test_a_lagging_member_does_not_keep_the_clock_busy_meanwhile() -> None:
    leader = settled(lag_time_max_s=0.3)
    leader.appended(110, 0.9)
    leader.follower_fetched(2, 12, 105, 0, 1.0)
    assert ask(leader, 2, 1.0) == [replication.Freeze(2)]
    assert leader.deadline() == 2.0
    assert leader.expire(2.0) == [replication.Thaw()]
    lagging = proposal(1, partition_epoch=8)
    assert leader.expire(2.0) == [lagging]


def test_a_successor_that_does_not_fetch_is_not_waited_for() -> None:
    leader = frozen()
    assert leader.deadline() == 2.0
    assert leader.expire(2.0) == [replication.Thaw()]
    assert not leader.is_frozen
    # Later it is tried again.
    leader.follower_fetched(2, 12, 110, 0, 2.5)
    assert leader.deadline() == 3.0
    assert leader.expire(3.0) == [replication.Freeze(2), TO_2]


def test_a_successor_that_was_near_and_is_not_any_more_keeps_no_clock_busy() -> None:
    leader = frozen()
    leader.expire(2.0)
    leader.appended(120, 2.1)
    assert leader.deadline() == 3.0
    assert leader.expire(3.0) == []
    assert leader.deadline() == 30.9
    assert leader.follower_fetched(2, 12, 120, 0, 3.1)[-2:] == [replication.Freeze(2), TO_2]


def test_a_successor_that_is_fenced_before_it_is_proposed() -> None:
    brokers = replication.EligibleBrokers(broker_epochs(1, 2, 3))
    leader = frozen(brokers=brokers)
    brokers.epochs = broker_epochs(1, 3)
    assert leader.image_changed((1, 2, 3), (1, 3), 5, 9, 1.2) == [replication.Thaw()]
    assert leader.eligibility_changed(1.3) == []
    assert leader.hand_over is None


def test_a_change_of_others_does_not_stop_it() -> None:
    leader = frozen()
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 9, 1.1, 2) == []
    assert leader.is_frozen
    to_2 = proposal(1, 2, partition_epoch=9, leader=2)
    assert leader.follower_fetched(2, 12, 110, 0, 1.2) == [to_2]
    assert to_2.broker_ids == (1, 2)


def test_a_refused_hand_over_is_taken_back_before_the_thaw() -> None:
    leader = proposed()
    assert leader.isr_refused(TO_2, ErrorCode.INELIGIBLE_REPLICA, 1.2) == [TO_MYSELF]
    assert leader.is_frozen
    assert leader.image_changed((1, 2, 3), (1, 2, 3), 5, 9, 1.3) == [replication.Thaw()]
    assert leader.isr == replication.Committed((1, 2, 3))


def test_a_hand_over_without_an_answer_is_taken_back() -> None:
    """It may still happen: so nothing may be appended until it cannot."""
    leader = proposed()
    leader.isr_refused(TO_2, ErrorCode.NOT_CONTROLLER, 1.2)
    assert leader.deadline() == 1.25
    assert leader.expire(1.25) == [TO_2]
    assert leader.deadline() == 2.0
    assert leader.expire(2.0) == [TO_MYSELF]
    assert leader.is_frozen
    leader.isr_refused(TO_MYSELF, ErrorCode.INELIGIBLE_REPLICA, 2.1)
    assert leader.deadline() == 2.15
    assert leader.expire(2.15) == [TO_MYSELF]
    assert leader.deadline() == 7.15


def test_a_hand_over_that_takes_long_is_tried_again() -> None:
    leader = proposed()
    leader.expire(2.0)
    assert pending(leader) == TO_MYSELF
    assert leader.image_changed((1, 2, 3), (1, 2, 3), 5, 9, 2.2) == [replication.Thaw()]
    assert leader.image_changed((1, 2, 3), (1, 2, 3), 5, 10, 2.3, 2) == []
    assert leader.deadline() == 3.2
    again = proposal(1, 2, 3, partition_epoch=10, leader=2)
    assert leader.expire(3.2) == [replication.Freeze(2), again]


def test_a_proposal_on_its_way_comes_first() -> None:
    leader = settled(isr=(1, 2))
    leader.follower_fetched(3, 13, 100, 0, 0.5)
    leader.retire(0.6)
    assert pending(leader) == proposal(1, 2, 3)
    assert not leader.is_frozen
    assert leader.deadline() == 5.5
    effects = leader.image_changed((1, 2, 3), (1, 2, 3), 5, 8, 0.7)
    assert effects == [replication.Freeze(2), TO_2]


def test_the_next_epoch_of_the_same_leader_goes_on_with_it() -> None:
    leader = frozen()
    effects = leader.image_changed((1, 2, 3), (1, 2, 3), 6, 9, 1.2, 2)
    assert effects == [replication.BeginEpoch(6, 110)]
    assert leader.is_frozen
    assert leader.expire(2.0) == [replication.Thaw()]


# --- a broker that wants to stop ------------------------------------------------------------------


def test_a_leader_that_retires_chooses_the_member_that_has_most() -> None:
    leader = settled()
    leader.appended(110, 1.0)
    leader.follower_fetched(2, 12, 105, 0, 1.1)
    leader.follower_fetched(3, 13, 108, 0, 1.1)
    assert leader.retire(1.2) == [replication.Freeze(3)]
    # Now broker 2 is faster, but no other replica is asked.
    assert leader.follower_fetched(2, 12, 110, 0, 1.3)[-1] == replication.AdvanceHighWatermark(108)
    assert leader.follower_fetched(3, 13, 110, 0, 1.4) == [
        replication.AdvanceHighWatermark(110),
        proposal(1, 2, 3, leader=3),
    ]


def test_a_leader_that_retires_alone_goes_on() -> None:
    leader = settled(isr=(1,))
    assert leader.retire(1.0) == []
    assert leader.hand_over is None
    leader.appended(110, 1.1)
    leader.follower_fetched(2, 12, 110, 0, 1.2)
    effects = leader.image_changed((1, 2, 3), (1, 2), 5, 8, 1.3)
    assert effects == [replication.Freeze(2), proposal(1, 2, partition_epoch=8, leader=2)]


def test_it_does_not_choose_a_replica_that_is_stopping_too() -> None:
    brokers = replication.EligibleBrokers(broker_epochs(1, 2, 3), shutting_down=(2,))
    leader = settled(brokers=brokers)
    leader.appended(110, 1.0)
    leader.follower_fetched(2, 12, 110, 0, 1.1)
    assert leader.retire(1.2) == [replication.Freeze(3)]
