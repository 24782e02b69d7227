"""The interface of assignors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from minikafka_client.core.consumer_protocol import Subscription
from minikafka_client.types import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions."""


class Assignor(Protocol):
    """A strategy; the leader runs the one that most members prefer and all have."""

    @property
    def name(self) -> str: ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they have while the group rebalances (KIP-429)."""
        ...

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """What this member sends the leader besides its subscription."""
        ...

    def assign(
        self, partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Assignment:
        """Divide the partitions of all topics; every member is in the result."""
        ...


def member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Members as Java orders them: static ones by instance id, before the others by member id."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = subscriptions[member_id].group_instance_id
        return instance_id is None, instance_id or member_id

    return sorted(subscriptions, key=key)


def subscribers_by_topic(
    partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
) -> dict[str, list[str]]:
    """Topic -> members that want it, in member order; topics that exist, sorted by name."""
    topics: dict[str, list[str]] = {topic: [] for topic in sorted(partition_counts)}
    for member_id in member_order(subscriptions):
        for topic in dict.fromkeys(subscriptions[member_id].topics):
            if partition_counts.get(topic, 0) > 0:
                topics[topic].append(member_id)
    return {topic: members for topic, members in topics.items() if members}
