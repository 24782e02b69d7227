from __future__ import annotations

from uuid import UUID

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import metadata
from minikafka_client.core.cluster import (
    ANY_BROKER,
    CONTROLLER,
    NO_LEADER,
    Cluster,
    parse_bootstrap,
)
from minikafka_client.types import BrokerDescription, TopicPartition

ID_1, ID_2 = UUID(int=1).bytes, UUID(int=2).bytes


def partition(index: int, leader: int, epoch: int = -1, error_code: int = 0) -> metadata.Partition:
    return metadata.Partition(
        error_code=error_code, partition_index=index, leader_id=leader, leader_epoch=epoch
    )


def response(
    *topics: metadata.ResponseTopic, nodes: tuple[int, ...] = (1, 2), controller_id: int = 1
) -> metadata.Response:
    return metadata.Response(
        brokers=[metadata.Broker(node_id=n, host=f"h{n}", port=9000 + n) for n in nodes],
        controller_id=controller_id,
        cluster_id="c",
        topics=list(topics),
    )


def topic(
    name: str, *partitions: metadata.Partition, topic_id: bytes = ID_1, error_code: int = 0
) -> metadata.ResponseTopic:
    return metadata.ResponseTopic(
        error_code=error_code, name=name, topic_id=topic_id, partitions=list(partitions)
    )


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("host", [("host", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_bootstrap(text)) == addresses
    assert list(parse_bootstrap(text.split(","))) == addresses


@pytest.mark.parametrize("text", ["", "a:1,,b:2", "a:b", "a:0", "a:65536", ":9092", "a:", "a:-1"])
def test_a_wrong_bootstrap_server_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not 'host:port'"):
        parse_bootstrap(text)


def test_an_ipv6_address_needs_brackets() -> None:
    with pytest.raises(ValueError, match=r"write an IPv6 address as '\[::1\]:9092'"):
        parse_bootstrap("::1:9092")


def test_no_bootstrap_server_is_an_error() -> None:
    with pytest.raises(ValueError, match="no bootstrap server"):
        parse_bootstrap([])


def test_what_is_unknown_says_so() -> None:
    cluster = Cluster([("h", 1)])
    assert cluster.leader("t", 0) == NO_LEADER
    assert cluster.leader_epoch("t", 0) == -1
    assert cluster.partition_count("t") == 0
    assert cluster.resolve(CONTROLLER) == ANY_BROKER
    assert cluster.resolve(3) == 3


def test_a_response_fills_the_tables() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(topic("t", partition(1, 2, 7), partition(0, 1, 3))), now=5.0)
    assert cluster.brokers[2] == BrokerDescription(2, "h2", 9002)
    assert cluster.resolve(CONTROLLER) == 1
    assert (cluster.leader("t", 0), cluster.leader("t", 1)) == (1, 2)
    assert cluster.leader_epoch("t", 1) == 7
    assert list(cluster.topics["t"].partitions) == [0, 1]
    assert cluster.names_by_id == {ID_1: "t"}
    assert (cluster.update_count, cluster.updated_at) == (1, 5.0)


def test_topics_that_were_not_asked_about_are_kept_unless_all_were() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(topic("a", partition(0, 1)), topic("b", topic_id=ID_2)), 1.0)
    cluster.update(response(topic("b", partition(0, 1), topic_id=ID_2)), 2.0)
    assert sorted(cluster.topics) == ["a", "b"]
    cluster.update(response(topic("b", partition(0, 1), topic_id=ID_2)), 3.0, is_complete=True)
    assert sorted(cluster.topics) == ["b"]
    assert cluster.names_by_id == {ID_2: "b"}
    cluster.forget(["b", "no such topic"])
    assert not cluster.topics


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(topic("t", partition(0, 2, 5))), 1.0)
    cluster.update(response(topic("t", partition(0, 1, 4))), 2.0)
    assert (cluster.leader("t", 0), cluster.leader_epoch("t", 0)) == (2, 5)
    cluster.update(response(topic("t", partition(0, 1, 6))), 3.0)
    assert cluster.leader("t", 0) == 1


def test_a_topic_that_was_recreated_begins_with_its_own_epochs() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(topic("t", partition(0, 2, 5))), 1.0)
    cluster.update(response(topic("t", partition(0, 1, 0), topic_id=ID_2)), 2.0)
    assert (cluster.leader("t", 0), cluster.leader_epoch("t", 0)) == (1, 0)
    assert cluster.names_by_id == {ID_2: "t"}


def test_a_partition_without_leader_has_none() -> None:
    cluster = Cluster([("h", 1)])
    code = ErrorCode.LEADER_NOT_AVAILABLE
    cluster.update(response(topic("t", partition(0, 2, 5, code), partition(1, 9))), 1.0)
    assert cluster.leader("t", 0) == NO_LEADER
    assert cluster.leader("t", 1) == NO_LEADER  # an unknown broker


def test_a_response_that_names_a_newer_leader_is_believed() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(topic("t", partition(0, 1, 5))), 1.0)
    where = TopicPartition("t", 0)
    assert not cluster.lead_moved(where, 2, 5)
    assert not cluster.lead_moved(where, 3, 6)  # where is it?
    assert not cluster.lead_moved(TopicPartition("t", 1), 2, 6)
    assert not cluster.lead_moved(TopicPartition("u", 0), 2, 6)
    cluster.learn_broker(BrokerDescription(3, "h3", 9003))
    cluster.learn_broker(BrokerDescription(-1, "", -1))
    assert cluster.lead_moved(where, 3, 6)
    assert (cluster.leader("t", 0), cluster.leader_epoch("t", 0)) == (3, 6)
    assert -1 not in cluster.brokers


def test_an_answer_without_brokers_does_not_lose_those_we_know() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(), 1.0)
    cluster.update(response(nodes=()), 2.0)
    assert sorted(cluster.brokers) == [1, 2]


def test_an_error_of_a_topic_is_kept() -> None:
    cluster = Cluster([("h", 1)])
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.update(response(topic("t", topic_id=bytes(16), error_code=code)), 1.0)
    assert cluster.topics["t"].error_code == code
    assert cluster.partition_count("t") == 0
    assert cluster.names_by_id == {}


def test_brokers_of_another_cluster_are_forgotten() -> None:
    cluster = Cluster([("h", 1)])
    cluster.update(response(topic("t", partition(0, 1))), 1.0)
    assert cluster.brokers
    strange = metadata.Response(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, brokers=[], topics=[])
    cluster.update(strange, 2.0)
    assert (cluster.brokers, cluster.controller_id) == ({}, -1)
    assert cluster.topics
    assert cluster.bootstrap == (("h", 1),)
