"""A broker with users, rules and certificates that are made when it starts."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

import minikafka_client as mk
from minikafka import testing
from minikafka.testing.secure import SecureBroker
from minikafka_client.sync import AdminClient
from tests.cli.conftest import CommandLine

WAYS = [
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SSL", ""),
]


@pytest.fixture(scope="module")
def secured() -> Generator[SecureBroker]:
    with testing.secure_broker() as kafka:
        yield kafka


@pytest.fixture
def kafka(secured: SecureBroker) -> Generator[SecureBroker]:
    yield secured
    secured.restore()


def create(kafka: SecureBroker, topic: str) -> str:
    with kafka.admin() as admin:
        admin.create_topics([mk.NewTopic(topic)])
    return topic


def produced(config: dict[str, str], topic: str) -> str:
    """Send a record with librdkafka; returns the name of the error, or an empty text."""
    errors: list[str] = []
    producer = Producer({**config, "message.timeout.ms": 20_000})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: errors.append(error.name() if error else "")
    )
    assert producer.flush(30) == 0
    return errors[0]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_users_may_do_what_rules_allow(kafka: SecureBroker, listener: str, mechanism: str) -> None:
    topic = create(kafka, f"{listener}-{mechanism}-orders")
    config = kafka.client("alice", listener=listener, mechanism=mechanism)
    assert produced(config, topic) == "TOPIC_AUTHORIZATION_FAILED"
    kafka.allow("alice", "WRITE", topic=topic)
    assert produced(config, topic) == ""


def test_denied_comes_first_and_prefixes_are_prefixes(kafka: SecureBroker) -> None:
    open_topic, secret = create(kafka, "open-1"), create(kafka, "open-secret")
    kafka.allow("*", "WRITE", "DESCRIBE", topic="open-*")
    kafka.deny("bob", "WRITE", topic=secret)
    assert produced(kafka.client("bob"), open_topic) == ""
    assert produced(kafka.client("bob"), secret) == "TOPIC_AUTHORIZATION_FAILED"
    assert produced(kafka.client("alice"), secret) == ""


def test_rules_are_forgotten(kafka: SecureBroker) -> None:
    topic = create(kafka, "forgotten")
    kafka.allow("alice", "WRITE", topic=topic)
    kafka.restore()
    assert produced(kafka.client("alice"), topic) == "TOPIC_AUTHORIZATION_FAILED"


def test_users_are_added(kafka: SecureBroker) -> None:
    topic = create(kafka, "of-carol")
    kafka.add_user("carol", "carol-secret")
    kafka.allow("carol", "WRITE", topic=topic)
    assert produced(kafka.client("carol", mechanism="PLAIN"), topic) == ""
    wrong = {**kafka.client("carol"), "sasl.password": "wrong"}
    with AdminClient.from_config(wrong) as admin, pytest.raises(mk.AuthenticationError):
        admin.list_topics()


def test_a_client_without_credentials_gets_nothing(kafka: SecureBroker) -> None:
    config = {"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": "1000"}
    producer = Producer(config)
    with pytest.raises(KafkaException) as caught:
        producer.list_topics(timeout=1)
    assert caught.value.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)


@pytest.mark.parametrize("listener", ["SASL_SSL", "SSL"])
def test_the_command_line_takes_a_file_of_properties(kafka: SecureBroker, listener: str) -> None:
    topic = create(kafka, f"of-the-command-line-{listener}")
    kafka.allow("bob", "DESCRIBE", topic="*")
    config = kafka.client_properties("bob", listener=listener)
    cli = CommandLine(kafka.bootstrap_of(listener))
    assert topic in cli.ok("topic", "list", "--config", str(config))


def test_a_restart_keeps_users_and_rules(kafka: SecureBroker) -> None:
    topic = create(kafka, "kept")
    kafka.allow("alice", "WRITE", topic=topic)
    kafka.kill()
    kafka.start()
    assert produced(kafka.client("alice"), topic) == ""


def test_nonsense_is_refused_before_anything_happens(kafka: SecureBroker) -> None:
    with pytest.raises(ValueError, match="there is no operation 'FLY'"):
        kafka.allow("alice", "FLY", topic="t")
    with pytest.raises(ValueError, match="one of topic, group, transactional_id"):
        kafka.allow("alice", "READ", topic="t", group="g")
    with pytest.raises(KeyError):
        kafka.client("nobody")


def test_without_trustme_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with (
        pytest.raises(testing.BrokerStartError, match=r"pip install 'minikafka\[secure-testing\]'"),
        testing.secure_broker(),
    ):
        pass


def test_no_secret_is_in_the_log(kafka: SecureBroker) -> None:
    assert all(password not in kafka.log() for password in kafka.users.values())


def test_the_fixture(kafka_secure_broker: SecureBroker) -> None:
    topic = create(kafka_secure_broker, "of-the-fixture")
    kafka_secure_broker.allow("alice", "WRITE", topic=topic)
    assert produced(kafka_secure_broker.client("alice"), topic) == ""
