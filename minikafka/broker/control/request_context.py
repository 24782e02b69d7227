"""Who sent a request: what handlers know about it besides the message itself."""

from __future__ import annotations

from typing import NamedTuple


class RequestContext(NamedTuple):
    """Who sent a request, and in which version.

    A forwarded request carries the context of the client that sent it first.
    """

    api_key: int
    api_version: int
    client_id: str | None
    client_host: str
