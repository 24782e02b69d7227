"""Brokers register, come back as other processes, and leave."""

from typing import Any

import pytest

from minikafka.metadata import brokers
from minikafka.metadata.decision import Refusal
from minikafka.metadata.records import NO_LEADER, BrokerRecord, PartitionRecord, TopicRecord
from minikafka.protocol.errors import ErrorCode
from tests.metadata.cluster import Cluster


def isr(one: PartitionRecord) -> tuple[tuple[int, ...], int, int]:
    """The ISR, the leader and the leader epoch."""
    return one.in_sync_replicas, one.leader, one.leader_epoch


def try_to_register(
    cluster: Cluster, registration: brokers.Registration, *, is_old_alive: bool = True
) -> BrokerRecord | ErrorCode:
    decision = brokers.register_broker(
        cluster.image, registration, cluster.defaults, is_old_alive=is_old_alive
    )
    result = cluster.commit(decision)
    if isinstance(result, Refusal):
        assert decision.records == []
        assert result.message.endswith(".")
        return result.error_code
    return result


def test_a_new_broker_is_fenced_and_has_an_epoch_of_its_own() -> None:
    cluster = Cluster()
    assert [cluster.register(one).broker_epoch for one in (1, 2)] == [0, 1]
    assert [one.is_fenced for one in cluster.image.brokers.values()] == [True, True]


def test_the_same_process_may_register_again_and_keeps_its_state() -> None:
    cluster = Cluster()
    registration = cluster.registration(1)
    first = try_to_register(cluster, registration)
    cluster.unfence(1)
    version = cluster.image.version
    again = try_to_register(cluster, registration)
    assert isinstance(first, BrokerRecord)
    assert again == first._replace(is_fenced=False)
    assert cluster.image.version == version
    moved = try_to_register(cluster, registration._replace(host="elsewhere", rack="r"))
    assert moved == first._replace(is_fenced=False, host="elsewhere", rack="r")
    assert cluster.image.brokers[1] == moved


def test_an_id_that_a_live_process_has_is_refused_to_another() -> None:
    cluster = Cluster(1)
    other = cluster.registration(1)
    assert try_to_register(cluster, other) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert isinstance(try_to_register(cluster, other, is_old_alive=False), BrokerRecord)


@pytest.mark.parametrize("how", ["fenced", "shutting down"])
def test_an_id_whose_process_no_longer_serves_is_given_to_another(how: str) -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    if how == "fenced":
        cluster.fence(1)
    else:
        assert not cluster.stop(1).may_stop
    assert isinstance(try_to_register(cluster, cluster.registration(1)), BrokerRecord)


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_id": -1},
        {"incarnation_id": b"short"},
        {"incarnation_id": bytes(16)},
        {"port": 65_536},
        {"rpc_port": -1},
        {"listeners": (("SSL", "h", 65_536),)},
        {"listeners": (("SSL", "h", 1),) * (brokers.LISTENERS_MAX + 1)},
        {"features": (("f", 1, 1),) * (brokers.LISTENERS_MAX + 1)},
        {"host": "h" * (brokers.HOST_LENGTH_MAX + 1)},
        {"rack": "r" * (brokers.HOST_LENGTH_MAX + 1)},
        {"listeners": (("n" * (brokers.HOST_LENGTH_MAX + 1), "h", 1),)},
        {"features": (("f" * (brokers.HOST_LENGTH_MAX + 1), 1, 1),)},
    ],
)
def test_an_impossible_registration_is_refused(wrong: dict[str, Any]) -> None:
    cluster = Cluster()
    registration = cluster.registration(1)._replace(**wrong)
    assert try_to_register(cluster, registration) is ErrorCode.INVALID_REGISTRATION


def test_a_registration_at_the_limits_is_taken() -> None:
    cluster = Cluster()
    text = "x" * brokers.HOST_LENGTH_MAX
    registration = brokers.Registration(
        *(0, b"i" * 16, text, 0, text, 65_535, text),
        listeners=((text, text, 65_535),) * brokers.LISTENERS_MAX,
        features=((text, 1, 1),) * brokers.LISTENERS_MAX,
    )
    assert isinstance(try_to_register(cluster, registration), BrokerRecord)


def test_requests_of_an_older_process_are_refused() -> None:
    cluster = Cluster(1)
    old = cluster.epoch(1)
    new = cluster.join(1).broker_epoch
    codes = [brokers.check_broker(cluster.image, *one) for one in [(1, old), (1, new), (2, 0)]]
    assert [one and one.error_code for one in codes] == [
        ErrorCode.STALE_BROKER_EPOCH,
        None,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    ]


# --- what it has on its disk -------------------------------------------------------------------


def test_a_leader_that_restarts_leaves_its_partitions_to_others() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3])
    cluster.register(1)
    assert isr(cluster.at()) == ((2, 3), 2, 1)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_topic_with_one_replica_is_served_again_after_any_stop(is_clean: bool) -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1])
    cluster.register(1, is_clean=is_clean)
    assert isr(cluster.at()) == ((1,), NO_LEADER, 1)
    assert cluster.at().last_known_eligible_leaders == (1,)
    cluster.unfence(1)
    assert isr(cluster.at()) == ((1,), 1, 2)
    assert cluster.at().last_known_eligible_leaders == ()


def test_an_unclean_stop_costs_a_broker_its_eligibility_a_clean_one_does_not() -> None:
    for is_clean, expected in [(True, (2,)), (False, ())]:
        cluster = Cluster(2, min_insync_replicas=2)
        cluster.topic("t", [1, 2])
        cluster.register(2, is_clean=is_clean)
        assert cluster.at().in_sync_replicas == (1,)
        assert cluster.at().eligible_leader_replicas == expected


def test_an_eligible_leader_that_was_killed_is_no_longer_eligible() -> None:
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.topic("t", [1, 2])
    cluster.fence(2)
    assert cluster.at().eligible_leader_replicas == (2,)
    cluster.register(2)
    assert cluster.at().eligible_leader_replicas == ()


def test_when_the_last_in_sync_replica_was_killed_the_eligible_leaders_remain() -> None:
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.topic("t", [1, 2, 3])
    cluster.fence(2, 3)
    assert cluster.at().eligible_leader_replicas == (2, 3)
    cluster.register(1)
    assert isr(cluster.at()) == ((2, 3), NO_LEADER, 1)
    cluster.unfence(1)
    assert cluster.at().leader == NO_LEADER
    cluster.unfence(2)
    assert isr(cluster.at()) == ((2,), 2, 2)
    assert cluster.at().eligible_leader_replicas == (3,)


def test_when_everybody_was_killed_the_last_leader_leads_again() -> None:
    cluster = Cluster(3)
    cluster.topic("t", [1, 2, 3])
    cluster.fence(3)
    cluster.fence(1, 2)
    assert isr(cluster.at()) == ((1, 2), NO_LEADER, 1)
    cluster.join(1)
    assert isr(cluster.at()) == ((2,), NO_LEADER, 1)
    cluster.register(2)
    # No replica is known to have everything: broker 1 had it when it last led.
    assert isr(cluster.at()) == ((1,), 1, 2)


def test_a_last_leader_that_is_no_longer_a_replica_is_skipped() -> None:
    cluster = Cluster(3)
    topic = cluster.topic("t", [1, 2])
    cluster.fence(1, 2)
    # No decision leads here, but an image may be like this: its last leader was removed.
    cluster.image.replay(
        PartitionRecord(topic.topic_id, 0, (2,), (2,), -1, 5, 5, last_known_eligible_leaders=(1,))
    )
    cluster.join(2)
    assert isr(cluster.at()) == ((2,), 2, 6)


# --- a quorum of one ---------------------------------------------------------------------------


def test_a_single_broker_starts_without_changing_its_partitions() -> None:
    cluster = Cluster()
    cluster.register(1, is_caught_up=True)
    cluster.topic("t", [1], [1])
    before = cluster.image.topics["t"]
    decision = brokers.register_broker(
        cluster.image,
        cluster.registration(1),
        cluster.defaults,
        is_old_alive=False,
        is_caught_up=True,
    )
    assert [type(one) for one in decision.records] == [BrokerRecord]
    cluster.commit(decision)
    assert cluster.image.is_active(1)
    assert cluster.image.topics["t"] is before


def test_a_log_from_before_there_were_registrations_is_served_by_its_broker() -> None:
    cluster = Cluster()
    cluster.image.replay(TopicRecord("t", b"t" * 16))
    cluster.image.replay(PartitionRecord(b"t" * 16, 0, (1,), (1,), 1, 0, 0))
    cluster.register(1, is_caught_up=True)
    assert isr(cluster.at()) == ((1,), 1, 0)


def test_a_single_controller_that_restarts_leads_in_a_new_epoch_what_others_follow() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2], [1, 2])
    cluster.alter(1, number=1)
    cluster.register(1, is_caught_up=True)
    assert isr(cluster.at(number=0)) == ((2,), 2, 1)
    # It may have lost what broker 2 has fetched in epoch 0.
    assert isr(cluster.at(number=1)) == ((1,), 1, 1)


# --- unregister --------------------------------------------------------------------------------


def test_a_broker_that_is_unregistered_leads_nothing_and_is_forgotten() -> None:
    cluster = Cluster(2)
    cluster.topic("t", [1, 2])
    assert cluster.commit(brokers.unregister_broker(cluster.image, 1, cluster.defaults)) is None
    assert list(cluster.image.brokers) == [2]
    assert isr(cluster.at()) == ((2,), 2, 1)
    refusal = cluster.commit(brokers.unregister_broker(cluster.image, 1, cluster.defaults))
    assert refusal is not None
    assert refusal.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_registers_again_after_it_was_removed_is_not_trusted() -> None:
    cluster = Cluster(2, min_insync_replicas=2)
    cluster.topic("t", [1, 2])
    epoch = cluster.epoch(2)
    cluster.commit(brokers.unregister_broker(cluster.image, 2, cluster.defaults))
    assert cluster.at().eligible_leader_replicas == (2,)
    try_to_register(cluster, cluster.registration(2, epoch))
    assert cluster.at().eligible_leader_replicas == ()
