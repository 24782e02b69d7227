"""Every client with every mechanism of a SASL listener: right, wrong and no credentials.

The same broker has users from its settings (bob, for PLAIN), from its command line (alice) and from
the administrators' APIs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import confluent_kafka.admin
import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec

import minikafka_client as mk
from minikafka import testing
from minikafka_client.oauth import OAuthBearer, token_from_file
from minikafka_client.options import Mechanism
from minikafka_client.sasl import Plain, ScramSha256, ScramSha512, scram_upsertion
from minikafka_client.sync import AdminClient as BlockingAdminClient
from tests.interop.clients import aiokafka, kafka
from tests.kit.sasl import LISTENERS, PREFIX, plain_users
from tests.kit.waiting import SECONDS_MAX, work_until

FAR_MS = 4_000_000_000
USERS = [
    ("PLAIN", "bob", "bob secret"),
    ("PLAIN", "alice", "alice secret"),
    ("SCRAM-SHA-256", "alice", "alice secret"),
    ("SCRAM-SHA-512", "alice", "alice secret"),
]
WRONG = [
    ("PLAIN", "bob", "wrong secret"),
    ("SCRAM-SHA-256", "alice", "wrong secret"),
    ("SCRAM-SHA-512", "nobody", "alice secret"),
]
SIGNING_KEY = ec.generate_private_key(ec.SECP256R1())


def token(**claims: object) -> str:
    everything = {"sub": "carol", "iat": 1, "exp": FAR_MS, "aud": "kafka", **claims}
    return jwt.encode(everything, SIGNING_KEY, "ES256", headers={"kid": "k"})


confluent_admin: Any = confluent_kafka.admin
"""Its stubs do not say what it exports."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sasl")
    key = jwt.algorithms.ECAlgorithm.to_jwk(SIGNING_KEY.public_key(), as_dict=True)
    keys = {"keys": [{**key, "kid": "k"}]}
    (folder / "jwks.json").write_text(json.dumps(keys), encoding="utf-8")
    (folder / "alice.password").write_text("alice secret\n", encoding="utf-8")
    (folder / "alice.password").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def secured(folder: Path) -> Generator[testing.Broker]:
    settings: dict[str, testing.Setting] = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    users = plain_users(bob="bob secret").replace('"', '\\"')
    (folder / "broker.toml").write_text(f'"{PREFIX}plain.sasl.jaas.config" = "{users}"\n')
    (folder / "broker.toml").chmod(0o600)
    arguments = ["--user", "alice", "--password-file", str(folder / "alice.password")]
    arguments += ["--config", str(folder / "broker.toml")]
    with testing.broker(settings, listen=LISTENERS, arguments=arguments) as broker:
        yield broker


@pytest.fixture
def address(secured: testing.Broker) -> Generator[str]:
    """Where clients log in; after the test, the log must have none of the secrets."""
    yield secured.bootstrap_of("SASL_PLAINTEXT")
    log = secured.log()
    assert "secret" not in log
    assert "ey" + "J" not in log, "a token begins like this"
    assert "after a bug" not in log


# --- librdkafka ----------------------------------------------------------------------------------


def librdkafka(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize(("mechanism", "user", "password"), USERS)
def test_librdkafka_logs_in(address: str, mechanism: str, user: str, password: str) -> None:
    producer = confluent_kafka.Producer(librdkafka(address, mechanism, user, password))
    found = producer.list_topics(timeout=SECONDS_MAX)
    assert [f"{one.host}:{one.port}" for one in found.brokers.values()] == [address]


def hears(settings: dict[str, Any], text: str) -> str:
    """The error with this text that a producer reports, once it does."""
    errors: list[Any] = []
    producer = confluent_kafka.Producer({**settings, "error_cb": errors.append})

    def has_heard() -> bool:
        producer.poll(0.1)
        return any(text in str(error) for error in errors)

    work_until(has_heard, what=text)
    return "; ".join(map(str, errors))


@pytest.mark.parametrize(("mechanism", "user", "password"), WRONG)
def test_librdkafka_is_told_that_it_may_not(
    address: str, mechanism: str, user: str, password: str
) -> None:
    error = hears(librdkafka(address, mechanism, user, password), "Authentication failed")
    assert password not in error


def test_librdkafka_without_credentials_is_not_served(address: str) -> None:
    settings = {"bootstrap.servers": address, "security.protocol": "plaintext"}
    assert "Authentication failed" not in hears(settings, "brokers are down")


def oauth(address: str, value: str) -> dict[str, Any]:
    def fetch(_config: str) -> tuple[str, float]:
        return value, float(FAR_MS)

    return {
        "bootstrap.servers": address,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": fetch,
    }


def test_librdkafka_shows_a_token(address: str) -> None:
    producer = confluent_kafka.Producer(oauth(address, token()))
    work_until(lambda: producer.poll(0.1) == 0, what="a token")
    assert producer.list_topics(timeout=SECONDS_MAX).brokers


def test_librdkafka_shows_a_token_for_somebody_else(address: str) -> None:
    wrong = token(aud="other")
    assert wrong not in hears(oauth(address, wrong), "invalid_token")


def test_librdkafka_administers_users(address: str) -> None:
    scram = confluent_admin.ScramMechanism
    admin = confluent_admin.AdminClient(librdkafka(address, *USERS[0]))
    info = confluent_admin.ScramCredentialInfo(scram.SCRAM_SHA_512, 8192)
    change = confluent_admin.UserScramCredentialUpsertion("dave", info, b"dave secret")
    for done in admin.alter_user_scram_credentials([change]).values():
        assert done.result(SECONDS_MAX) is None
    found = admin.describe_user_scram_credentials(["dave"])["dave"].result(SECONDS_MAX)
    assert [(one.mechanism, one.iterations) for one in found.scram_credential_infos] == [
        (scram.SCRAM_SHA_512, 8192)
    ]
    dave = confluent_kafka.Producer(librdkafka(address, "SCRAM-SHA-512", "dave", "dave secret"))
    assert dave.list_topics(timeout=SECONDS_MAX).brokers
    removal = confluent_admin.UserScramCredentialDeletion("dave", scram.SCRAM_SHA_512)
    for done in admin.alter_user_scram_credentials([removal]).values():
        assert done.result(SECONDS_MAX) is None
    hears(librdkafka(address, "SCRAM-SHA-512", "dave", "dave secret"), "Authentication failed")


# --- kafka-python and aiokafka -------------------------------------------------------------------


def python_options(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize(("mechanism", "user", "password"), [*USERS, ("OAUTHBEARER", "", "")])
def test_kafka_python_logs_in(address: str, mechanism: str, user: str, password: str) -> None:
    options = python_options(address, mechanism, user, password)
    if mechanism == "OAUTHBEARER":
        for name in ("sasl_plain_username", "sasl_plain_password"):
            del options[name]
        abstract: Any = import_module("kafka.net.sasl.oauth").AbstractTokenProvider
        provider = type("Provider", (abstract,), {"token": lambda _: token()})
        options["sasl_oauth_token_provider"] = provider()
    admin = kafka.KafkaAdminClient(**options)
    assert admin.describe_cluster()["brokers"]
    admin.close()


@pytest.mark.parametrize(("mechanism", "user", "password"), WRONG)
def test_kafka_python_is_told_that_it_may_not(
    address: str, mechanism: str, user: str, password: str
) -> None:
    options = python_options(address, mechanism, user, password)
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaAdminClient(**options, bootstrap_timeout_ms=1000, api_version=(2, 6))


class _Token:
    async def token(self) -> str:
        return token()


@pytest.mark.parametrize(("mechanism", "user", "password"), [*USERS, ("OAUTHBEARER", "", "")])
def test_aiokafka_logs_in(address: str, mechanism: str, user: str, password: str) -> None:
    options = python_options(address, mechanism, user, password)
    if mechanism == "OAUTHBEARER":
        for name in ("sasl_plain_username", "sasl_plain_password"):
            del options[name]
        provider = type("Provider", (_Token, aiokafka.abc.AbstractTokenProvider), {})
        options["sasl_oauth_token_provider"] = provider()

    async def run() -> int:
        client = aiokafka.AIOKafkaClient(**options)
        await client.bootstrap()
        brokers = client.cluster.brokers()
        await client.close()
        return len(brokers)

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize(("mechanism", "user", "password"), WRONG)
def test_aiokafka_is_told_that_it_may_not(
    address: str, mechanism: str, user: str, password: str
) -> None:
    async def run() -> None:
        client = aiokafka.AIOKafkaClient(**python_options(address, mechanism, user, password))
        try:
            await client.bootstrap()
        finally:
            await client.close()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(run())


# --- ours ----------------------------------------------------------------------------------------


def mechanisms(folder: Path) -> list[Mechanism]:
    (folder / "token").write_text(token(), encoding="ascii")
    return [
        Plain("bob", "bob secret"),
        Plain("alice", "alice secret"),
        ScramSha256("alice", "alice secret"),
        ScramSha512("alice", "alice secret"),
        OAuthBearer(token),
        OAuthBearer(token_from_file(folder / "token"), authorization_id="carol"),
    ]


async def test_our_clients_log_in(address: str, folder: Path) -> None:
    for mechanism in mechanisms(folder):
        async with mk.AdminClient(address, sasl=mechanism) as admin:
            assert (await admin.describe_cluster()).brokers

    def block() -> None:
        for mechanism in mechanisms(folder):
            with BlockingAdminClient(address, sasl=mechanism) as admin:
                assert admin.describe_cluster().brokers

    await trio.to_thread.run_sync(block)


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        (Plain("bob", "wrong secret"), "Invalid username or password"),
        (Plain("bob", "bob secret", authorization_id="alice"), "authorization id"),
        (ScramSha512("bob", "bob secret"), "invalid credentials"),
        (OAuthBearer(lambda: "not-a-token"), "invalid_token"),
        (OAuthBearer(lambda: token(exp=2)), "invalid_token"),
    ],
)
async def test_our_clients_are_told_that_they_may_not(
    address: str, mechanism: Mechanism, text: str
) -> None:
    async with mk.AdminClient(address, sasl=mechanism) as admin:
        with pytest.raises(mk.AuthenticationError, match=text) as caught:
            await admin.describe_cluster()
    assert "secret" not in str(caught.value)


async def test_our_clients_administer_users(address: str) -> None:
    async with mk.AdminClient(address, sasl=Plain("bob", "bob secret")) as admin:
        await admin.alter_user_scram_credentials(
            [
                scram_upsertion("erin", "erin secret", "SCRAM-SHA-256"),
                scram_upsertion("erin", "erin secret", "SCRAM-SHA-512", iterations=5000),
                scram_upsertion("frank", "frank secret"),
            ]
        )
        found = await admin.describe_user_scram_credentials()
        assert found["erin"] == {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 5000}
        async with mk.AdminClient(address, sasl=ScramSha512("frank", "frank secret")) as frank:
            await frank.describe_cluster()
        await admin.alter_user_scram_credentials([mk.ScramDeletion("erin", "SCRAM-SHA-256")])
        assert await admin.describe_user_scram_credentials(["erin"]) == {
            "erin": {"SCRAM-SHA-512": 5000}
        }
        with pytest.raises(mk.BrokerError, match="RESOURCE_NOT_FOUND"):
            await admin.describe_user_scram_credentials(["nobody"])

    def block() -> None:
        with BlockingAdminClient(address, sasl=Plain("bob", "bob secret")) as blocking:
            blocking.alter_user_scram_credentials(
                [mk.ScramDeletion(user, "SCRAM-SHA-512") for user in ("erin", "frank")]
            )
            with pytest.raises(mk.SomeFailedError):
                blocking.describe_user_scram_credentials(["erin", "frank", "alice"])

    await trio.to_thread.run_sync(block)


def test_no_file_of_the_broker_and_no_process_shows_a_password(
    secured: testing.Broker, address: str
) -> None:
    with BlockingAdminClient(address, sasl=Plain("bob", "bob secret")) as admin:
        resource = mk.ConfigResource(mk.ConfigResourceType.BROKER, "1")
        entries = cast("Any", admin.describe_configs([resource]))[resource]
    assert entries["sasl.jaas.config"].is_sensitive
    assert not any("secret" in (one.value or "") for one in entries.values())
    for path in secured.data_dir.rglob("*"):
        if path.is_file():
            assert b"alice secret" not in path.read_bytes()
