"""Clients that are not ours, and ours, over TLS listeners of a broker that has several."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
import trio

import minikafka_client as mk
from minikafka import testing
from tests.interop.clients import aiokafka, confluent_kafka, kafka
from tests.kit.certificates import Certificates
from tests.kit.waiting import SECONDS_MAX, look_until, work_until

RECORDS = [b"%d" % number * 100 for number in range(300)]
LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def alice(certificates: Certificates) -> Path:
    return certificates.keystore("alice", "alice.test", common_name="alice")


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Generator[testing.Broker]:
    """A broker with a plain listener, an encrypted one, and one that asks for certificates."""
    settings: dict[str, testing.Setting] = {
        **certificates.server_settings(),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.location": str(certificates.trusted),
    }
    with testing.broker(settings, listen=LISTENERS) as broker:
        yield broker


@pytest.fixture
def address(secured: testing.Broker) -> str:
    return secured.bootstrap_of("SSL")


def test_librdkafka_over_tls(address: str, certificates: Certificates) -> None:
    security = {
        "bootstrap.servers": address,
        "security.protocol": "ssl",
        "ssl.ca.location": str(certificates.trusted),
    }
    producer = confluent_kafka.Producer(security)
    for value in RECORDS:
        producer.produce("librdkafka", value)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = confluent_kafka.Consumer(
        {**security, "group.id": "librdkafka", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["librdkafka"])
    received: list[bytes] = []

    def all_are_here() -> bool:
        for message in consumer.consume(100, timeout=0.5):
            assert message.error() is None
            received.append(cast("bytes", message.value()))
        return len(received) >= len(RECORDS)

    work_until(all_are_here, what="all records")
    consumer.close()
    assert received == RECORDS


def test_librdkafka_shows_a_certificate(
    secured: testing.Broker, certificates: Certificates, alice: Path
) -> None:
    """All brokers that Metadata names are on the listener that was asked."""
    security = {
        "bootstrap.servers": secured.bootstrap_of("MUTUAL"),
        "security.protocol": "ssl",
        "ssl.ca.location": str(certificates.trusted),
        "ssl.certificate.location": str(alice),
        "ssl.key.location": str(alice),
    }
    found = confluent_kafka.Producer(security).list_topics(timeout=SECONDS_MAX)
    assert [f"{one.host}:{one.port}" for one in found.brokers.values()] == [
        secured.bootstrap_of("MUTUAL")
    ]


def test_librdkafka_without_a_certificate_is_told_so(
    secured: testing.Broker, certificates: Certificates
) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": secured.bootstrap_of("MUTUAL"),
            "security.protocol": "ssl",
            "ssl.ca.location": str(certificates.trusted),
            "error_cb": errors.append,
        }
    )

    def has_heard() -> bool:
        producer.poll(0.1)
        return bool(errors)

    work_until(has_heard, what="an error")
    assert "SSL" in str(errors[0])
    look_until(
        lambda: "peer did not return a certificate" in secured.log(), what="a line in the log"
    )


def test_kafka_python_over_tls(address: str, certificates: Certificates) -> None:
    security = {
        "bootstrap_servers": address,
        "security_protocol": "SSL",
        "ssl_cafile": str(certificates.trusted),
    }
    producer = kafka.KafkaProducer(**security)
    for value in RECORDS:
        producer.send("kafka-python", value)
    producer.flush(SECONDS_MAX)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "kafka-python", **security, auto_offset_reset="earliest", group_id="kafka-python"
    )
    received: list[bytes] = []

    def all_are_here() -> bool:
        for records in consumer.poll(timeout_ms=500).values():
            received.extend(one.value for one in records)
        return len(received) >= len(RECORDS)

    work_until(all_are_here, what="all records")
    consumer.close()
    assert received == RECORDS


def test_aiokafka_over_tls(address: str, certificates: Certificates) -> None:
    async def exchange() -> list[bytes]:
        security: dict[str, Any] = {
            "bootstrap_servers": address,
            "security_protocol": "SSL",
            "ssl_context": certificates.client_context(),
        }
        async with aiokafka.AIOKafkaProducer(**security) as producer:
            for value in RECORDS:
                await producer.send("aiokafka", value)
        consumer = aiokafka.AIOKafkaConsumer(
            "aiokafka", **security, auto_offset_reset="earliest", group_id="aiokafka"
        )
        received: list[bytes] = []
        async with consumer:
            while len(received) < len(RECORDS):
                found = await asyncio.wait_for(consumer.getmany(timeout_ms=500), SECONDS_MAX)
                for records in found.values():
                    received += [one.value for one in records]
        return received

    assert asyncio.run(exchange()) == RECORDS


async def test_our_client_over_tls_with_large_records(
    address: str, certificates: Certificates
) -> None:
    context = certificates.client_context()
    large = [bytes([number]) * 900_000 for number in range(20)]
    async with mk.Producer(address, ssl_context=context) as producer:
        await producer.send_many("large", large)
    received: list[bytes | None] = []
    async with mk.Consumer(
        address, ssl_context=context, group_id="large", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe(["large"])
        with trio.fail_after(SECONDS_MAX):
            while len(received) < len(large):
                received += [one.value for one in await consumer.poll()]
    assert received == large


async def test_our_client_shows_a_certificate(
    secured: testing.Broker, certificates: Certificates, alice: Path
) -> None:
    context = certificates.client_context(alice)
    async with mk.AdminClient(secured.bootstrap_of("MUTUAL"), ssl_context=context) as admin:
        found = await admin.describe_cluster()
    assert [f"{one.host}:{one.port}" for one in found.brokers] == [secured.bootstrap_of("MUTUAL")]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_of_tls_are_spoken(
    address: str, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = certificates.client_context()
    context.minimum_version = context.maximum_version = version
    async with mk.AdminClient(address, ssl_context=context) as admin:
        assert (await admin.describe_cluster()).brokers
