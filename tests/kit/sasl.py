"""SASL listeners for tests, and logging in message by message."""

from __future__ import annotations

from typing import Final

from minikafka.broker.settings.listeners import Listener
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import sasl_authenticate, sasl_handshake
from minikafka.security.protocols import SecurityProtocol
from tests.kit.wire import WireClient

LISTENER: Final = Listener("SASL_PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT)
LISTENERS: Final = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
PREFIX: Final = "listener.name.sasl_plaintext."
JAAS: Final = "org.apache.kafka.common.security"
UNSECURED: Final = (
    f"{JAAS}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
"""Believes every token."""


def plain_users(**passwords: str) -> str:
    """The JAAS configuration with users of PLAIN."""
    options = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return f"{JAAS}.plain.PlainLoginModule required {options};"


def plain_settings(**passwords: str) -> tuple[str, ...]:
    """Settings, ``NAME=VALUE`` each, of a broker with a listener where these users log in."""
    return (
        "listeners=PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
        "sasl.enabled.mechanisms=PLAIN",
        "connection.failed.authentication.delay.ms=0",
        f"{PREFIX}plain.sasl.jaas.config={plain_users(**passwords)}",
    )


async def choose(client: WireClient, mechanism: str = "PLAIN") -> sasl_handshake.Response:
    """SaslHandshake."""
    request = sasl_handshake.Request(mechanism=mechanism)
    return await client.ask(request, 1, sasl_handshake.Response)


async def show(client: WireClient, token: bytes) -> sasl_authenticate.Response:
    """SaslAuthenticate."""
    request = sasl_authenticate.Request(auth_bytes=token)
    return await client.ask(request, 2, sasl_authenticate.Response)


async def log_in(client: WireClient, user: str, password: str) -> sasl_authenticate.Response:
    """Log in with PLAIN, which must succeed."""
    assert (await choose(client)).error_code == ErrorCode.NONE
    answer = await show(client, f"\0{user}\0{password}".encode())
    assert answer.error_code == ErrorCode.NONE, answer
    return answer
