"""The assignors that move as little as possible: sticky (KIP-54) and cooperative-sticky (KIP-429).

Both give every member as many partitions as balance allows, and of these as many as possible that
it has already. With cooperative-sticky, a partition that has to move is left unassigned in the
round that revokes it from its owner; the owner rejoins, and the next round hands it
over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Struct, array, int32, string
from minikafka.protocol.schema import Message
from minikafka_client.core.assignors.assignor import Assignment, member_order, subscribers_by_topic
from minikafka_client.core.consumer_protocol import NO_GENERATION, Subscription
from minikafka_client.types import TopicPartition


class _Owned(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class _StickyUserData(Message, versions="0-1"):
    """Java's StickyAssignor: what the member had, and since which generation (version 1)."""

    previous_assignment: list[_Owned] = array(_Owned)
    generation: int = int32(versions="1+", default=NO_GENERATION)


class _CooperativeUserData(Message, versions="0"):
    """Java's CooperativeStickyAssignor: the generation; the rest is in the subscription."""

    generation: int = int32()


class StickyAssignor:
    """Balanced, with as few moves as possible; members revoke everything in between."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """What the member had, because it joins without owning anything."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(owned):
            topics.setdefault(topic, []).append(partition)
        message = _StickyUserData(
            previous_assignment=[_Owned(topic=t, partitions=p) for t, p in topics.items()],
            generation=generation_id,
        )
        return message.encode_to_bytes(1)

    def assign(
        self, partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Assignment:
        before = {
            member: _sticky_memory(subscription) for member, subscription in subscriptions.items()
        }
        return balance(partition_counts, subscriptions, before)


class CooperativeStickyAssignor:
    """Balanced, and as much as before as possible; members keep reading what does not move."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """The generation, for leaders that read subscriptions older than version 2."""
        del owned
        return _CooperativeUserData(generation=generation_id).encode_to_bytes(0)

    def assign(
        self, partition_counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Assignment:
        """Divide the partitions; one that moves is left out until its owner has revoked it."""
        before = {
            member: _cooperative_memory(subscription)
            for member, subscription in subscriptions.items()
        }
        assignment = balance(partition_counts, subscriptions, before)
        owners = {
            partition: member
            for member, subscription in subscriptions.items()
            for partition in subscription.owned_partitions
        }
        return {
            member: [each for each in partitions if owners.get(each, member) == member]
            for member, partitions in assignment.items()
        }


Memory = tuple[int, tuple[TopicPartition, ...]]
"""A generation, and what a member had in it."""


def _sticky_memory(subscription: Subscription) -> Memory:
    if not subscription.user_data:
        return subscription.generation_id, subscription.owned_partitions
    message: _StickyUserData | None = None
    for version in (1, 0):  # version 0 is what the newer one begins with
        try:
            message = _StickyUserData.decode(version, subscription.user_data)
            break
        except MalformedMessageError:
            continue
    if message is None:
        return NO_GENERATION, ()
    partitions = tuple(
        TopicPartition(owned.topic, partition)
        for owned in message.previous_assignment
        for partition in owned.partitions
    )
    return message.generation, partitions


def _cooperative_memory(subscription: Subscription) -> Memory:
    generation = subscription.generation_id
    if generation == NO_GENERATION and subscription.user_data:
        try:
            generation = _CooperativeUserData.decode(0, subscription.user_data).generation
        except MalformedMessageError:
            generation = NO_GENERATION
    return generation, subscription.owned_partitions


def balance(
    partition_counts: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    before: Mapping[str, Memory],
) -> Assignment:
    """Divide partitions so that no move of one could make two members more equal.

    A partition that two members claim belongs to the one of the later generation (a member that
    missed a rebalance still lists what it lost); claimed twice in one generation, it has none.
    """
    wanted_by = subscribers_by_topic(partition_counts, subscriptions)
    order = member_order(subscriptions)
    assignment = _keep(partition_counts, subscriptions, before)
    assigned = {partition for partitions in assignment.values() for partition in partitions}
    free = [
        TopicPartition(topic, index)
        for topic in wanted_by
        for index in range(partition_counts[topic])
        if (topic, index) not in assigned
    ]
    rank = {member: index for index, member in enumerate(order)}
    # Those that few members can take come first, while there is a choice for the others.
    free.sort(key=lambda partition: len(wanted_by[partition.topic]))
    for partition in free:
        members = wanted_by[partition.topic]
        least = min(members, key=lambda member: (len(assignment[member]), rank[member]))
        assignment[least].append(partition)
    _even_out(assignment, wanted_by, rank)
    for partitions in assignment.values():
        partitions.sort()
    return assignment


def _keep(
    partition_counts: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    before: Mapping[str, Memory],
) -> Assignment:
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in member_order(subscriptions):
        generation, partitions = before[member]
        wanted = set(subscriptions[member].topics)
        for partition in partitions:
            exists = 0 <= partition.partition < partition_counts.get(partition.topic, 0)
            if not exists or partition.topic not in wanted:
                continue
            known = claims.get(partition)
            if known is None or generation > known[0]:
                claims[partition] = (generation, member)
            elif generation == known[0]:
                claims[partition] = (generation, None)
    assignment: Assignment = {member: [] for member in subscriptions}
    for partition, (_, owner) in claims.items():
        if owner is not None:
            assignment[owner].append(partition)
    return assignment


def _even_out(
    assignment: Assignment, wanted_by: Mapping[str, list[str]], rank: Mapping[str, int]
) -> None:
    """Move partitions from members that have more to members that have fewer by at least two.

    Every move reduces the sum of the squares of the members' loads, so this terminates.
    """
    moved = True
    while moved:
        moved = False
        for giver in sorted(rank, key=lambda member: (-len(assignment[member]), rank[member])):
            partitions = assignment[giver]
            for partition in list(reversed(partitions)):
                taker = min(
                    wanted_by[partition.topic],
                    key=lambda member: (len(assignment[member]), rank[member]),
                )
                if len(partitions) - len(assignment[taker]) >= 2:
                    partitions.remove(partition)
                    assignment[taker].append(partition)
                    moved = True
