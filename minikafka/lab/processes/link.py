"""How the lab connects to a cluster that may ask for TLS and SASL.

A cluster's *properties* are those of a ``client.properties`` file, by Kafka's names. They are text,
so they can be handed to a client in another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final, TypeVar, cast

from minikafka.protocol.schema import Request, Response
from minikafka_client.core.cluster import parse_bootstrap
from minikafka_client.errors import AuthenticationError, KafkaError
from minikafka_client.options import ConnectionConfig, ConnectionOptions
from minikafka_client.properties import admin_options
from minikafka_client.sync.connection import BlockingConnection

_OWNER: Final = "minikafka lab"
_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"

_Answer = TypeVar("_Answer", bound=Response)


class LinkError(ConnectionError):
    """A broker cannot be reached, or does not answer."""


class RefusedError(LinkError):
    """A broker does not accept who we say we are, or we do not accept its certificate."""


def connection_options(properties: Mapping[str, str]) -> ConnectionOptions:
    """Options for any client; what a scenario sets itself comes before them.

    Raises:
        TypeError: a property is unknown.
        ValueError: a value is malformed, or a file that it names cannot be read.
    """
    if not properties:
        return {}
    options = admin_options({**properties, _SERVERS: "any:1"}, _OWNER)[1]
    options.pop("client_id", None)  # clients are told from each other by it
    return options


def without_tls(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties for a client of a proxy that speaks TLS for it; SASL it still speaks itself."""
    if not properties:
        return {}
    protocol = properties.get(_PROTOCOL, "PLAINTEXT").upper()
    return {**properties, _PROTOCOL: protocol.replace("SSL", "PLAINTEXT")}


def ask(
    place: str,
    request: Request,
    version: int,
    kind: type[_Answer],
    *,
    options: ConnectionOptions,
    timeout_s: float,
) -> _Answer:
    """Ask one broker on a connection of its own.

    Args:
        place: ``HOST:PORT``.
        request: what to ask, in this version.
        version: of request and response.
        kind: of the response.
        options: of the connection.
        timeout_s: for connecting, and once more for the answer.

    Raises:
        RefusedError: authentication failed.
        LinkError: no answer came.
    """
    (address,) = parse_bootstrap(place)
    timeout_ms = int(timeout_s * 1000)
    times: ConnectionOptions = {
        "socket_connection_setup_timeout_ms": timeout_ms,
        "request_timeout_ms": timeout_ms,
    }
    try:
        config = ConnectionConfig(**cast("dict[str, Any]", {**options, **times}))
        with closing(BlockingConnection(address, config)) as connection:
            answer = connection.call(request, version)
    except AuthenticationError as error:
        raise RefusedError(str(error)) from None
    except KafkaError as error:
        raise LinkError(str(error)) from None
    assert isinstance(answer, kind)
    return answer
