"""What leaders may ask of the controller, and what it makes of it."""

from typing import Any

import pytest

from minikafka.metadata.alter_partition import alter_partitions
from minikafka.metadata.decision import Refusal
from minikafka.metadata.records import PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import IsrMember
from tests.metadata.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """``t-0`` on brokers 1, 2 and 3, of which 1 leads and 3 is not in sync."""
    cluster = Cluster(4)
    cluster.topic("t", [1, 2, 3])
    cluster.alter(1, 2)
    return cluster


def test_a_leader_shrinks_and_expands_its_isr(cluster: Cluster) -> None:
    assert cluster.at() == PartitionRecord(cluster.at().topic_id, 0, (1, 2, 3), (1, 2), 1, 0, 1)
    cluster.alter(1, 3, 2)
    assert cluster.at() == PartitionRecord(cluster.at().topic_id, 0, (1, 2, 3), (1, 2, 3), 1, 0, 2)


def test_proposing_the_present_state_changes_nothing(cluster: Cluster) -> None:
    version = cluster.image.version
    cluster.alter(2, 1)
    assert cluster.image.version == version


def test_several_partitions_are_changed_each_on_its_own(cluster: Cluster) -> None:
    cluster.topic("u", [1, 2])
    good, bad = cluster.proposal(1, topic="u"), cluster.proposal(2)
    results = cluster.propose(bad, good, good._replace(leader=2), by=1)
    assert results == [ErrorCode.INVALID_REQUEST, cluster.at("u")]
    assert cluster.at("u").in_sync_replicas == (1,)


def test_only_the_registered_process_may_propose(cluster: Cluster) -> None:
    for broker_id, epoch, code in [
        (1, 7, ErrorCode.STALE_BROKER_EPOCH),
        (9, 0, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]:
        proposals = [cluster.proposal(1)]
        decision = alter_partitions(cluster.image, broker_id, epoch, proposals, cluster.defaults)
        assert decision.records == []
        assert isinstance(decision.result, Refusal)
        assert decision.result.error_code is code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic_id": b"?" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        # KAFKA-14154: a controller that knows less than the leader has been replaced.
        ({"leader_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 3}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0, "partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"in_sync_replicas": ()}, ErrorCode.INVALID_REQUEST),
        ({"in_sync_replicas": (IsrMember(1, 0),)}, ErrorCode.INVALID_REQUEST),
        ({"in_sync_replicas": (IsrMember(2, 1),) * 2}, ErrorCode.INVALID_REQUEST),
        ({"in_sync_replicas": (IsrMember(2, 1), IsrMember(4, 3))}, ErrorCode.INVALID_REQUEST),
        ({"leader": 3}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_proposals_that_cannot_be_granted(
    cluster: Cluster, change: dict[str, Any], code: ErrorCode
) -> None:
    cluster.fence(1)
    assert (cluster.at().leader, cluster.at().leader_epoch, cluster.at().partition_epoch) == (
        *(2, 1),
        2,
    )
    before = cluster.at()
    proposal = cluster.proposal(2)._replace(**change)
    assert cluster.propose(proposal, by=2) == [code]
    assert cluster.at() is before


def test_a_broker_that_does_not_lead_is_refused(cluster: Cluster) -> None:
    assert cluster.propose(cluster.proposal(1, 2), by=2) == [ErrorCode.INVALID_REQUEST]


def test_a_deposed_leader_is_refused(cluster: Cluster) -> None:
    late = cluster.proposal(1)
    cluster.fence(1)
    cluster.unfence(1)
    assert cluster.propose(late, by=1) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert cluster.at().in_sync_replicas == (2,)


def test_a_fenced_replica_cannot_join(cluster: Cluster) -> None:
    cluster.fence(3)
    assert cluster.propose(cluster.proposal(1, 2, 3), by=1) == [ErrorCode.INELIGIBLE_REPLICA]


def test_a_replica_that_is_another_process_by_now_cannot_join(cluster: Cluster) -> None:
    asked = cluster.proposal(1, 2, 3)
    cluster.join(3)
    assert cluster.at().partition_epoch == asked.partition_epoch
    assert cluster.propose(asked, by=1) == [ErrorCode.INELIGIBLE_REPLICA]
    cluster.alter(1, 2, 3)


def test_a_replica_that_is_no_longer_registered_cannot_join(cluster: Cluster) -> None:
    asked = cluster.proposal(1, 2, 3)
    del cluster.image.brokers[3]
    assert cluster.propose(asked, by=1) == [ErrorCode.INELIGIBLE_REPLICA]


def test_a_stopping_replica_stays_in_sync_but_cannot_join_or_lead(cluster: Cluster) -> None:
    cluster.topic("u", [2, 3, 1])
    cluster.alter(2, 1, topic="u")
    assert not cluster.stop(2).may_stop
    cluster.alter(1, 2, 3)
    assert cluster.at().in_sync_replicas == (1, 2, 3)
    proposal = cluster.proposal(1, 2, 3, leader=2)
    assert cluster.propose(proposal, by=1) == [ErrorCode.INELIGIBLE_REPLICA]
    cluster.alter(1, 3)
    assert cluster.propose(cluster.proposal(1, 2), by=1) == [ErrorCode.INELIGIBLE_REPLICA]
    # It still leads u-0, may shrink its ISR, and may take a hand-over back.
    cluster.alter(2, 1, leader=2, topic="u")
    cluster.alter(2, topic="u")
    assert cluster.at("u").in_sync_replicas == (2,)


# --- eligible leaders --------------------------------------------------------------------------


def test_a_replica_that_leaves_a_large_enough_isr_is_not_eligible_but_later_ones_are() -> None:
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.topic("t", [1, 2, 3])
    cluster.alter(1, 2)
    assert cluster.at().eligible_leader_replicas == ()
    cluster.alter(1)
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.alter(1, 3)
    assert cluster.at().eligible_leader_replicas == ()


def test_a_partition_with_few_replicas_needs_only_those() -> None:
    cluster = Cluster(2, min_insync_replicas=3)
    cluster.topic("t", [1, 2])
    cluster.alter(1)
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.alter(1, 2)
    assert cluster.at().eligible_leader_replicas == ()
