"""The first requests on every connection: API versions, and authentication.

First ApiVersions (KIP-35, KIP-511), then, if there is a SASL mechanism, SaslHandshake and as many
SaslAuthenticate as the mechanism needs (KIP-43, KIP-152). Where sessions end
(``connections.max.reauth.ms``, KIP-368), the connection authenticates again before that, by the
same requests.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, TypeVar

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, sasl_authenticate, sasl_handshake
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.cluster import Address
from minikafka_client.core.versions import (
    LATEST_API_VERSIONS,
    BrokerVersions,
    broker_versions,
    negotiate,
)
from minikafka_client.errors import AuthenticationError, UnsupportedByBrokerError, broker_error
from minikafka_client.options import Mechanism

_Result = TypeVar("_Result")

CLIENT_SOFTWARE_NAME = "minikafka-client"
CLIENT_SOFTWARE_VERSION = "0.1.0"

RENEWAL_SHARE_MIN = 0.75
RENEWAL_SHARE_MAX = 0.85
"""How much of a session's lifetime is over when it is renewed. Kafka's clients take 0.1 more: but
whatever the broker still has to answer before comes off the rest."""


class Greeting(NamedTuple):
    """What the first requests found out; a session lifetime of 0 has no end."""

    versions: BrokerVersions
    session_lifetime_ms: int = 0


Requests = Generator[tuple[Request, int], Response, _Result]
"""Yields a request and its version, is sent the response, and returns something."""
Handshake = Requests[Greeting]


def shake_hands(address: Address, sasl: Mechanism | None = None) -> Handshake:
    """Ask the broker at ``address`` for its versions, and authenticate if there is a mechanism.

    Raises:
        UnsupportedByBrokerError: it does not answer ApiVersions; brokers do from Kafka 0.10 on.
        AuthenticationError: authentication of the client or of the broker failed.
        BrokerError: it refuses.
    """
    where = f"{address[0]}:{address[1]}"
    request = api_versions.Request(
        client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=CLIENT_SOFTWARE_VERSION
    )
    response = yield request, LATEST_API_VERSIONS
    assert isinstance(response, api_versions.Response)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        offered = broker_versions(response).get(api_versions.Request.API_KEY)
        response = yield request, min(offered.last, LATEST_API_VERSIONS) if offered else 0
        assert isinstance(response, api_versions.Response)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise UnsupportedByBrokerError(
            f"{where} does not say which versions it has; use a broker of Kafka 0.10 or newer"
        )
    if response.error_code:
        raise broker_error(response.error_code, f"ApiVersions of {where}")
    versions = broker_versions(response)
    if sasl is None:
        return Greeting(versions)
    return Greeting(versions, (yield from authenticate(address, sasl, versions)))


def authenticate(address: Address, sasl: Mechanism, versions: BrokerVersions) -> Requests[int]:
    """Log in, for the first time or again; returns the session lifetime in ms, 0 without an end.

    Raises:
        AuthenticationError: authentication of the client or of the broker failed.
    """
    where = f"{address[0]}:{address[1]}"
    handshake = sasl_handshake.Request(mechanism=sasl.name)
    # Version 0 is followed by bare tokens; from Kafka 1.0 on there is something better.
    answer = yield handshake, negotiate(sasl_handshake.Request, versions, version_min=1)
    assert isinstance(answer, sasl_handshake.Response)
    if answer.error_code:
        enabled = ", ".join(answer.mechanisms) or "none"
        refusal = broker_error(answer.error_code, f"{sasl.name} at {where}")
        raise AuthenticationError(f"{refusal}; the broker has {enabled}") from refusal
    version = negotiate(sasl_authenticate.Request, versions)
    conversation = sasl.authenticate(address[0])
    token = next(conversation)
    while True:
        response = yield sasl_authenticate.Request(auth_bytes=token), version
        assert isinstance(response, sasl_authenticate.Response)
        if response.error_code:
            refusal = broker_error(response.error_code, where, response.error_message)
            raise AuthenticationError(str(refusal)) from refusal
        try:
            token = conversation.send(bytes(response.auth_bytes))
        except StopIteration:
            return response.session_lifetime_ms
