"""Topics that a broker itself wants: internal ones, and those that clients' requests create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...protocol.messages import create_topics as create_topics_api
from .forwarder import Forwarder

_VERSION = 7
_TIMEOUT_MS = 10_000


async def create_topics(
    forwarder: Forwarder, topics: Sequence[create_topics_api.CreatableTopic]
) -> create_topics_api.Response:
    """Have the controller create topics; this node's image has them when this returns.

    Raises:
        ChangeError: no controller can be reached, or the outcome is unknown.
    """
    request = create_topics_api.Request(
        topics=list(topics), timeout_ms=_TIMEOUT_MS, validate_only=False
    )
    return cast("create_topics_api.Response", await forwarder.request(request, _VERSION))
