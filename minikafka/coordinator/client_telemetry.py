"""Which client may push its metrics now: a pure machine (KIP-714).

A client asks for its subscription, gets an id for it, and pushes once in each interval; after that
it may ask or push again. What it is asked for follows from the subscriptions that match it. When
they change, its id is no longer valid: its next push is UNKNOWN_SUBSCRIPTION_ID, and it asks again.

Clients are forgotten when too many others came after them. One that is forgotten is taken for a new
one, which costs it nothing.

    asks      An interval has passed since it last asked or pushed, its subscription is another one,
              or its last push was refused for an unknown subscription or compression;
              else THROTTLING_QUOTA_EXCEEDED.
    pushes    It has asked since its last push, an interval has passed, or it is terminating;
              else THROTTLING_QUOTA_EXCEEDED. After a terminating push: INVALID_REQUEST.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

from ..metadata.client_metrics import ClientDescription, Subscription, subscription_for
from ..protocol.crc import crc32c
from ..protocol.errors import ErrorCode
from ..protocol.records import Compression

__all__ = ["CLIENTS_MAX", "COMPRESSIONS", "ClientTelemetry", "Offer", "Push"]

CLIENTS_MAX: Final = 10_000
"""Clients that are remembered."""

COMPRESSIONS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""What pushes may be compressed with, the best first."""

_MAY_ASK_AT_ONCE: Final = (
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)


class Offer(NamedTuple):
    """What a client that asked is told."""

    error_code: ErrorCode
    subscription_id: int
    subscription: Subscription


class Push(NamedTuple):
    """A push, but for its content."""

    subscription_id: int
    compression_type: int
    size_bytes: int
    is_terminating: bool


class _Client:
    __slots__ = ("asked_at", "is_terminating", "last_error", "offered_id", "pushed_at")

    def __init__(self) -> None:
        self.asked_at = -inf
        self.pushed_at = -inf
        self.offered_id: int | None = None
        self.last_error = ErrorCode.NONE
        self.is_terminating = False


class ClientTelemetry:
    """The clients that were heard of, by client instance id."""

    def __init__(self, size_bytes_max: int) -> None:
        """`size_bytes_max` is the largest push."""
        self._size_bytes_max = size_bytes_max
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()

    def ask(
        self,
        instance_id: bytes,
        description: ClientDescription,
        subscriptions: Iterable[Mapping[str, str]],
        now: float,
    ) -> Offer:
        """A client asks what to push; ``now`` is in seconds."""
        client = self._client(instance_id)
        subscription = subscription_for(description, subscriptions)
        offered_id = _subscription_id(instance_id, subscription)
        is_new = client.offered_id != offered_id
        heard_at = max(client.asked_at, client.pushed_at)
        is_early = now - heard_at < subscription.interval_ms / 1000
        if is_early and not is_new and client.last_error not in _MAY_ASK_AT_ONCE:
            return Offer(ErrorCode.THROTTLING_QUOTA_EXCEEDED, offered_id, subscription)
        client.asked_at = now
        client.offered_id = offered_id
        client.last_error = ErrorCode.NONE
        return Offer(ErrorCode.NONE, offered_id, subscription)

    def push(
        self,
        instance_id: bytes,
        description: ClientDescription,
        subscriptions: Iterable[Mapping[str, str]],
        push: Push,
        now: float,
    ) -> ErrorCode:
        """Whether a push is accepted: NONE, or why not."""
        client = self._client(instance_id)
        subscription = subscription_for(description, subscriptions)
        code = self._refusal(client, instance_id, subscription, push, now)
        client.last_error = code
        if push.is_terminating:
            client.is_terminating = True
        return code

    def _refusal(
        self,
        client: _Client,
        instance_id: bytes,
        subscription: Subscription,
        push: Push,
        now: float,
    ) -> ErrorCode:
        if client.is_terminating:
            return ErrorCode.INVALID_REQUEST
        interval_s = subscription.interval_ms / 1000
        has_asked = client.asked_at > client.pushed_at
        if not has_asked and now - client.pushed_at < interval_s and not push.is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.pushed_at = now
        if push.subscription_id != _subscription_id(instance_id, subscription):
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in (Compression.NONE, *COMPRESSIONS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size_bytes > self._size_bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _client(self, instance_id: bytes) -> _Client:
        client = self._clients.setdefault(instance_id, _Client())
        self._clients.move_to_end(instance_id)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)
        return client


def _subscription_id(instance_id: bytes, subscription: Subscription) -> int:
    """The same on every broker, and another one when something changes."""
    text = "\0".join((*subscription.metrics, str(subscription.interval_ms)))
    unsigned = crc32c(instance_id + text.encode())
    return unsigned - 2**32 if unsigned >= 2**31 else unsigned
