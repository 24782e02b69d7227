"""Java clients and Kafka's own tool on a SASL listener: every mechanism, and sessions that end."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka import testing
from minikafka_client.sasl import ScramSha256
from minikafka_client.sync import AdminClient
from tests.interop.clients import Outgoing
from tests.kit.sasl import JAAS, LISTENERS, PREFIX, UNSECURED, plain_users
from tests.peers.java_clients import JavaClients, JavaError
from tests.peers.test_java_tools import run_tool

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]

SESSION_MS = 2000
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Generator[testing.Broker]:
    password = tmp_path_factory.mktemp("java") / "password"
    password.write_text("alice secret", encoding="utf-8")
    password.chmod(0o600)
    settings: dict[str, testing.Setting] = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "connections.max.reauth.ms": SESSION_MS,
        f"{PREFIX}plain.sasl.jaas.config": plain_users(bob="open"),
        f"{PREFIX}oauthbearer.sasl.server.callback.handler.class": UNSECURED,
    }
    words = ["--user", "alice", "--password-file", str(password)]
    with testing.broker(settings, listen=LISTENERS, arguments=words) as broker:
        yield broker


def by_password(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = f"{JAAS}.{MODULES[mechanism]}"
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{module} required username="{user}" password="{password}";',
    }


BY_TOKEN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_jaas_config": (
        f'{JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="carol";'
    ),
}


@pytest.mark.parametrize(
    "security",
    [
        by_password("PLAIN", "bob", "open"),
        by_password("PLAIN", "alice", "alice secret"),
        by_password("SCRAM-SHA-256", "alice", "alice secret"),
        by_password("SCRAM-SHA-512", "alice", "alice secret"),
        BY_TOKEN,
    ],
    ids=lambda security: security["sasl_mechanism"],
)
def test_a_java_producer_logs_in(
    secured: testing.Broker, java: JavaClients, security: dict[str, str]
) -> None:
    address = secured.bootstrap_of("SASL_PLAINTEXT")
    placed = java.produce(address, "java", [Outgoing(b"x")], **security)
    assert len(placed) == 1


@pytest.mark.parametrize(
    "security",
    [
        by_password("PLAIN", "bob", "wrong"),
        by_password("SCRAM-SHA-256", "alice", "wrong"),
        by_password("SCRAM-SHA-512", "nobody", "alice secret"),
    ],
    ids=lambda security: security["sasl_mechanism"],
)
def test_a_java_producer_is_told_that_it_may_not(
    secured: testing.Broker, java: JavaClients, security: dict[str, str]
) -> None:
    address = secured.bootstrap_of("SASL_PLAINTEXT")
    with pytest.raises(JavaError, match="Authentication failed"):
        java.produce(address, "java", [Outgoing(b"x")], **security)


def test_a_java_consumer_renews_its_session(secured: testing.Broker, java: JavaClients) -> None:
    """It goes on reading long after its first session has ended, on the same connections."""
    address = secured.bootstrap_of("SASL_PLAINTEXT")
    security = by_password("SCRAM-SHA-512", "alice", "alice secret")
    with java.consumer(
        "sessions", address, topics=["renewed"], group_id="renewed", **security
    ) as consumer:
        for round_ in range(3):
            java.produce(address, "renewed", [Outgoing(b"%d" % round_)], **security)
            for _ in range(SESSION_MS // 1000):
                consumer.poll(timeout_ms=1000)
        consumer.poll_until(3)
    assert "the session has ended" not in secured.log()


def test_kafka_configs_changes_users(secured: testing.Broker, jars: Path) -> None:
    here = ("--bootstrap-server", secured.bootstrap_of("PLAINTEXT"))
    user = (*here, "--entity-type", "users", "--entity-name", "erin")
    tool = "kafka.admin.ConfigCommand"
    added = "SCRAM-SHA-256=[iterations=8192,password=erin-secret]"
    run_tool(tool, *user, "--alter", "--add-config", added)
    shown = run_tool(tool, *here, "--entity-type", "users", "--describe")
    assert (
        "SCRAM credential configs for user-principal 'erin' are SCRAM-SHA-256=iterations=8192"
        in (shown)
    )
    with AdminClient(
        secured.bootstrap_of("SASL_PLAINTEXT"), sasl=ScramSha256("erin", "erin-secret")
    ) as erin:
        assert erin.describe_cluster().brokers
    run_tool(tool, *user, "--alter", "--delete-config", "SCRAM-SHA-256")
    with AdminClient(secured.bootstrap_of("PLAINTEXT")) as admin:
        assert "erin" not in admin.describe_user_scram_credentials()
