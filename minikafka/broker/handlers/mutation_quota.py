"""A client's quota of partitions that are created or deleted (KIP-599), for a request."""

from __future__ import annotations

from ...metadata.decision import Permits, no_quota
from ..control.request_context import RequestContext


def permits_of(context: RequestContext, *, strict_from: int) -> Permits:
    """What a request may create or delete.

    Args:
        context: who asks.
        strict_from: the first version of the API whose clients know THROTTLING_QUOTA_EXCEEDED;
            those of older ones get what they want and then have to wait.
    """
    if context.charge is None:
        return no_quota
    return context.charge.mutations(is_strict=context.api_version >= strict_from)
