"""Preferred and unclean elections, balance, and planned moves."""

import pytest

from minikafka.metadata import elections
from minikafka.metadata.records import NO_LEADER
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import Cluster

PREFERRED, UNCLEAN = elections.ElectionKind


@pytest.fixture
def cluster() -> Cluster:
    """Broker 1 should lead ``t-0`` and came back after broker 2 took over."""
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3], [2, 3, 1])
    cluster.fence(1)
    cluster.unfence(1)
    cluster.alter(1, 2, 3)
    cluster.alter(1, 2, 3, number=1)
    assert cluster.at().leader == 2
    return cluster


# --- planned moves -----------------------------------------------------------------------------


def test_a_leader_is_asked_to_hand_over_and_stays_until_it_does(cluster: Cluster) -> None:
    decision = elections.elect_leaders(cluster.image, PREFERRED, [("t", 0)], cluster.defaults)
    assert cluster.commit(decision) == [elections.Election("t", 0, None, is_pending=True)]
    asked = cluster.at()
    assert (asked.leader, asked.leader_epoch, asked.next_leader) == (2, 1, 1)
    cluster.alter(1, 2, 3, leader=1)
    moved = cluster.at()
    assert (moved.leader, moved.leader_epoch, moved.next_leader) == (1, 2, NO_LEADER)
    assert moved.in_sync_replicas == (1, 2, 3)


def test_a_leader_is_asked_once(cluster: Cluster) -> None:
    cluster.elect_preferred(("t", 0))
    version = cluster.image.version
    cluster.elect_preferred(("t", 0))
    assert cluster.image.version == version


def test_changing_the_isr_meanwhile_does_not_call_the_move_off(cluster: Cluster) -> None:
    cluster.elect_preferred(("t", 0))
    cluster.alter(1, 2)
    assert cluster.at().next_leader == 1


@pytest.mark.parametrize("how", ["shrink", "fence", "leader dies", "leader takes it back"])
def test_a_move_is_cancelled_when_it_is_impossible_or_unwanted(cluster: Cluster, how: str) -> None:
    cluster.elect_preferred(("t", 0))
    match how:
        case "shrink":
            cluster.alter(2, 3)
        case "fence":
            cluster.fence(1)
        case "leader dies":
            cluster.fence(2)
            assert cluster.at().leader == 1
        case _:
            cluster.alter(1, 2, 3, leader=2)
            assert cluster.at().leader == 2
    assert cluster.at().next_leader == NO_LEADER


def test_a_proposal_made_before_it_was_taken_back_is_refused(cluster: Cluster) -> None:
    late = cluster.proposal(1, 2, 3, leader=1)
    cluster.alter(1, 2, 3, leader=2)
    assert cluster.propose(late, by=2) == [ErrorCode.INVALID_UPDATE_VERSION]
    assert cluster.at().leader == 2


def test_a_leader_may_hand_over_without_being_asked(cluster: Cluster) -> None:
    cluster.alter(2, 3, leader=3)
    assert (cluster.at().leader, cluster.at().in_sync_replicas) == (3, (2, 3))


# --- ElectLeaders ------------------------------------------------------------------------------


def test_an_election_that_is_impossible_or_not_needed_says_why(cluster: Cluster) -> None:
    cluster.alter(2, 3)
    assert cluster.elect(PREFERRED, ("t", 0), ("t", 1), ("t", 2), ("u", 0), ("t", 0)) == {
        ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert cluster.elect(UNCLEAN, ("t", 0)) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_without_partitions_all_that_need_an_election_are_meant(cluster: Cluster) -> None:
    assert cluster.elect(PREFERRED) == {("t", 0): ErrorCode.NONE}
    assert cluster.elect(UNCLEAN) == {}


def test_a_preferred_replica_that_is_stopping_is_not_available(cluster: Cluster) -> None:
    cluster.topic("u", [1])
    cluster.alter(1, 2, 3, leader=1, number=1)
    assert not cluster.stop(1).may_stop
    assert cluster.elect(PREFERRED, ("t", 0)) == {
        ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }


def test_an_unclean_election_takes_any_live_replica(cluster: Cluster) -> None:
    cluster.alter(2)
    cluster.fence(2)
    assert cluster.at().leader == NO_LEADER
    assert cluster.elect(UNCLEAN) == {("t", 0): ErrorCode.NONE}
    assert (cluster.at().leader, cluster.at().in_sync_replicas) == (1, (1,))
    assert cluster.elect(UNCLEAN) == {}


def test_an_unclean_election_needs_a_live_replica(cluster: Cluster) -> None:
    cluster.fence(1, 2, 3)
    assert set(cluster.elect(UNCLEAN).values()) == {ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert set(cluster.elect(PREFERRED).values()) == {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


# --- balance -----------------------------------------------------------------------------------


def test_leaders_go_back_to_their_preferred_replicas() -> None:
    cluster = Cluster(3)
    cluster.topic("t", *[[1, 2, 3]] * 10, [2, 3, 1])
    cluster.alter(1, 2, 3, leader=2)

    def balance(percentage: int, moves_max: int = 100) -> int:
        decision = elections.balance_leaders(
            cluster.image, cluster.defaults, imbalance_percentage=percentage, moves_max=moves_max
        )
        return cluster.commit(decision)

    assert balance(10) == 0
    cluster.alter(1, 2, 3, leader=3, number=1)
    cluster.alter(1, 2, 3, leader=3, number=2)
    cluster.alter(2, 3, number=2)
    assert balance(10, moves_max=1) == 1
    assert balance(10) == 1
    assert [cluster.at(number=one).next_leader for one in range(3)] == [1, 1, NO_LEADER]
    assert balance(10) == 0


def test_a_broker_that_is_away_is_not_asked_to_lead() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    cluster.stop(1, is_forced=True)
    assert cluster.commit(elections.balance_leaders(cluster.image, cluster.defaults)) == 0
    cluster.fence(2)
    assert cluster.commit(elections.balance_leaders(cluster.image, cluster.defaults)) == 0


# --- unclean where it is allowed ---------------------------------------------------------------


def test_a_controller_that_allows_it_elects_uncleanly() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2], [2, 1])
    cluster.topic("u", [1, 2], unclean_leader_election_enable="false")
    cluster.alter(1)
    cluster.alter(1, topic="u")
    cluster.fence(1)
    assert cluster.commit(elections.elect_uncleanly(cluster.image, cluster.defaults)) == 0
    cluster.defaults = ReplicationRules(is_unclean_election_enabled=True)
    assert cluster.commit(elections.elect_uncleanly(cluster.image, cluster.defaults)) == 1
    assert (cluster.at("t").leader, cluster.at("u").leader) == (2, NO_LEADER)
