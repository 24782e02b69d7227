"""Reads the subscribed topics from the metadata that consumers send in JoinGroup."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import array, int16, string
from minikafka.protocol.schema import Message

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers; Kafka Connect and others use groups with other types."""


class _Subscription(Message, versions="0"):
    """The fields that every version of the consumer protocol's subscription starts with."""

    version: int = int16()
    topics: list[str] = array(string())


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that these members read; None when a subscription cannot be decoded.

    Source: the consumer protocol of the Java client, whose later versions only append fields.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_Subscription.decode(0, subscription).topics)
    except MalformedMessageError:
        return None
    return frozenset(topics)
