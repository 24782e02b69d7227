"""ISR proposals that are answered late, twice, wrongly or never; what the metadata log says."""

from typing import Any

import pytest

from minikafka import replication
from minikafka.protocol.errors import ErrorCode
from tests.replication.leaders import REFUSALS, broker_epochs, leader_of, pending, proposal, settled


def joining(**changes: Any) -> replication.LeaderReplica:
    """Broker 3 is about to join, proposed at 0.0."""
    leader = settled(isr=(1, 2), **changes)
    assert leader.follower_fetched(3, 13, 100, 0, 0.0) == [proposal(1, 2, 3)]
    return leader


def test_a_proposal_without_an_answer_is_sent_again() -> None:
    leader = joining()
    assert leader.deadline() == 5.0
    assert leader.expire(4.9) == []
    assert leader.expire(5.0) == [proposal(1, 2, 3)]
    assert leader.deadline() == 10.0


@pytest.mark.parametrize("error_code", REFUSALS)
def test_a_refused_proposal_is_sent_again_unchanged(error_code: ErrorCode) -> None:
    """Was it taken? Asking again with the same partition epoch cannot do it twice."""
    leader = joining()
    now = 0.0
    pauses: list[float] = []
    for _ in range(8):
        leader.isr_refused(pending(leader), error_code, now)
        deadline = leader.deadline()
        assert deadline is not None
        pauses.append(round(deadline - now, 3))
        now = deadline
        assert leader.expire(now) == [proposal(1, 2, 3)]
        assert leader.isr.maximal == (1, 2, 3)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_the_metadata_log_decides_the_outcome() -> None:
    leader = joining()
    assert leader.image_changed((1, 2, 3), (1, 2, 3), 5, 8, 0.1) == []
    assert leader.isr == replication.Committed((1, 2, 3))
    # A copy of the proposal comes late, and its answer is about a state that is over.
    refused = leader.isr_refused(proposal(1, 2, 3), ErrorCode.INVALID_UPDATE_VERSION, 0.2)
    assert refused == []
    assert leader.isr == replication.Committed((1, 2, 3))


def test_the_same_state_again_ends_no_proposal() -> None:
    leader = joining()
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 7, 0.1) == []
    assert pending(leader) == proposal(1, 2, 3)


def test_an_older_state_changes_nothing() -> None:
    leader = joining()
    assert leader.image_changed((1, 2, 3), (1, 2), 5, 6, 0.1) == []
    assert leader.image_changed((1, 2, 3), (1, 2), 4, 9, 0.1) == []
    assert pending(leader) == proposal(1, 2, 3)


def test_another_change_ends_the_proposal() -> None:
    """The controller fenced broker 2 before it saw the proposal, which it will refuse."""
    brokers = replication.EligibleBrokers(broker_epochs(1, 2, 3))
    leader = joining(brokers=brokers)
    leader.appended(110, 0.1)
    assert leader.follower_fetched(3, 13, 110, 0, 0.2) == []
    brokers.epochs = broker_epochs(1, 3)
    effects = leader.image_changed((1, 2, 3), (1,), 5, 8, 0.3)
    assert effects == [replication.AdvanceHighWatermark(110), proposal(1, 3, partition_epoch=8)]


def test_answers_to_other_proposals_mean_nothing() -> None:
    leader = joining()
    other = proposal(1, 2, 3, partition_epoch=6)
    assert leader.isr_refused(other, ErrorCode.INELIGIBLE_REPLICA, 0.1) == []
    assert pending(leader) == proposal(1, 2, 3)
    assert leader.deadline() == 5.0


def test_an_answer_without_a_proposal_means_nothing() -> None:
    leader = settled()
    refused = leader.isr_refused(proposal(1, 2, 3), ErrorCode.INELIGIBLE_REPLICA, 0.1)
    assert refused == []
    assert leader.isr == replication.Committed((1, 2, 3))


# --- the metadata log -----------------------------------------------------------------------------


def test_the_next_leader_epoch_begins_at_the_end() -> None:
    leader = settled(isr=(1, 2))
    leader.appended(110, 1.0)
    assert leader.image_changed((1, 2, 3), (1, 2), 6, 8, 2.0) == [replication.BeginEpoch(6, 110)]
    assert leader.epoch_start_offset == 110
    # What broker 2 had is forgotten; it has time to fetch.
    assert leader.deadline() == 32.0
    leader.appended(120, 2.1)
    assert leader.follower_fetched(2, 12, 110, 0, 2.2) == [replication.AdvanceHighWatermark(110)]


def test_a_proposal_ends_with_its_leader_epoch() -> None:
    leader = joining()
    leader.image_changed((1, 2, 3), (1, 2), 6, 8, 1.0)
    assert leader.isr == replication.Committed((1, 2))
    assert leader.isr_refused(proposal(1, 2, 3), ErrorCode.FENCED_LEADER_EPOCH, 1.1) == []
    assert leader.expire(6.0) == []


def test_a_replica_is_added_while_leading() -> None:
    leader = settled(replicas=(1, 2), isr=(1, 2))
    leader.image_changed((1, 2, 3), (1, 2), 5, 8, 1.0)
    leader.appended(110, 1.1)
    assert leader.follower_fetched(2, 12, 110, 0, 1.2) == [replication.AdvanceHighWatermark(110)]
    assert leader.follower_fetched(3, 13, 110, 0, 1.3) == [proposal(1, 2, 3, partition_epoch=8)]


def test_a_replica_is_removed_while_leading() -> None:
    leader = settled()
    leader.appended(110, 1.0)
    leader.follower_fetched(2, 12, 110, 0, 1.1)
    effects = leader.image_changed((1, 2), (1, 2), 5, 8, 1.2)
    assert effects == [replication.AdvanceHighWatermark(110)]
    assert leader.progress_of(3) is None


def test_a_replica_that_becomes_the_only_one() -> None:
    leader = settled()
    leader.appended(110, 1.0)
    assert leader.image_changed((1,), (1,), 6, 8, 1.2) == [
        replication.BeginEpoch(6, 110),
        replication.AdvanceHighWatermark(110),
    ]
    assert leader.appended(120, 1.3) == [replication.AdvanceHighWatermark(120)]
    leader.image_changed((1, 2), (1,), 6, 9, 1.4)
    leader.follower_fetched(2, 12, 90, 0, 1.5)
    assert leader.appended(130, 1.6) == [replication.AdvanceHighWatermark(130)]


def test_a_new_leader_has_time_for_its_isr_but_not_for_others() -> None:
    leader = leader_of(isr=(1, 2))
    assert leader.deadline() == 30.0
    # Broker 3 was not in sync: its first fetch, far behind, holds nothing back.
    leader.follower_fetched(3, 13, 10, 0, 0.1)
    assert leader.follower_fetched(2, 12, 100, 0, 0.2) == [replication.AdvanceHighWatermark(100)]
