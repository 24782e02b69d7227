"""Who sent a request: what handlers know about it besides the message itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from ...metadata.settings import INT_MAX
from ...security.principal import ANONYMOUS, Principal
from ..security.client_quotas import RequestCharge
from ..settings.listeners import PLAINTEXT_LISTENER, Listener

FRAME_SIZE_BYTES_BEFORE_LOGIN: Final = 524_288
"""As much as Kafka takes from a client that has not authenticated."""


class ClientConnection:
    """What is known about the connection that a request came on.

    Attributes:
        listener: the listener that accepted it.
        port: the client's.
        principal: who it is; ANONYMOUS until it has authenticated, and without authentication. Who
            sets it says that it has.
        frame_size_bytes_max: the largest frame that it may send; small until it has authenticated.
        login_deadline: when it must have authenticated, in monotonic seconds.
        software: the client's software and its version, once it has sent ApiVersions (KIP-511).
        endings: what ends with the connection, by name; called when it has ended.
    """

    __slots__ = (
        "_principal",
        "endings",
        "frame_size_bytes_max",
        "listener",
        "login_deadline",
        "port",
        "software",
    )

    def __init__(self, listener: Listener = PLAINTEXT_LISTENER) -> None:
        self.listener = listener
        self.port = 0
        self._principal: Principal = ANONYMOUS
        self.software: tuple[str, str] = ("unknown", "unknown")
        self.endings: dict[Hashable, Callable[[], None]] = {}
        self.frame_size_bytes_max = INT_MAX
        self.login_deadline = math.inf

    def ended(self) -> None:
        """The connection has ended."""
        endings, self.endings = self.endings, {}
        for end in endings.values():
            end()

    @property
    def principal(self) -> Principal:
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self.log_in(principal)

    def begin_login(self, deadline: float) -> None:
        """It has to authenticate until then, and may not send much before."""
        self.frame_size_bytes_max = FRAME_SIZE_BYTES_BEFORE_LOGIN
        self.login_deadline = deadline

    def log_in(self, principal: Principal) -> None:
        """It has authenticated: the limits of strangers no longer hold."""
        self._principal = principal
        self.frame_size_bytes_max = INT_MAX
        self.login_deadline = math.inf


class RequestContext(NamedTuple):
    """Who sent a request, and in which version.

    A forwarded request has the context of the client that sent it first, but for the connection.

    Attributes:
        client_host: the client's address, as Kafka shows it: ``/127.0.0.1``.
        principal: who the client is, also on the node that a request was forwarded to.
        charge: counts what the request costs; None while there are no quotas.
    """

    api_key: int
    api_version: int
    client_id: str | None
    client_host: str
    connection: ClientConnection | None = None
    principal: Principal = ANONYMOUS
    charge: RequestCharge | None = None

    @property
    def listener_name(self) -> str:
        """The listener that the client is on; answers name brokers as they are known there."""
        listener = PLAINTEXT_LISTENER if self.connection is None else self.connection.listener
        return listener.name
