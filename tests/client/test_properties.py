"""Kafka's own configuration names: what becomes of each, and programs that bring them along."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trustme

from minikafka_client import AdminClient, Consumer, NewTopic, Producer, ShareConsumer
from minikafka_client.consumer_options import ConsumerConfig
from minikafka_client.options import split_options
from minikafka_client.producer_options import ProducerConfig
from minikafka_client.properties import (
    REFUSED,
    WITHOUT_EFFECT,
    admin_options,
    consumer_options,
    producer_options,
)
from minikafka_client.sasl import Plain, ScramSha512
from minikafka_client.security_properties import SECURITY_PROPERTIES
from minikafka_client.serializers import Json

SERVERS = {"bootstrap.servers": "localhost:9092"}


def producer(**given: object) -> dict[str, Any]:
    """The options of properties, whose names have underscores here."""
    return dict(producer_options({**SERVERS, **dotted(given)}, "Producer")[1])


def consumer(**given: object) -> dict[str, Any]:
    return dict(consumer_options({**SERVERS, **dotted(given)}, "Consumer")[1])


def dotted(given: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in given.items()}


# --- programs ------------------------------------------------------------------------------------


COMMON: dict[str, object] = {
    "client.id": "orders",
    "security.protocol": "PLAINTEXT",
    "socket.timeout.ms": 20_000,
    "socket.keepalive.enable": True,
    "broker.address.family": "v4",
    "metadata.max.age.ms": "60000",
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "reconnect.backoff.ms": 20,
    "debug": "broker,topic",
    "statistics.interval.ms": 0,
}
FOR_PRODUCERS: dict[str, object] = {
    **COMMON,
    "acks": "all",
    "enable.idempotence": "true",
    "compression.codec": "lz4",
    "compression.level": -1,
    "queue.buffering.max.ms": "1",
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 1_024,
    "batch.size": 100_000,
    "message.max.bytes": 500_000,
    "message.timeout.ms": 30_000,
    "max.in.flight": 5,
    "retries": 2_147_483_647,
    "partitioner": "murmur2_random",
    "transactional.id": None,
}
FOR_CONSUMERS: dict[str, object] = {
    **COMMON,
    "auto.offset.reset": "smallest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": True,
    "enable.partition.eof": False,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky,range",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
    "max.poll.interval.ms": 60_000,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 4_096,
    "check.crcs": "true",
    "client.rack": "",
    "allow.auto.create.topics": 0,
}


async def test_the_dictionaries_of_a_program_for_confluent_kafka_run_unchanged(
    bootstrap: str, new_name: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = new_name(), new_name()
    servers = {"bootstrap.servers": bootstrap}
    common = {**servers, **COMMON}
    for_producers = {**servers, **FOR_PRODUCERS}
    for_consumers = {**servers, **FOR_CONSUMERS, "group.id": group}
    confluent_kafka.Producer({**for_producers, "transactional.id": ""})  # librdkafka agrees
    confluent_kafka.Consumer({**for_consumers, "partition.assignment.strategy": "range"}).close()

    async with AdminClient.from_config(common) as admin:
        await admin.create_topics([NewTopic(topic, num_partitions=1)])
    with caplog.at_level(logging.INFO, "minikafka_client.properties"):
        async with Producer.from_config(for_producers) as sender:
            assert (await sender.send_and_wait(topic, b"value", b"key")).offset == 0
    (line,) = [record for record in caplog.records if record.name.endswith("properties")]
    assert line.getMessage() == (
        "Producer: these properties have no effect: broker.address.family, debug, "
        "queue.buffering.max.messages, retries, socket.keepalive.enable, statistics.interval.ms"
    )
    async with Consumer.from_config(for_consumers) as reader:
        await reader.subscribe([topic])
        (record,) = await reader.poll()
        assert (record.key, record.value) == (b"key", b"value")
        await reader.commit()
        (partition,) = reader.assignment
        committed = (await reader.committed([partition]))[partition]
        assert committed is not None
        assert committed.offset == 1


async def test_serializers_are_given_beside_the_dictionary(
    bootstrap: str, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    config = {"bootstrap.servers": [bootstrap], "auto.offset.reset": "earliest"}
    async with AdminClient.from_config(config) as admin:
        await admin.create_topics([NewTopic(topic)])
    async with Producer[bytes, object].from_config(config, value_serializer=Json()) as sender:
        await sender.send_and_wait(topic, ["a", 1])
    async with Consumer.from_config(
        {**config, "group.id": new_name()}, value_deserializer=Json()
    ) as reader:
        await reader.subscribe([topic])
        assert [record.value for record in await reader.poll()] == [["a", 1]]


# --- names and values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"acks": "-1"}, {"acks": "all"}),
        ({"acks": -1}, {"acks": "all"}),
        ({"acks": 1}, {"acks": 1}),
        ({"request_required_acks": "0"}, {"acks": 0}),
        ({"enable_idempotence": "False"}, {"enable_idempotence": False}),
        ({"enable_idempotence": True}, {"enable_idempotence": True}),
        ({"linger_ms": 0.5}, {"linger_ms": 0.5}),
        ({"buffer_memory": "1000"}, {"buffer_memory": 1000}),
        ({"queue_buffering_max_kbytes": 2}, {"buffer_memory": 2048}),
        ({"compression_type": "zstd", "compression_zstd_level": 3}, None),
        ({"compression_type": "lz4", "compression_zstd_level": 3}, {"compression_type": "lz4"}),
        ({"compression_level": "-1"}, {"compression_level": None}),
        ({"max_in_flight_requests_per_connection": 2.0}, None),
        ({"partitioner": "murmur2_random"}, {"partitioner": None}),
        ({"transactional_id": "t", "transaction_timeout_ms": "9"}, None),
        ({"linger_ms": "5", "queue_buffering_max_ms": 5}, {"linger_ms": 5}),
        ({"metadata_broker_list": "localhost:9092"}, {}),
        ({"receive_message_max_bytes": 5000}, {"response_size_bytes_max": 5000}),
        ({"linger_ms": None}, {}),
    ],
)
def test_properties_become_options_of_a_producer(
    given: dict[str, object], options: dict[str, object] | None
) -> None:
    found = producer(**given)
    split_options(found, ProducerConfig, "Producer")
    if options is not None:
        assert found == options


def test_the_level_of_the_chosen_codec_is_used() -> None:
    found = producer(compression_type="zstd", compression_zstd_level=3, compression_gzip_level=9)
    assert found == {"compression_type": "zstd", "compression_level": 3}


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"auto_offset_reset": "beginning"}, {"auto_offset_reset": "earliest"}),
        ({"auto_offset_reset": "largest"}, {"auto_offset_reset": "latest"}),
        ({"auto_offset_reset": "error"}, {"auto_offset_reset": "none"}),
        ({"isolation_level": "READ_COMMITTED"}, {"isolation_level": "read_committed"}),
        (
            {"partition_assignment_strategy": "roundrobin, sticky"},
            {"partition_assignment_strategy": ["roundrobin", "sticky"]},
        ),
        (
            {
                "partition_assignment_strategy": [
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
                ]
            },
            {"partition_assignment_strategy": ["cooperative-sticky"]},
        ),
        ({"client_rack": "a", "group_instance_id": "b"}, None),
        ({"group_protocol": "CLASSIC"}, {"group_protocol": "classic"}),
        (
            {"group_protocol": "consumer", "group_remote_assignor": "range"},
            {"group_protocol": "consumer", "group_remote_assignor": "range"},
        ),
    ],
)
def test_properties_become_options_of_a_consumer(
    given: dict[str, object], options: dict[str, object] | None
) -> None:
    found = consumer(**given)
    split_options(found, ConsumerConfig, "Consumer")
    if options is not None:
        assert found == options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"acks": "2"}, "Producer: acks='2'; it is all, -1, 0 or 1"),
        ({"linger.ms": "soon"}, "linger.ms='soon'; it is a number"),
        ({"batch.size": 1.5}, "batch.size=1.5; it is a whole number"),
        ({"batch.size": True}, "it is a number"),
        ({"enable.idempotence": "yes"}, "it is true or false"),
        ({"message.timeout.ms": 0}, "it is above 0"),
        ({"partitioner": "fnv1a"}, "it is murmur2_random"),
        ({"linger.ms": 5, "queue.buffering.max.ms": 6}, "contradict each other"),
        ({"bootstrap.servers": ""}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": 5}, "it is a text, or a list"),
        ({"on_delivery": print}, "await (or ask) the handle that send returns"),
        ({"key.serializer": "StringSerializer"}, "pass key_serializer="),
        ({"partitioner.ignore.keys": "true"}, "pass partitioner="),
        ({"ssl.cipher.suites": "x"}, "pass ssl_context="),
        ({"sasl.kerberos.keytab": "x"}, "pass sasl="),
        ({"security.protocol": "TLS"}, "security.protocol='TLS'; it is one of PLAINTEXT"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"},
            "it is one of PLAIN",
        ),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}, "needs a user"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "files cannot be used"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "BCFKS"}, "it is PEM or PKCS12"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "PKCS12"}, "without a file"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "one or more of TLSv1.2"),
        ({"security.protocol": "SSL", "ssl.key.pem": "key"}, "a key without a certificate"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        Producer.from_config({**SERVERS, **given})
    assert str(caught.value).startswith("Producer: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"auto.offset.reset": "sometimes"}, "'earliest', 'latest' or 'none'"),
        ({"isolation.level": "serializable"}, "'read_uncommitted' or 'read_committed'"),
        ({"partition.assignment.strategy": "best"}, "one or more of range"),
        ({"partition.assignment.strategy": 5}, "one or more of range"),
        ({"group.protocol": "streams"}, "'classic' or 'consumer'"),
        (
            {"group.protocol": "consumer", "session.timeout.ms": 45_000},
            "session_timeout_ms=45000 is an option of the classic protocol",
        ),
        (
            {"group.protocol": "consumer", "heartbeat.interval.ms": 3_000},
            "heartbeat_interval_ms=3000 is an option of the classic protocol",
        ),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
            "partition_assignment_strategy=['range'] is an option of the classic protocol",
        ),
        ({"group.remote.assignor": "uniform"}, "needs group_protocol='consumer'"),
        ({"enable.auto.offset.store": False}, "set enable.auto.commit to false"),
    ],
)
def test_a_value_that_a_consumer_cannot_have_is_refused(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        Consumer.from_config({**SERVERS, **given})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Producer.from_config({**SERVERS, "linger": 5}),
            r"Producer: there is no property 'linger'; did you mean 'linger\.ms'\?",
        ),
        (
            lambda: Consumer.from_config({**SERVERS, "auto_offset_reset": "latest"}),
            r"Consumer: there is no property .*; did you mean 'auto\.offset\.reset'\?",
        ),
        (
            lambda: AdminClient.from_config({**SERVERS, "xyzzy": 1}),
            r"AdminClient: there is no property 'xyzzy'$",
        ),
        (
            lambda: Producer("localhost:9092", compression="lz4"),  # type: ignore[call-arg]  # on purpose
            r"Producer\(\) has no option 'compression'; did you mean 'compression_\w+'\?",
        ),
        (
            lambda: Consumer("localhost:9092", groupid="g"),  # type: ignore[call-arg]  # on purpose
            r"Consumer\(\) has no option 'groupid'; did you mean 'group_id'\?",
        ),
        (
            lambda: AdminClient("localhost:9092", client="c"),  # type: ignore[call-arg]  # on purpose
            r"AdminClient\(\) has no option 'client'; did you mean 'client_id'\?",
        ),
    ],
)
def test_an_unknown_option_is_an_error_of_the_class_that_was_called(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_the_name_of_a_subclass_is_in_the_message() -> None:
    class Mine(Producer[bytes, bytes]):
        pass

    with pytest.raises(TypeError, match=r"^Mine\(\) has no option"):
        Mine("localhost:9092", compresion_type="lz4")  # type: ignore[call-arg]  # on purpose


def test_one_dictionary_may_be_for_all_clients() -> None:
    everything = {**SERVERS, "group.id": "g", "linger.ms": 5, "client.id": "c"}
    assert producer_options(everything, "Producer")[1] == {"linger_ms": 5, "client_id": "c"}
    assert consumer_options(everything, "Consumer")[1] == {"group_id": "g", "client_id": "c"}
    assert admin_options(everything, "AdminClient")[1] == {"client_id": "c"}


def test_no_property_is_in_two_groups() -> None:
    assert not WITHOUT_EFFECT & REFUSED.keys()
    assert not (WITHOUT_EFFECT | REFUSED.keys()) & SECURITY_PROPERTIES
    for name in WITHOUT_EFFECT:
        given = {**SERVERS, name: "1"}
        assert producer_options(given, "Producer")[1] == {}
        assert consumer_options(given, "Consumer")[1] == {}


# --- security ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": 'se"cret'},
        {"sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": 'se"cret'},
        {
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'x.Login required username="alice" password="se\\"cret";',
        },
    ],
)
def test_a_user_is_named_in_each_of_kafkas_ways(given: dict[str, object]) -> None:
    _, options = admin_options(
        {**SERVERS, "security.protocol": "sasl_plaintext", **given}, "AdminClient"
    )
    sasl = options.get("sasl")
    assert isinstance(sasl, Plain)
    assert next(sasl.authenticate("host")) == b'\0alice\0se"cret'


def test_a_mechanism_is_chosen_by_its_name_and_its_password_stays_out_of_messages() -> None:
    given = {
        **SERVERS,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    _, options = admin_options(given, "AdminClient")
    assert isinstance(options.get("sasl"), ScramSha512)
    with pytest.raises(ValueError, match="AdminClient: ") as caught:
        admin_options({**given, "sasl.mechanism": "SCRAM"}, "AdminClient")
    assert "secret" not in str(caught.value)


def test_credentials_for_a_protocol_without_them_are_said_to_have_no_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "minikafka_client.properties"):
        _, options = admin_options({**SERVERS, "sasl.username": "alice"}, "AdminClient")
    assert "sasl.username" in caplog.text
    assert options == {}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("of_java", [False, True])
def test_certificates_are_files_or_texts(tmp_path: Path, *, as_text: bool, of_java: bool) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("client.example")
    ca, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    certificate, both = tmp_path / "certificate.pem", tmp_path / "both.pem"
    authority.cert_pem.write_to_path(ca)
    own.private_key_pem.write_to_path(key)
    own.cert_chain_pems[0].write_to_path(certificate)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    variants: dict[tuple[bool, bool], dict[str, object]] = {
        (False, False): {
            "ssl.ca.location": ca,
            "ssl.certificate.location": certificate,
            "ssl.key.location": key,
        },
        (True, False): {
            "ssl.ca.pem": ca.read_text(),
            "ssl.certificate.pem": certificate.read_text(),
            "ssl.key.pem": key.read_text(),
        },
        (False, True): {"ssl.truststore.location": ca, "ssl.keystore.location": both},
        (True, True): {
            "ssl.truststore.certificates": ca.read_text(),
            "ssl.keystore.certificate.chain": certificate.read_text(),
            "ssl.keystore.key": key.read_text(),
        },
    }
    config: dict[str, object] = {**SERVERS, "security.protocol": "SSL"}
    config |= variants[as_text, of_java]
    _, options = admin_options(config, "AdminClient")
    context = options.get("ssl_context")
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("given", "checks_name", "mode"),
    [
        ({}, True, ssl.CERT_REQUIRED),
        ({"ssl.endpoint.identification.algorithm": "none"}, False, ssl.CERT_REQUIRED),
        ({"ssl.endpoint.identification.algorithm": ""}, False, ssl.CERT_REQUIRED),
        ({"enable.ssl.certificate.verification": False}, False, ssl.CERT_NONE),
    ],
)
def test_how_far_a_broker_is_verified(
    given: dict[str, object], mode: ssl.VerifyMode, *, checks_name: bool
) -> None:
    _, options = admin_options({**SERVERS, "security.protocol": "SSL", **given}, "AdminClient")
    context = options.get("ssl_context")
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (checks_name, mode)


def test_versions_of_tls_are_limited() -> None:
    config = {**SERVERS, "security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.3"}
    _, options = admin_options(config, "AdminClient")
    context = options.get("ssl_context")
    assert context is not None
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3


def test_what_share_consumers_cannot_have_is_refused_as_in_kafka() -> None:
    config = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
    with pytest.raises(ValueError, match=r"auto\.offset\.reset, isolation\.level cannot be"):
        ShareConsumer.from_config(
            {**config, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        )
    with pytest.raises(ValueError, match=r"group\.id is missing"):
        ShareConsumer.from_config({"bootstrap.servers": "localhost:9092"})
    with pytest.raises(TypeError, match=r"'share.mode'"):
        ShareConsumer.from_config({**config, "share.mode": "explicit"})
