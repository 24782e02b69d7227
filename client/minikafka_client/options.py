"""The options that producer, consumer and admin client share, with Kafka's defaults."""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Config = TypeVar("_Config", bound="DataclassInstance")


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

Conversation = Generator[bytes, bytes, None]
"""Yields the client's messages, is sent the broker's, and returns when both are authenticated."""


class Mechanism(Protocol):
    """A SASL mechanism; `minikafka_client.sasl` has PLAIN, SCRAM and OAUTHBEARER."""

    @property
    def name(self) -> str:
        """Its name in Kafka's ``sasl.enabled.mechanisms``."""
        ...

    def authenticate(self, host: str) -> Conversation:
        """Start a conversation with the broker at ``host``; each connection has its own.

        Raises (in the conversation):
            AuthenticationError: the broker could not prove its identity.
        """
        ...


@runtime_checkable
class PreparedMechanism(Mechanism, Protocol):
    """A mechanism that has to wait for something, such as a token, before it can authenticate."""

    def prepare(self) -> None:
        """Get ready; may block, and is called in a worker thread before each authentication.

        Raises:
            AuthenticationError: it is in vain.
        """
        ...


class ConnectionOptions(TypedDict, total=False):
    """Keyword arguments for everything that connects; the defaults are in `ConnectionConfig`."""

    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    response_size_bytes_max: int
    security_protocol: SecurityProtocol | None
    ssl_context: ssl.SSLContext | None
    sasl: Mechanism | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """How to reach brokers.

    Attributes:
        client_id: the name under which brokers log and throttle this client.
        request_timeout_ms: how long a request may stay unanswered before its connection is closed.
        default_api_timeout_ms: how long a call of several requests may take, retries included.
        metadata_max_age_ms: older metadata is fetched again.
        reconnect_backoff_ms: pause before a broker is tried again; doubles, with 20 % jitter.
        reconnect_backoff_max_ms: the longest such pause.
        retry_backoff_ms: pause before a request is repeated; doubles, with 20 % jitter.
        retry_backoff_max_ms: the longest such pause.
        socket_connection_setup_timeout_ms: how long TCP, TLS and ApiVersions may take together.
        response_size_bytes_max: a larger response is refused before memory is taken for it.
        security_protocol: of the broker's listener; None derives it from ``ssl_context`` and
            ``sasl``. With TLS and no context, `ssl.create_default_context` is used: the system must
            trust the broker's certificate.
        ssl_context: TLS, with a client certificate if it has one; None is plain TCP.
        sasl: the credentials; see `minikafka_client.sasl`.

    Raises:
        ValueError: the security options contradict each other.
    """

    client_id: str = "minikafka-client"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
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
    options: Mapping[str, Any], config_type: type[_Config], owner: str
) -> tuple[ConnectionConfig, _Config]:
    """Sort keyword arguments into those of the connection and those of ``config_type``.

    Args:
        options: keyword arguments.
        config_type: a dataclass with the options that the owner has besides `ConnectionConfig`'s.
        owner: the class that was called, for the message.

    Raises:
        TypeError: neither has an option of such a name.
        ValueError: a value is refused.
    """
    own = {field.name for field in fields(config_type)}
    connection = connection_config(
        {name: given for name, given in options.items() if name not in own}, owner, own
    )
    return connection, config_type(**{n: given for n, given in options.items() if n in own})


def connection_config(
    options: Mapping[str, Any], owner: str, others: Iterable[str] = ()
) -> ConnectionConfig:
    """The same for a class that has no options of its own; ``others`` may be suggested as well."""
    known = {field.name for field in fields(ConnectionConfig)}
    for name in options:
        if name not in known:
            meant = suggestion(name, [*known, *others])
            raise TypeError(f"{owner}() has no option {name!r}{meant}")
    return ConnectionConfig(**options)


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?``, or nothing when no known name is like it."""
    close = difflib.get_close_matches(name.lower(), sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
