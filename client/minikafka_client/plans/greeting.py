"""What is said first on every connection: which versions there are, and who we are.

First ApiVersions (KIP-35, KIP-511), then, if there is a SASL mechanism, SaslHandshake and as many
SaslAuthenticate as the mechanism needs (KIP-43, KIP-152). A broker may demand another proof after a
while (``connections.max.reauth.ms``, KIP-368): it closes the connection then, and a new one is
opened.
"""

from __future__ import annotations

from collections.abc import Generator

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from minikafka.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
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

CLIENT_SOFTWARE_NAME = "minikafka-client"
CLIENT_SOFTWARE_VERSION = "0.1.0"

Greeting = Generator[tuple[Request, int], Response, BrokerVersions]
"""Yields a request and its version, is sent the response, and returns the broker's versions."""


def greet(address: Address, sasl: Mechanism | None = None) -> Greeting:
    """Learn the versions of the broker at ``address``, and authenticate if there is a mechanism.

    Raises:
        UnsupportedByBrokerError: it does not say; brokers do from Kafka 0.10 on.
        AuthenticationError: it does not believe us, or we do not believe it.
        BrokerError: it refuses.
    """
    where = f"{address[0]}:{address[1]}"
    request = ApiVersionsRequest(
        client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=CLIENT_SOFTWARE_VERSION
    )
    response = yield request, LATEST_API_VERSIONS
    assert isinstance(response, ApiVersionsResponse)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        offered = broker_versions(response).get(ApiVersionsRequest.API_KEY)
        response = yield request, min(offered.last, LATEST_API_VERSIONS) if offered else 0
        assert isinstance(response, ApiVersionsResponse)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise UnsupportedByBrokerError(
            f"{where} does not say which versions it has; use a broker of Kafka 0.10 or newer"
        )
    if response.error_code:
        raise broker_error(response.error_code, f"ApiVersions of {where}")
    versions = broker_versions(response)
    if sasl is not None:
        yield from _authenticate(address, sasl, versions)
    return versions


def _authenticate(
    address: Address, sasl: Mechanism, versions: BrokerVersions
) -> Generator[tuple[Request, int], Response, None]:
    where = f"{address[0]}:{address[1]}"
    handshake = SaslHandshakeRequest(mechanism=sasl.name)
    # Version 0 is followed by bare tokens; from Kafka 1.0 on there is something better.
    answer = yield handshake, negotiate(SaslHandshakeRequest, versions, version_min=1)
    assert isinstance(answer, SaslHandshakeResponse)
    if answer.error_code:
        enabled = ", ".join(answer.mechanisms) or "none"
        refusal = broker_error(answer.error_code, f"{sasl.name} at {where}")
        raise AuthenticationError(f"{refusal}; the broker has {enabled}") from refusal
    version = negotiate(SaslAuthenticateRequest, versions)
    conversation = sasl.authenticate(address[0])
    token = next(conversation)
    while True:
        response = yield SaslAuthenticateRequest(auth_bytes=token), version
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            refusal = broker_error(response.error_code, where, response.error_message)
            raise AuthenticationError(str(refusal)) from refusal
        try:
            token = conversation.send(bytes(response.auth_bytes))
        except StopIteration:
            return
