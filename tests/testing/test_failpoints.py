"""Brokers that die, stand still or fail at points of their work, and what clients see of that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from minikafka import testing
from minikafka.testing.faults import Controlled
from minikafka.testing.topics import create_topic
from tests.testing.test_faults import produce, read

_FAST_RETRIES = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 100}


@pytest.fixture(scope="module")
def shared() -> Generator[testing.Cluster]:
    with testing.cluster(3) as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: testing.Cluster) -> Generator[testing.Cluster]:
    shared.reset()
    create_topic(shared.bootstrap, "t")
    yield shared
    shared.restore()


def send_in_transaction(producer: Producer, value: bytes) -> None:
    producer.begin_transaction()
    producer.produce("t", value)
    producer.commit_transaction(60)


def transactional(kafka: Controlled) -> Producer:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": "x", **_FAST_RETRIES}
    )
    producer.init_transactions(60)
    return producer


# --- what is lost, kept and not repeated ---


def test_a_record_is_lost_whose_leader_dies_before_followers_get_it_with_acks_1(
    kafka: testing.Cluster,
) -> None:
    old = kafka.leader("t")
    with kafka.nodes[old].failpoint("replication.sending", kill=True) as failpoint:
        assert produce(kafka, "t", b"lost", acks="1", **_FAST_RETRIES) == [0]
        failpoint.wait()
    assert produce(kafka, "t", b"kept", acks="all", **_FAST_RETRIES) == [0]
    kafka.start(old)
    kafka.move_leader("t", 0, old)
    assert kafka.nodes[old].log().count("truncating offsets 0 to 1") == 1
    assert read(kafka, "t", "g", 1) == [b"kept"]


def test_no_record_is_lost_whose_leader_dies_before_followers_get_it_with_acks_all(
    kafka: testing.Cluster,
) -> None:
    leader = kafka.nodes[kafka.leader("t")]
    with leader.failpoint("replication.sending", kill=True) as failpoint:
        produce(kafka, "t", b"kept", acks="all", **_FAST_RETRIES)
    assert failpoint.hits == 1
    assert not leader.is_running
    assert read(kafka, "t", "g", 1) == [b"kept"]


@pytest.mark.parametrize(
    ("name", "is_idempotent", "last_offset"),
    [
        ("produce.appended", True, 0),
        ("produce.committed", True, 0),
        ("produce.committed", False, 1),
    ],
)
def test_a_retry_repeats_a_record_only_without_idempotence(
    kafka: testing.Cluster,
    name: testing.FailpointName,
    is_idempotent: bool,
    last_offset: int,
) -> None:
    settings = {"enable.idempotence": is_idempotent, "acks": "all", **_FAST_RETRIES}
    leader = kafka.nodes[kafka.leader("t")]
    with leader.failpoint(name, kill=True) as failpoint:
        (offset,) = produce(kafka, "t", b"once?", **settings)
    assert failpoint.hits == 1
    assert offset == last_offset
    assert len(read(kafka, "t", "g", last_offset + 1)) == last_offset + 1


@pytest.mark.parametrize(
    "name", ["transaction.decided", "transaction.marker_appended", "transaction.markers_written"]
)
def test_a_transaction_that_is_decided_is_committed_whoever_dies(
    kafka: testing.Cluster, name: testing.FailpointName
) -> None:
    producer = transactional(kafka)
    coordinator = kafka.coordinator(transactional_id="x")
    kafka.move_leader("t", 0, coordinator)
    with kafka.nodes[coordinator].failpoint(name, kill=True) as failpoint:
        send_in_transaction(producer, b"committed")
        failpoint.wait()
    assert read(kafka, "t", "g", 1) == [b"committed"]
    send_in_transaction(producer, b"next")


# --- what happens at a point ---


def test_a_broker_stands_still_until_it_is_resumed(kafka: testing.Cluster) -> None:
    node = kafka.leader("t")
    failpoint = kafka.nodes[node].failpoint("produce.received", pause=True)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce("t", b"1")
    failpoint.wait()
    assert kafka.nodes[node].is_paused
    kafka.resume(node)
    assert producer.flush(60) == 0
    assert failpoint.hits == 1
    assert not kafka.nodes[node].is_paused


def test_an_error_is_that_of_one_client(kafka: testing.Cluster) -> None:
    leader = kafka.nodes[kafka.leader("t")]
    with leader.failpoint("produce.received", error=True) as failpoint:
        assert produce(kafka, "t", b"1", **_FAST_RETRIES) == [0]
    assert failpoint.hits == 1
    assert "the test wants an error at produce.received" in leader.log()
    assert leader.is_running


def test_the_first_times_may_be_spared(kafka: testing.Cluster) -> None:
    leader = kafka.nodes[kafka.leader("t")]
    with leader.failpoint("produce.appended", error=True, skip=2, times=None) as failpoint:
        assert produce(kafka, "t", b"1", b"2") == [0, 1]
        assert failpoint.hits == 0
        with pytest.raises(KafkaException):
            produce(kafka, "t", b"3", **{"message.timeout.ms": 1000})
    assert failpoint.hits > 0
    assert produce(kafka, "t", b"4")[0] > 1


def test_a_failpoint_is_over_with_its_block_and_with_the_test(kafka: testing.Cluster) -> None:
    with kafka.failpoint("produce.received", kill=True) as failpoint:
        pass
    kafka.failpoint("produce.received", kill=True)
    kafka.restore()
    assert produce(kafka, "t", b"1") == [0]
    assert failpoint.hits == 0


def test_a_failpoint_has_a_name_and_one_effect(kafka: testing.Cluster) -> None:
    with pytest.raises(ValueError, match="no failpoint 'produce'; there are produce"):
        kafka.failpoint("produce", kill=True)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="choose one of kill, pause and error"):
        kafka.failpoint("produce.appended")
    with pytest.raises(ValueError, match="choose one of kill, pause and error"):
        kafka.failpoint("produce.appended", kill=True, error=True)


def test_a_point_that_is_not_reached_is_named(kafka: testing.Cluster) -> None:
    failpoint = kafka.failpoint("log.rolled", error=True)
    with pytest.raises(TimeoutError, match=r"log\.rolled was not reached"):
        failpoint.wait(0.0)


# --- all of them ---


def roll_and_truncate(kafka: testing.Cluster) -> None:
    """Have the leader keep a record that its successor does not have, and follow it."""
    create_topic(kafka.bootstrap, "rolls", configs={"segment.bytes": 1_048_576})
    big = bytes(700_000)
    produce(kafka, "rolls", big, big, **{"message.max.bytes": 1_000_000})
    old = kafka.leader("t")
    kafka.isolate(old, "peers")
    with pytest.raises(KafkaException):
        produce_to(kafka.nodes[old], b"nobody else has it")
    while kafka.leader("t") == old:
        kafka.clock.advance(1.0)
    kafka.heal()
    kafka.move_leader("t", 0, old)


def produce_to(node: testing.Broker, value: bytes) -> None:
    produce(node, "t", value, acks="all", **{"message.timeout.ms": 1000})


def commit_offsets(kafka: Controlled) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "group.id": "g"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    while (message := consumer.poll(0.1)) is None:
        pass
    consumer.commit(message=message, asynchronous=False)
    consumer.close()


def test_every_point_is_reached(kafka: testing.Cluster) -> None:
    kafka.reached_failpoints()  # begins to count
    create_topic(kafka.bootstrap, "new")
    send_in_transaction(transactional(kafka), b"1")
    produce(kafka, "t", b"2", acks="all")
    commit_offsets(kafka)
    roll_and_truncate(kafka)
    assert set(kafka.reached_failpoints()) == set(testing.FAILPOINTS)


def test_a_broker_in_earnest_has_no_points() -> None:
    program = (
        "import sys, minikafka.cli.main, minikafka.cli.serve, minikafka.broker.run; "
        "print([one for one in sys.modules if one.startswith('minikafka.testing')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
