"""Faults of whole nodes: leaders that move, nodes that are cut off, clocks that stay in step."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from minikafka import testing
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_quorum, metadata
from minikafka.testing.topics import create_topic
from minikafka.testing.wire import Wire
from tests.kit.wire import LATEST
from tests.kit.wire import Wire as KitWire
from tests.testing.test_faults import produce


@pytest.fixture(scope="module")
def shared() -> Generator[testing.Cluster]:
    with testing.cluster(3) as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: testing.Cluster) -> Generator[testing.Cluster]:
    shared.reset()
    yield shared
    shared.restore()


def test_a_leader_moves_now_and_stays(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    for node in (1, 2, 3):
        kafka.move_leader("t", 0, node)
        assert kafka.leader("t") == node
    assert produce(kafka, "t", b"1", acks="all") == [0]


def test_only_a_replica_can_lead(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    with pytest.raises(ValueError, match="no node 4"):
        kafka.move_leader("t", 0, 4)
    with pytest.raises(ValueError, match="no replica of t-7"):
        kafka.move_leader("t", 7, 1)


def test_a_dead_replica_cannot_lead(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    leader = kafka.leader("t")
    other = next(node for node in kafka.nodes if node != leader)
    kafka.kill(other)
    with pytest.raises(RuntimeError, match="PREFERRED_LEADER_NOT_AVAILABLE"):
        kafka.move_leader("t", 0, other)


def test_a_leader_that_is_cut_off_is_replaced_and_comes_back(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    assert produce(kafka, "t", b"1", acks="all") == [0]
    old = kafka.leader("t")
    kafka.isolate(old)
    while kafka.leader("t") == old:
        kafka.clock.advance(1.0)  # of all nodes: the old leader's session ends without waiting
    assert produce(kafka, "t", b"2", acks="all") == [1]
    kafka.heal()
    kafka.move_leader("t", 0, old)
    with KitWire(kafka.nodes[old].bootstrap) as wire:
        assert wire.offset_at("t", 0, LATEST) == 2


def test_a_node_that_is_cut_off_answers_nobody(kafka: testing.Cluster) -> None:
    kafka.isolate(2)
    with pytest.raises(TimeoutError), Wire(kafka.nodes[2].bootstrap, timeout_s=0.5) as wire:
        wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
    kafka.heal()
    with Wire(kafka.nodes[2].bootstrap) as wire:
        assert wire.ask(metadata.Request(topics=[]), 12, metadata.Response).topics == []


def controller_epoch(kafka: testing.Cluster) -> int:
    """It rises with each election; what nodes log of one may come late."""
    asked = describe_quorum.TopicDataRequest(
        topic_name="__cluster_metadata",
        partitions=[describe_quorum.PartitionDataRequest(partition_index=0)],
    )
    with Wire(kafka.nodes[1].bootstrap) as wire:
        answer = wire.ask(describe_quorum.Request(topics=[asked]), 2, describe_quorum.Response)
    (found,) = answer.topics[0].partitions
    assert found.error_code == ErrorCode.NONE
    return found.leader_epoch


def test_leaders_stay_while_the_clocks_move(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t", 6)
    leaders = [kafka.leader("t", partition) for partition in range(6)]
    epoch = controller_epoch(kafka)
    kafka.clock.advance(60)
    assert [kafka.leader("t", partition) for partition in range(6)] == leaders
    assert controller_epoch(kafka) == epoch


def test_a_fault_is_for_one_node_if_it_is_injected_there(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    kafka.move_leader("t", 0, 1)
    wrong = kafka.nodes[2].inject("Produce", "NOT_LEADER_OR_FOLLOWER")
    right = kafka.nodes[1].inject("Produce", "NOT_LEADER_OR_FOLLOWER")
    assert produce(kafka, "t", b"1") == [0]
    assert (wrong.hits, right.hits) == (0, 1)
    assert {one.node for one in kafka.requests if one.api == "Produce"} == {1}


def test_everything_is_undone_between_tests(kafka: testing.Cluster) -> None:
    kafka.kill(1)
    kafka.pause(2)
    kafka.nodes[3].inject("Produce", "NOT_LEADER_OR_FOLLOWER", times=None)
    kafka.restore()
    create_topic(kafka.bootstrap, "t", 3)
    assert produce(kafka, "t", b"1", acks="all") == [0]


def test_an_election_makes_another_replica_the_leader(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    before = kafka.leader("t")
    assert produce(kafka, "t", b"1", acks="all") == [0]
    elected = kafka.elect("t")
    assert elected != before
    assert kafka.leader("t") == elected
    assert produce(kafka, "t", b"2", acks="all") == [1]


def test_nobody_is_elected_where_there_is_one_replica(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t", replicas=1)
    with pytest.raises(RuntimeError, match="no other replica of t-0 is in sync"):
        kafka.elect("t")


def test_another_node_becomes_the_controller(kafka: testing.Cluster) -> None:
    before = kafka.controller()
    after = kafka.move_controller()
    assert after != before
    assert kafka.controller() == after
    assert kafka.move_controller(before) == before == kafka.controller()
    create_topic(kafka.bootstrap, "t")


def test_a_node_that_is_cut_off_from_clients_goes_on_leading(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    kafka.move_leader("t", 0, 2)
    kafka.isolate(2, "clients")
    with pytest.raises(TimeoutError), Wire(kafka.nodes[2].bootstrap, timeout_s=0.5) as wire:
        wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
    kafka.clock.advance(30)
    assert kafka.leader("t") == 2
    kafka.heal()
    assert produce(kafka, "t", b"1", acks="all") == [0]


def test_a_node_that_is_cut_off_from_its_peers_is_replaced_and_still_answers(
    kafka: testing.Cluster,
) -> None:
    create_topic(kafka.bootstrap, "t")
    kafka.move_leader("t", 0, 2)
    kafka.isolate(2, "peers")
    while kafka.leader("t") == 2:
        kafka.clock.advance(1.0)
    with Wire(kafka.nodes[2].bootstrap) as wire:
        answer = wire.ask(metadata.Request(topics=None), 12, metadata.Response)
        (known,) = (one for one in answer.topics if one.name == "t")
        assert known.partitions[0].leader_id == 2  # it has not been told
    kafka.heal()
    assert produce(kafka, "t", b"1", acks="all") == [0]


def test_one_is_cut_off_from_somebody(kafka: testing.Cluster) -> None:
    with pytest.raises(ValueError, match="'all', 'clients' or 'peers'"):
        kafka.isolate(2, "everybody")  # type: ignore[arg-type]  # that is the point


def test_a_leader_without_room_is_replaced(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    assert produce(kafka, "t", b"1", acks="all") == [0]
    full = kafka.leader("t")
    kafka.nodes[full].disk_full()
    assert produce(kafka, "t", b"2", acks="all") == [1]
    assert kafka.leader("t") != full
    kafka.nodes[full].disk_has_room()
    kafka.move_leader("t", 0, full)
    assert produce(kafka, "t", b"3", acks="all") == [2]
