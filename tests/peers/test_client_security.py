"""Our client authenticates to Apache Kafka: TLS, PLAIN, SCRAM, in both APIs."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

import minikafka_client as mk
from minikafka_client.options import Mechanism
from minikafka_client.sasl import Plain, ScramSha256, ScramSha512
from minikafka_client.sync import AdminClient as BlockingAdminClient
from minikafka_client.sync import Reader, Writer
from tests.cli.conftest import CommandLine
from tests.peers.apache_kafka import OwnApacheKafka
from tests.spark.secured import every_way
from tests.spark.session import new_session

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]

CLIENT_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENERS = {"TLS": "SSL", "CLEAR": "SASL_PLAINTEXT", "SAFE": "SASL_SSL"}
JAAS = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def secured(
    jars: Path, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Generator[OwnApacheKafka]:
    """A node with a listener for each way."""
    folder = tmp_path_factory.mktemp("secured")
    certificate = authority.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + b"".join(each.bytes() for each in certificate.cert_chain_pems)
    (folder / "keystore.pem").write_bytes(pem)
    users = 'user_bob="bob secret" user_carol="c"'
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "listener.name.clear.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clear.plain.sasl.jaas.config": (
            f"{JAAS}.plain.PlainLoginModule required {users};"
        ),
        "listener.name.safe.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        **{
            f"listener.name.safe.{mechanism}.sasl.jaas.config": (
                f"{JAAS}.scram.ScramLoginModule required;"
            )
            for mechanism in ("scram-sha-256", "scram-sha-512")
        },
    }
    node = OwnApacheKafka(
        folder / "node", settings, listeners=LISTENERS, scram_users={"alice": "alice secret"}
    )
    with node:
        yield node


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


WAYS: list[tuple[str, Mechanism | None]] = [
    ("TLS", None),
    ("CLEAR", Plain("bob", "bob secret")),
    ("SAFE", ScramSha256("alice", "alice secret")),
    ("SAFE", ScramSha512("alice", "alice secret")),
]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
async def test_records_come_and_go(
    secured: OwnApacheKafka,
    trusting: ssl.SSLContext,
    name: str,
    listener: str,
    mechanism: Mechanism | None,
) -> None:
    bootstrap = secured.addresses[listener]
    options: dict[str, Any] = {
        "security_protocol": LISTENERS[listener],
        "ssl_context": trusting if LISTENERS[listener].endswith("SSL") else None,
        "sasl": mechanism,
    }
    values = [b"%d" % number for number in range(1_000)]
    async with mk.AdminClient(bootstrap, **options) as admin:
        await admin.create_topics([mk.NewTopic(name, 1)])
    async with mk.Producer(bootstrap, **options) as producer:
        await producer.send_many(name, values)
    received: list[bytes | None] = []
    async with mk.Consumer(
        bootstrap, group_id=name, auto_offset_reset="earliest", **options
    ) as consumer:
        await consumer.subscribe([name])
        with trio.fail_after(60):
            while len(received) < len(values):
                received += [record.value for record in await consumer.poll()]
    assert received == values

    def use_the_blocking_face() -> int:
        with Writer(bootstrap, **options) as writer:
            writer.send(name, b"more")
        with BlockingAdminClient(bootstrap, **options) as blocking:
            end = blocking.list_offsets({mk.TopicPartition(name, 0): -1})
        ranges = {partition: (0, found.offset) for partition, found in end.items()}
        with Reader(bootstrap, ranges, **options) as reader:
            return sum(len(run) for run in reader)

    assert await trio.to_thread.run_sync(use_the_blocking_face) == len(values) + 1


@pytest.mark.parametrize(
    ("listener", "mechanism", "text"),
    [
        ("CLEAR", Plain("bob", "wrong"), "Invalid username or password"),
        ("CLEAR", ScramSha256("alice", "alice secret"), "the broker has PLAIN"),
        ("SAFE", ScramSha256("alice", "wrong"), "SASL_AUTHENTICATION_FAILED"),
        ("SAFE", ScramSha512("nobody", "alice secret"), "SASL_AUTHENTICATION_FAILED"),
        ("SAFE", Plain("alice", "alice secret"), "the broker has SCRAM"),
    ],
)
async def test_failed_authentication_is_reported_immediately(
    secured: OwnApacheKafka,
    trusting: ssl.SSLContext,
    listener: str,
    mechanism: Mechanism,
    text: str,
) -> None:
    bootstrap = secured.addresses[listener]
    options: dict[str, Any] = {
        "ssl_context": trusting if listener == "SAFE" else None,
        "sasl": mechanism,
    }
    with trio.fail_after(60):
        async with mk.AdminClient(bootstrap, **options) as admin:
            with pytest.raises(mk.AuthenticationError, match=text) as caught:
                await admin.describe_cluster()
            assert "secret" not in str(caught.value)
        async with mk.Producer(bootstrap, **options) as producer:
            with pytest.raises(mk.AuthenticationError, match=text):
                await producer.send("topic", b"v")
        async with mk.Consumer(bootstrap, group_id="g", **options) as consumer:
            await consumer.subscribe(["topic"])
            with pytest.raises(mk.AuthenticationError, match=text):
                await consumer.poll()

    def blocking() -> None:
        with BlockingAdminClient(bootstrap, **options) as admin:
            admin.describe_cluster()

    with pytest.raises(mk.AuthenticationError, match=text):
        await trio.to_thread.run_sync(blocking)


@pytest.fixture
def properties(secured: OwnApacheKafka, authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    """What a Java client would be given for the listener with TLS and SCRAM."""
    issuer = pkcs12.PKCS12Certificate(
        x509.load_pem_x509_certificate(authority.cert_pem.bytes()), b"ca"
    )
    trusted = tmp_path / "trust.p12"
    encryption = serialization.BestAvailableEncryption(b"store secret")
    trusted.write_bytes(pkcs12.serialize_java_truststore([issuer], encryption))
    return {
        "bootstrap.servers": secured.addresses["SAFE"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (f'{CLIENT_SCRAM} required username="alice" password="alice secret";'),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": "store secret",
    }


def test_the_command_line_takes_the_properties_of_java(
    properties: dict[str, str], name: str, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    config.chmod(0o600)
    cli = CommandLine("localhost:1")
    del cli.environment["MINIKAFKA_BOOTSTRAP"]
    here = ("--config", str(config), "--bootstrap", properties["bootstrap.servers"])
    cli.ok("topic", "create", name, *here)
    cli.ok("produce", name, *here, stdin="one\ntwo\n")
    found = cli.ok("consume", name, *here, "--from-beginning", "--max-records", "2")
    assert found.split() == ["one", "two"]
    assert name in cli.ok("topic", "list", *here)
    config.write_text(config.read_text().replace("alice secret", "wrong secret"))
    line = cli.fails("topic", "list", *here)
    assert "SASL_AUTHENTICATION_FAILED" in line
    assert "wrong secret" not in line


@pytest.mark.slow
def test_spark_reads_and_writes_batches_and_streams(
    properties: dict[str, str], name: str, tmp_path: Path
) -> None:
    options = dict(properties)
    bootstrap = options.pop("bootstrap.servers")
    with BlockingAdminClient.from_config(properties) as admin:
        admin.create_topics([mk.NewTopic(name), mk.NewTopic(f"{name}-copy")])
    spark = new_session(tmp_path / "spark")
    try:
        found = every_way(spark, {"bootstrap.servers": bootstrap, **options}, name, tmp_path)
    finally:
        spark.stop()
    assert found == (["a", "b", "c"], ["a", "b", "c"])
