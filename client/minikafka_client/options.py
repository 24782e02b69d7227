"""The options that producer, consumer and admin client share, with Kafka's defaults."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Config = TypeVar("_Config", bound="DataclassInstance")


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

Conversation = Generator[bytes, bytes, None]
"""Yields what the client says, is sent what the broker answers, returns when both are content."""


class Mechanism(Protocol):
    """A way to prove who one is; `minikafka_client.sasl` has PLAIN and SCRAM."""

    @property
    def name(self) -> str:
        """What it is called in Kafka's ``sasl.enabled.mechanisms``."""
        ...

    def authenticate(self, host: str) -> Conversation:
        """Begin a conversation with the broker at ``host``; there is one for each connection.

        Raises (in the conversation):
            AuthenticationError: the broker is not what it says.
        """
        ...


class ConnectionOptions(TypedDict, total=False):
    """Keyword arguments for everything that connects; the defaults are in `ConnectionConfig`."""

    client_id: str
    request_timeout_ms: int
    api_timeout_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    connect_timeout_ms: int
    response_size_bytes_max: int
    security_protocol: SecurityProtocol | None
    ssl_context: ssl.SSLContext | None
    sasl: Mechanism | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """How to reach brokers.

    Attributes:
        client_id: the name under which brokers log and limit this client.
        request_timeout_ms: how long a request may stay unanswered before its connection is closed.
        api_timeout_ms: how long a call that takes several requests may go on, retries included.
        metadata_max_age_ms: metadata older than this is asked for again.
        reconnect_backoff_ms: pause before a broker is tried again; doubles, with 20 % jitter.
        reconnect_backoff_max_ms: the longest such pause.
        retry_backoff_ms: pause before a request is repeated; doubles, with 20 % jitter.
        retry_backoff_max_ms: the longest such pause.
        connect_timeout_ms: how long connection, TLS and ApiVersions may take together.
        response_size_bytes_max: a larger response is refused before memory is taken for it.
        security_protocol: what the broker's listener speaks, in Kafka's words; None: what follows
            from ``ssl_context`` and ``sasl``. With TLS and no context, `ssl.create_default_context`
            is used: the broker's certificate must be one that the system trusts.
        ssl_context: TLS, with a client certificate if it has one; None is plain TCP.
        sasl: who we are; see `minikafka_client.sasl`.

    Raises:
        ValueError: the security options contradict each other.
    """

    client_id: str = "minikafka-client"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    connect_timeout_ms: int = 10_000
    response_size_bytes_max: int = 128 * 1024 * 1024
    security_protocol: SecurityProtocol | None = None
    ssl_context: ssl.SSLContext | None = None
    sasl: Mechanism | None = None

    def __post_init__(self) -> None:
        wanted = self.security_protocol
        if wanted is None:
            return
        if wanted not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ValueError(
                f"security_protocol={wanted!r}; it is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            )
        if wanted.startswith("SASL_") != (self.sasl is not None):
            raise ValueError(f"security_protocol={wanted!r} with sasl={self.sasl!r}")
        if not wanted.endswith("SSL"):
            if self.ssl_context is not None:
                raise ValueError(f"security_protocol={wanted!r} with an ssl_context")
        elif self.ssl_context is None:
            object.__setattr__(self, "ssl_context", ssl.create_default_context())


def split_options(
    options: Mapping[str, Any], config_type: type[_Config]
) -> tuple[ConnectionConfig, _Config]:
    """Sort keyword arguments into those of the connection and those of ``config_type``.

    Raises:
        TypeError: neither has an option of such a name.
        ValueError: a value is refused.
    """
    own = {field.name for field in fields(config_type)}
    connection = {name: given for name, given in options.items() if name not in own}
    rest = {name: given for name, given in options.items() if name in own}
    return ConnectionConfig(**connection), config_type(**rest)
