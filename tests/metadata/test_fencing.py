"""Brokers go out of service and come back; controlled shutdown."""

import pytest

from minikafka.metadata.brokers import ShutdownProgress, controlled_shutdown, unfence_broker
from minikafka.metadata.decision import Decision, Refusal
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import Cluster


def isr(one: PartitionRecord) -> tuple[tuple[int, ...], int, int]:
    """The ISR, the leader and the leader epoch."""
    return one.in_sync_replicas, one.leader, one.leader_epoch


def code_of(decision: Decision[object]) -> ErrorCode:
    assert decision.records == []
    assert isinstance(decision.result, Refusal)
    return decision.result.error_code


# --- fence -------------------------------------------------------------------------------------


def test_a_leader_that_is_fenced_is_replaced_and_leaves_the_isr_in_one_decision() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3], [2, 1, 3])
    assert cluster.fence(1) == [1]
    assert isr(cluster.at(number=0)) == ((2, 3), 2, 1)
    # Broker 2 goes on in the same epoch: its ISR shrank, it did not change.
    assert isr(cluster.at(number=1)) == ((2, 3), 2, 0)
    assert cluster.at(number=1).partition_epoch == 1


def test_fencing_twice_or_the_unknown_does_nothing() -> None:
    cluster = Cluster(2)
    assert cluster.fence(1, 9) == [1]
    version = cluster.image.version
    assert cluster.fence(1, 9) == []
    assert cluster.image.version == version


def test_brokers_that_are_lost_together_do_not_become_each_others_successors() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3])
    cluster.fence(1, 2)
    assert isr(cluster.at()) == ((3,), 3, 1)


def test_the_last_in_sync_stay_so_when_they_are_lost_together() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3])
    cluster.fence(1, 2, 3)
    assert isr(cluster.at()) == ((1, 2, 3), NO_LEADER, 1)
    cluster.unfence(3)
    assert isr(cluster.at()) == ((3,), 3, 2)
    cluster.unfence(1)
    assert isr(cluster.at()) == ((3,), 3, 2)


def test_a_replica_that_leaves_an_isr_that_is_too_small_stays_eligible() -> None:
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.topic("t", [1, 2, 3])
    cluster.fence(3)
    assert cluster.at().eligible_leader_replicas == ()
    cluster.fence(2)
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.fence(1)
    assert isr(cluster.at()) == ((1,), NO_LEADER, 1)
    cluster.unfence(3)
    assert cluster.at().leader == NO_LEADER
    cluster.unfence(2)
    assert isr(cluster.at()) == ((2,), 2, 2)
    assert cluster.at().eligible_leader_replicas == (1,)


def test_an_eligible_leader_that_is_alive_takes_over_immediately() -> None:
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.topic("t", [1, 2])
    cluster.alter(1)
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.fence(1)
    assert isr(cluster.at()) == ((2,), 2, 1)
    assert cluster.at().eligible_leader_replicas == (1,)


@pytest.mark.parametrize(("is_allowed", "leader"), [("true", 2), ("false", NO_LEADER)])
def test_a_replica_that_may_miss_records_leads_only_where_that_is_allowed(
    is_allowed: str, leader: int
) -> None:
    cluster = Cluster(2, is_unclean_election_enabled=is_allowed == "false")
    cluster.topic("t", [1, 2], unclean_leader_election_enable=is_allowed)
    cluster.alter(1)
    cluster.fence(1)
    assert cluster.at().leader == leader


def test_an_unclean_leader_is_all_that_is_left_in_sync_or_eligible() -> None:
    cluster = Cluster(3, min_insync_replicas=2, is_unclean_election_enabled=True)
    cluster.topic("t", [1, 2, 3])
    cluster.alter(1, 2)
    cluster.fence(1, 2)
    one = cluster.at()
    assert isr(one) == ((3,), 3, 1)
    assert one.eligible_leader_replicas == ()


def test_a_replica_that_is_still_being_added_is_the_last_to_lead_uncleanly() -> None:
    cluster = Cluster(4, is_unclean_election_enabled=True)
    cluster.topic("t", [1, 2])
    cluster.alter(1)
    cluster.reassign(4, 3, 1, 2)
    cluster.fence(1)
    assert cluster.at().leader == 2


# --- unfence -----------------------------------------------------------------------------------


def test_only_the_registered_process_is_unfenced() -> None:
    cluster = Cluster(1)
    old = cluster.epoch(1)
    cluster.register(1)
    for broker_id, epoch, code in [
        (1, old, ErrorCode.STALE_BROKER_EPOCH),
        (2, 0, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]:
        decision = unfence_broker(cluster.image, broker_id, epoch, cluster.defaults)
        assert code_of(decision) is code


def test_unfencing_twice_does_nothing() -> None:
    cluster = Cluster(1)
    version = cluster.image.version
    cluster.unfence(1)
    assert cluster.image.version == version


def test_a_broker_that_comes_back_deposes_no_leader() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    cluster.topic("u", [1])
    cluster.fence(1)
    before = cluster.at("t")
    cluster.unfence(1)
    assert cluster.at("t") == before
    assert cluster.at("u").leader == 1


# --- controlled shutdown -----------------------------------------------------------------------


def test_a_broker_hands_its_leaders_over_before_it_stops() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3], [2, 3, 1])
    cluster.topic("u", [1])
    assert cluster.stop(1) == ShutdownProgress(may_stop=False, leaders_remaining=1)
    assert isr(cluster.at(number=0)) == ((1, 2, 3), 1, 0)
    version = cluster.image.version
    assert cluster.stop(1) == ShutdownProgress(may_stop=False, leaders_remaining=1)
    assert cluster.image.version == version
    cluster.alter(1, 2, 3, leader=3)
    assert cluster.stop(1) == ShutdownProgress(may_stop=True, leaders_remaining=0)
    assert isr(cluster.at(number=0)) == ((2, 3), 3, 1)
    assert isr(cluster.at(number=1)) == ((2, 3), 2, 0)
    assert isr(cluster.at("u")) == ((1,), NO_LEADER, 1)
    version = cluster.image.version
    assert cluster.stop(1) == ShutdownProgress(may_stop=True, leaders_remaining=0)
    assert cluster.image.version == version


def test_a_broker_that_cannot_wait_is_replaced_like_one_that_died() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    assert cluster.stop(1, is_forced=True) == ShutdownProgress(may_stop=True, leaders_remaining=1)
    assert isr(cluster.at()) == ((2,), 2, 1)


@pytest.mark.parametrize(
    ("min_insync", "is_unclean"), [("2", "false"), ("1", "true")], ids=["eligible", "unclean"]
)
def test_a_replica_that_could_lead_but_misses_records_has_time_to_fetch_them(
    min_insync: str, is_unclean: str
) -> None:
    cluster = Cluster(2)
    cluster.topic(
        "t", [1, 2], min_insync_replicas=min_insync, unclean_leader_election_enable=is_unclean
    )
    cluster.alter(1)
    assert cluster.stop(1) == ShutdownProgress(may_stop=False, leaders_remaining=1)
    cluster.alter(1, 2)
    cluster.alter(1, 2, leader=2)
    assert cluster.stop(1).may_stop
    assert cluster.at().leader == 2


def test_a_broker_that_is_stopping_gets_nothing_new() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3], [3, 1, 2], [3, 2, 1])
    cluster.alter(3, 1, number=1)
    cluster.stop(2)
    assert cluster.image.is_fenced(2) is True
    cluster.join(2)
    cluster.alter(1, 2, 3, leader=2)
    assert not cluster.stop(2).may_stop
    cluster.fence(3)
    assert [cluster.at(number=one).leader for one in range(3)] == [2, 1, 1]
    proposal = cluster.proposal(1, 2, number=1)
    assert cluster.propose(proposal, by=1) == [ErrorCode.INELIGIBLE_REPLICA]


def test_a_move_to_a_broker_that_begins_to_stop_is_called_off() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3], [2, 1, 3])
    cluster.alter(1, 2, 3, leader=3)
    cluster.elect_preferred(("t", 0))
    assert cluster.at().next_leader == 1
    cluster.alter(1, 2, 3, leader=1, number=1)
    assert not cluster.stop(1).may_stop
    assert (cluster.at().leader, cluster.at().next_leader) == (3, NO_LEADER)


def test_brokers_that_stop_together_do_not_wait_for_each_other() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    assert cluster.stop(2).may_stop
    assert cluster.stop(1) == ShutdownProgress(may_stop=True, leaders_remaining=0)
    assert isr(cluster.at()) == ((1,), NO_LEADER, 1)


def test_a_stopping_broker_that_is_fenced_meanwhile_may_stop_and_is_not_unfenced() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    cluster.stop(1)
    cluster.fence(1)
    epoch = cluster.epoch(1)
    decision = unfence_broker(cluster.image, 1, epoch, cluster.defaults)
    assert code_of(decision) is ErrorCode.INVALID_REQUEST
    assert cluster.stop(1).may_stop


def test_a_broker_that_never_served_may_stop() -> None:
    cluster = Cluster(1)
    cluster.register(2)
    assert cluster.stop(2).may_stop
    assert cluster.image.brokers[2].is_shutting_down


def test_only_the_registered_process_shuts_down() -> None:
    cluster = Cluster(1)
    decision = controlled_shutdown(cluster.image, 1, 7, cluster.defaults)
    assert code_of(decision) is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_stopped_in_order_comes_back_eligible() -> None:
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.topic("t", [1, 2])
    assert cluster.stop(2).may_stop
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.join(2, is_clean=True)
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.fence(1)
    assert cluster.at().leader == 2
