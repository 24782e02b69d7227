"""Who sent a request: what handlers know about it besides the message itself."""

from __future__ import annotations

from typing import NamedTuple


class ClientConnection:
    """What is known about the connection that a request came on.

    Attributes:
        port: the client's.
        software: the client's software and its version, once it has sent ApiVersions (KIP-511).
    """

    __slots__ = ("port", "software")

    def __init__(self) -> None:
        self.port = 0
        self.software: tuple[str, str] = ("unknown", "unknown")


class RequestContext(NamedTuple):
    """Who sent a request, and in which version.

    A forwarded request has the context of the client that sent it first, but for the connection.
    """

    api_key: int
    api_version: int
    client_id: str | None
    client_host: str
    connection: ClientConnection | None = None
