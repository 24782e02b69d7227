"""Replicas move: new ones join before old ones go."""

import pytest

from minikafka.metadata import reassignments
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """``t-0`` on brokers 1 and 2 of five."""
    cluster = Cluster(5)
    cluster.topic("t", [1, 2])
    return cluster


def assignment(one: PartitionRecord) -> tuple[tuple[int, ...], ...]:
    """Replicas, adding and removing."""
    return one.replicas, one.adding_replicas, one.removing_replicas


def test_added_replicas_join_the_isr_before_others_go(cluster: Cluster) -> None:
    assert cluster.reassign(1, 3) is ErrorCode.NONE
    assert assignment(cluster.at()) == ((1, 3, 2), (3,), (2,))
    assert cluster.at().in_sync_replicas == (1, 2)
    cluster.alter(1, 2, 3)
    assert assignment(cluster.at()) == ((1, 3), (), ())
    assert (cluster.at().leader, cluster.at().in_sync_replicas) == (1, (1, 3))
    # A replica was removed: it must not keep fetching in this epoch.
    assert cluster.at().leader_epoch == 1


def test_a_leader_that_is_to_be_removed_is_asked_to_hand_over_first(cluster: Cluster) -> None:
    cluster.reassign(3, 4)
    cluster.alter(1, 2, 3)
    assert cluster.at().next_leader == NO_LEADER
    cluster.alter(1, 2, 3, 4)
    asked = cluster.at()
    assert assignment(asked) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (asked.leader, asked.next_leader, asked.leader_epoch) == (1, 3, 0)
    cluster.alter(1, 3, 4)
    assert cluster.at().next_leader == 3
    cluster.alter(1, 3, 4, leader=3)
    moved = cluster.at()
    assert assignment(moved) == ((3, 4), (), ())
    assert (moved.leader, moved.in_sync_replicas, moved.leader_epoch) == (3, (3, 4), 1)


def test_when_the_asked_replica_goes_another_one_is_asked(cluster: Cluster) -> None:
    cluster.reassign(3, 4)
    cluster.alter(1, 2, 3, 4)
    assert not cluster.stop(1).may_stop
    cluster.fence(3)
    assert cluster.at().next_leader == NO_LEADER
    cluster.unfence(3)
    cluster.alter(1, 2, 3, 4)
    assert cluster.at().next_leader == 3


def test_a_leader_to_be_removed_that_dies_is_replaced_by_one_that_stays(cluster: Cluster) -> None:
    cluster.reassign(3, 4)
    cluster.alter(1, 2, 3, 4)
    cluster.fence(1)
    assert assignment(cluster.at()) == ((3, 4), (), ())
    assert (cluster.at().leader, cluster.at().in_sync_replicas) == (3, (3, 4))


def test_the_first_replica_that_stays_and_may_lead_is_asked(cluster: Cluster) -> None:
    cluster.topic("u", [3, 5])
    cluster.reassign(3, 2, 4)
    cluster.alter(1, 3, 4)
    assert cluster.at().next_leader == 3
    assert not cluster.stop(3).may_stop
    assert cluster.at().next_leader == 4
    cluster.alter(1, 2, 3, 4)
    assert cluster.at().next_leader == 2


def test_a_request_for_another_reason_does_not_pass_to_the_next_leader(cluster: Cluster) -> None:
    cluster.topic("u", [1, 2, 3])
    cluster.alter(1, 2, 3, leader=2, topic="u")
    cluster.elect_preferred(("u", 0))
    cluster.reassign(3, 1, 2, topic="u")
    assert cluster.at("u").next_leader == 1
    cluster.fence(2)
    assert (cluster.at("u").leader, cluster.at("u").next_leader) == (3, NO_LEADER)


def test_the_factor_can_be_raised_and_lowered(cluster: Cluster) -> None:
    cluster.reassign(1, 2, 3)
    assert assignment(cluster.at()) == ((1, 2, 3), (3,), ())
    cluster.alter(1, 2, 3)
    assert assignment(cluster.at()) == ((1, 2, 3), (), ())
    assert cluster.at().leader_epoch == 0
    cluster.reassign(2, 1)
    assert assignment(cluster.at()) == ((2, 1), (), ())
    assert (cluster.at().leader, cluster.at().in_sync_replicas) == (1, (2, 1))


def test_the_order_alone_can_change(cluster: Cluster) -> None:
    cluster.reassign(2, 1)
    assert assignment(cluster.at()) == ((2, 1), (), ())
    assert (cluster.at().leader, cluster.at().leader_epoch) == (1, 0)
    version = cluster.image.version
    assert cluster.reassign(2, 1) is ErrorCode.NONE
    assert cluster.image.version == version


def test_without_a_leader_nothing_is_removed() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2])
    cluster.fence(1, 2)
    cluster.reassign(1)
    assert assignment(cluster.at()) == ((1, 2), (), (2,))
    cluster.unfence(2)
    assert assignment(cluster.at()) == ((1, 2), (), (2,))
    cluster.unfence(1)
    cluster.alter(1, 2)
    assert cluster.at().next_leader == 1
    cluster.alter(1, 2, leader=1)
    assert assignment(cluster.at()) == ((1,), (), ())


# --- replace and cancel ------------------------------------------------------------------------


def test_a_reassignment_can_be_cancelled(cluster: Cluster) -> None:
    before = cluster.at()
    cluster.reassign(3, 4)
    cluster.alter(1, 2, 3)
    assert cluster.reassign() is ErrorCode.NONE
    after = cluster.at()
    assert assignment(after) == assignment(before)
    assert (after.leader, after.in_sync_replicas, after.leader_epoch) == (1, (1, 2), 1)
    assert cluster.reassign() is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_reassignment_can_be_replaced(cluster: Cluster) -> None:
    cluster.reassign(3, 4)
    cluster.reassign(4, 5)
    assert assignment(cluster.at()) == ((4, 5, 1, 2), (4, 5), (1, 2))
    assert cluster.reassign() is ErrorCode.NONE
    assert assignment(cluster.at()) == ((1, 2), (), ())


def test_an_added_replica_that_leads_is_removed_like_any_other(cluster: Cluster) -> None:
    cluster.reassign(3, 4)
    cluster.alter(1, 2, 3)
    cluster.alter(1, 2, 3, leader=3)
    cluster.reassign()
    assert assignment(cluster.at()) == ((1, 2, 3), (), (3,))
    assert (cluster.at().leader, cluster.at().next_leader) == (3, 1)
    cluster.alter(1, 2, 3, leader=1)
    assert assignment(cluster.at()) == ((1, 2), (), ())


def test_an_added_replica_that_is_the_only_one_in_sync_stays_until_others_are(
    cluster: Cluster,
) -> None:
    cluster.reassign(3, 4)
    cluster.alter(1, 2, 3)
    cluster.alter(1, 2, 3, leader=3)
    cluster.alter(3)
    cluster.fence(3)
    assert cluster.at().leader == NO_LEADER
    cluster.reassign()
    assert assignment(cluster.at()) == ((1, 2, 3), (), (3,))
    assert cluster.at().in_sync_replicas == (3,)
    cluster.unfence(3)
    cluster.alter(1, 2, 3)
    cluster.alter(1, 2, 3, leader=2)
    assert assignment(cluster.at()) == ((1, 2), (), ())


# --- refusals and lists ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ((3, 3), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((9,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_impossible_reassignments_are_refused(
    cluster: Cluster, replicas: tuple[int, ...], code: ErrorCode
) -> None:
    before = cluster.at()
    assert cluster.reassign(*replicas) is code
    assert cluster.at() is before


def test_an_empty_list_of_replicas_is_refused(cluster: Cluster) -> None:
    decision = reassignments.reassign_partitions(
        cluster.image, [reassignments.Reassignment("t", 0, [])], cluster.defaults
    )
    ((_, _, refusal),) = cluster.commit(decision)
    assert refusal is not None
    assert refusal.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("number", [1, -1])
def test_partitions_that_do_not_exist_are_refused(cluster: Cluster, number: int) -> None:
    assert cluster.reassign(1, number=number) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.reassign(1, topic="u") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_number_of_replicas_can_be_protected(cluster: Cluster) -> None:
    cluster.reassign(1, 2, 3)
    for replicas, code in [([1, 4], ErrorCode.INVALID_REPLICATION_FACTOR), ([1, 4, 5], None)]:
        decision = reassignments.reassign_partitions(
            cluster.image,
            [reassignments.Reassignment("t", 0, replicas)],
            cluster.defaults,
            may_change_factor=False,
        )
        ((_, _, refusal),) = cluster.commit(decision)
        assert (refusal and refusal.error_code) == code


def test_reassignments_are_listed_while_they_go_on(cluster: Cluster) -> None:
    cluster.topic("u", [1, 2], [1, 2])
    cluster.reassign(3, 1)
    cluster.reassign(2, 3, topic="u", number=1)
    t = reassignments.PartitionReassignment("t", 0, (3, 1, 2), (3,), (2,))
    u = reassignments.PartitionReassignment("u", 1, (2, 3, 1), (3,), (1,))
    image = cluster.image
    assert reassignments.list_reassignments(image, None) == [t, u]
    asked = [("u", 1), ("u", 0), ("u", 2), ("u", -1), ("v", 0), ("u", 1)]
    assert reassignments.list_reassignments(image, asked) == [u]
