"""Reads topics out of what members of the ``consumer`` protocol send along in JoinGroup."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.protocol.schema import MalformedMessageError, Message, array, int16, string

__all__ = ["CONSUMER_PROTOCOL_TYPE", "subscribed_topics"]

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers; Kafka Connect and others use the same groups for other ends."""


class _Subscription(Message, versions="0"):
    """The part that every version of the consumer protocol's subscription starts with."""

    version: int = int16()
    topics: list[str] = array(string())


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that these members read; None when a subscription cannot be understood.

    Source: the consumer protocol of the Java client, whose later versions only append fields.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_Subscription.decode(0, subscription).topics)
    except MalformedMessageError:
        return None
    return frozenset(topics)
