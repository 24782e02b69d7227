"""Faults, recorded requests and time, as other people's clients see them."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minikafka import testing
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, list_groups, metadata
from minikafka.testing.faults import Controlled
from minikafka.testing.topics import create_topic
from minikafka.testing.wire import Wire, WireClosedError
from tests.kit.waiting import look_until

WEEK_SECONDS = 7 * 24 * 3600.0


@pytest.fixture(scope="module")
def shared() -> Generator[testing.Broker]:
    with testing.broker(group_initial_rebalance_delay_ms=0) as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: testing.Broker) -> Generator[testing.Broker]:
    shared.reset()
    yield shared
    shared.restore()


def produce(kafka: Controlled, topic: str, *values: bytes, **settings: object) -> list[int]:
    """Send records one after the other; returns their offsets."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    offsets: list[int] = []
    for value in values:
        errors: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            errors.append(error)  # noqa: B023 - it is called before the next value
            offsets.append(message.offset())

        producer.produce(topic, value, on_delivery=delivered)
        producer.flush()
        if errors[0] is not None:
            raise KafkaException(errors[0])
    return offsets


def apis(kafka: Controlled) -> list[str]:
    return [one.api for one in kafka.requests]


# --- faults ---


def test_an_error_is_answered_so_many_times_and_nothing_takes_effect(kafka: testing.Broker) -> None:
    fault = kafka.inject("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert produce(kafka, "t", b"1", b"2") == [0, 1]
    assert fault.hits == 2
    assert apis(kafka).count("Produce") == 4


def test_an_error_that_is_final_reaches_the_client(kafka: testing.Broker) -> None:
    kafka.inject("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(KafkaException, match="authorization"):
        produce(kafka, "t", b"1")


def test_a_lost_request_is_sent_again(kafka: testing.Broker) -> None:
    fault = kafka.inject("Produce", disconnect="before")
    assert produce(kafka, "t", b"1") == [0]
    assert fault.hits == 1


def test_a_lost_answer_makes_a_duplicate_without_idempotence(kafka: testing.Broker) -> None:
    kafka.inject("Produce", disconnect="after")
    assert produce(kafka, "t", b"1", **{"enable.idempotence": False}) == [1]


def test_a_lost_answer_makes_no_duplicate_with_idempotence(kafka: testing.Broker) -> None:
    fault = kafka.inject("Produce", disconnect="after")
    assert produce(kafka, "t", b"1", b"2", **{"enable.idempotence": True}) == [0, 1]
    assert fault.hits == 1


def test_a_repeated_request_is_a_duplicate_unless_its_producer_is_idempotent(
    kafka: testing.Broker,
) -> None:
    kafka.inject("Produce", repeat=True)
    assert produce(kafka, "plain", b"1", b"2", **{"enable.idempotence": False}) == [1, 2]
    kafka.inject("Produce", repeat=True)
    assert produce(kafka, "idempotent", b"1", b"2", **{"enable.idempotence": True}) == [0, 1]


def test_a_request_that_hangs_times_out_at_the_client(kafka: testing.Broker) -> None:
    kafka.inject("Produce", drop=True)
    settings = {"socket.timeout.ms": 1000, "enable.idempotence": False}
    assert produce(kafka, "t", b"1", **settings) == [0]
    assert apis(kafka).count("Produce") == 2


def test_a_delay_ends_when_the_clock_has_moved_past_it(kafka: testing.Broker) -> None:
    create_topic(kafka.bootstrap, "t")
    fault = kafka.inject("Metadata", delay_s=1000.0)
    with Wire(kafka.bootstrap) as wire:
        wire.send(metadata.Request(topics=[]), 12)
        look_until(lambda: fault.hits == 1, what="the request")
        kafka.clock.advance(1001)
        assert wire.receive(metadata.Response, 12)[1].topics == []


def test_faults_are_for_one_topic_group_or_client(kafka: testing.Broker) -> None:
    topic = kafka.inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="a", times=None)
    client = kafka.inject("Produce", "NOT_LEADER_OR_FOLLOWER", client_id="me", times=1)
    group = kafka.inject("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", group="g", times=1)
    assert produce(kafka, "b", b"1") == [0]
    assert (topic.hits, client.hits) == (0, 0)
    assert produce(kafka, "b", b"2", **{"client.id": "me"}) == [1]
    assert client.hits == 1
    assert read(kafka, "b", "g", 2) == [b"1", b"2"]
    assert group.hits == 1
    assert topic.remove() == 0


def read(kafka: Controlled, topic: str, group: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < count:
            message = consumer.poll(60.0)
            assert message is not None, f"only {values} have come"
            if message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                values.append(value)
    finally:
        consumer.close()
    return values


def test_a_fetch_of_a_session_names_its_topics(kafka: testing.Broker) -> None:
    produce(kafka, "t", b"1")
    fault = kafka.inject("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="t")
    assert read(kafka, "t", "g", 1) == [b"1"]
    assert fault.hits == 1
    assert all(one.topics == ("t",) for one in kafka.requests if one.api == "Fetch")


def test_an_older_kafka_announces_less_and_refuses_the_rest(kafka: testing.Broker) -> None:
    kafka.limit_versions("Produce", 8)
    kafka.limit_versions("ListGroups", -1)
    assert produce(kafka, "t", b"1") == [0]
    assert {one.version for one in kafka.requests if one.api == "Produce"} == {8}
    with Wire(kafka.bootstrap) as wire:
        request = api_versions.Request(client_software_name="test", client_software_version="1")
        answer = wire.ask(request, 3, api_versions.Response)
        announced = {one.api_key: one.max_version for one in answer.api_keys}
        assert announced[0] == 8
        assert list_groups.Request.API_KEY not in announced
        with pytest.raises(WireClosedError):
            wire.ask(list_groups.Request(), 4, list_groups.Response)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("there is no API 'Prodce'", {"api": "Prodce", "error": "NOT_LEADER_OR_FOLLOWER"}),
        ("there is no error 'NO_LEADER'", {"api": "Produce", "error": "NO_LEADER"}),
    ],
)
def test_unknown_names_are_refused(
    kafka: testing.Broker, words: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(testing.CommandError, match=words):
        kafka.inject(arguments["api"], arguments["error"])


def test_a_fault_that_does_nothing_is_refused(kafka: testing.Broker) -> None:
    with pytest.raises(ValueError, match=r"does nothing.*disconnect"):
        kafka.inject("Produce")
    with pytest.raises(ValueError, match="disconnect='now'"):
        kafka.inject("Produce", disconnect=cast("Any", "now"))


# --- time ---


def test_a_session_of_45_seconds_ends_at_once(kafka: testing.Broker) -> None:
    produce(kafka, "t", b"1")
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 40_000,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def members() -> int:
        described = admin.describe_consumer_groups(["g"])["g"].result()
        return len(described.members)

    while consumer.poll(0.1) is None:
        pass
    assert members() == 1
    kafka.clock.advance(46)
    assert members() == 0
    consumer.close()


def test_retention_deletes_what_has_become_old(kafka: testing.Broker) -> None:
    configs: dict[str, object] = {"retention.ms": 3_600_000, "segment.ms": 60_000}
    configs |= {"message.timestamp.type": "LogAppendTime"}  # clients' clocks do not move
    create_topic(kafka.bootstrap, "t", configs=configs)
    produce(kafka, "t", b"old")
    kafka.clock.advance(3 * 3600)
    produce(kafka, "t", b"new")
    kafka.clean_logs()
    assert read(kafka, "t", "g", 1) == [b"new"]


def test_time_stays_moved_over_a_restart() -> None:
    with testing.broker() as kafka:
        create_topic(kafka.bootstrap, "t", configs={"message.timestamp.type": "LogAppendTime"})
        kafka.clock.advance(WEEK_SECONDS)
        kafka.stop()
        kafka.start()
        produce(kafka, "t", b"1")
        (made,) = [one for one in kafka.requests if one.api == "Produce"]
        assert made.at_ms > (time.time() + WEEK_SECONDS - 3600) * 1000


def test_time_does_not_go_back(kafka: testing.Broker) -> None:
    with pytest.raises(testing.CommandError, match="cannot be advanced by -1 s"):
        kafka.clock.advance(-1)


# --- the disk ---


def test_nothing_is_written_to_a_full_disk_until_it_has_room(kafka: testing.Broker) -> None:
    assert produce(kafka, "t", b"1") == [0]
    kafka.disk_full()
    with pytest.raises(KafkaException, match="Disk error"):
        produce(kafka, "t", b"2", retries=0)
    assert "No space left on device" in kafka.log()
    kafka.disk_has_room()
    assert produce(kafka, "t", b"3") == [1]
    assert read(kafka, "t", "g", 2) == [b"1", b"3"]


def test_a_full_disk_is_not_full_for_the_next_test(kafka: testing.Broker) -> None:
    produce(kafka, "t", b"1")
    kafka.disk_full()
    kafka.restore()
    assert produce(kafka, "t", b"2") == [1]


# --- a clean broker ---


def test_a_reset_leaves_no_topics_groups_and_transactions(kafka: testing.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topics = [NewTopic(f"t{number}", 3, 1) for number in range(50)]
    for created in admin.create_topics(topics).values():
        created.result()
    produce(kafka, "t0", b"1")
    for number in range(10):
        assert read(kafka, "t0", f"g{number}", 1) == [b"1"]
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t0", b"open")
    producer.flush()
    kafka.inject("Metadata", "INVALID_REQUEST", times=None)
    kafka.reset()
    fresh = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert fresh.list_topics(timeout=10).topics == {}
    assert fresh.list_consumer_groups().result().valid == []
    with Wire(kafka.bootstrap) as wire:
        answer = wire.ask(list_groups.Request(), 4, list_groups.Response)
        assert (answer.error_code, answer.groups) == (ErrorCode.NONE, [])
    assert produce(kafka, "t0", b"1") == [0]
    assert read(kafka, "t0", "g0", 1) == [b"1"]


def test_a_reset_forgets_requests(kafka: testing.Broker) -> None:
    with Wire(kafka.bootstrap) as wire:
        wire.ask(metadata.Request(topics=[]), 12, metadata.Response)

    def ours() -> list[tuple[int, str]]:
        return [(one.node, one.api) for one in kafka.requests if one.client_id == "test"]

    assert ours() == [(1, "Metadata")]
    kafka.reset()
    assert ours() == []


# --- control ---


def test_a_broker_without_control_takes_no_orders() -> None:
    with testing.broker(control=False) as kafka:
        assert produce(kafka, "t", b"1") == [0]
        with pytest.raises(RuntimeError, match="control=False"):
            kafka.inject("Produce", "NOT_LEADER_OR_FOLLOWER")


def test_a_broker_that_does_not_run_takes_no_orders() -> None:
    with testing.broker() as kafka:
        kafka.kill()
        with pytest.raises(RuntimeError, match="does not run"):
            kafka.reset()
        kafka.restore()
        assert produce(kafka, "t", b"1") == [0]
