"""The assignors that ignore earlier assignments: range and round-robin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka_client.core.assignors.assignor import Assignment, member_order, subscribers_by_topic
from minikafka_client.core.consumer_protocol import Subscription
from minikafka_client.types import TopicPartition


class RangeAssignor:
    """Each topic separately: consecutive partitions, the first members get one more.

    Partition 0 of two topics with the same members and partition count goes to the same member,
    so records with equal keys meet there.
    """

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> None:
        del owned, generation_id

    def assign(
        self, partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Assignment:
        assignment: Assignment = {member: [] for member in subscriptions}
        for topic, members in subscribers_by_topic(partition_counts, subscriptions).items():
            each, rest = divmod(partition_counts[topic], len(members))
            first = 0
            for index, member in enumerate(members):
                end = first + each + (index < rest)
                assignment[member] += [TopicPartition(topic, p) for p in range(first, end)]
                first = end
        return assignment


class RoundRobinAssignor:
    """All partitions dealt out one by one, skipping members that do not want the topic."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> None:
        del owned, generation_id

    def assign(
        self, partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Assignment:
        assignment: Assignment = {member: [] for member in subscriptions}
        circle = member_order(subscriptions)
        turn = 0
        for topic, members in subscribers_by_topic(partition_counts, subscriptions).items():
            for partition in range(partition_counts[topic]):
                while circle[turn % len(circle)] not in members:
                    turn += 1
                assignment[circle[turn % len(circle)]].append(TopicPartition(topic, partition))
                turn += 1
        return assignment
