"""Reassignments of replicas (AlterPartitionReassignments and ListPartitionReassignments, KIP-455).

A reassignment begins here: the partition gets the target replicas and, after them, those to be
removed. It ends in `minikafka.metadata.partition_change`, when the added replicas are in sync.
Until then it can be replaced by another one, or cancelled, which restores the original replicas.

Replicas that a replaced or cancelled reassignment was adding are removed immediately. But if one of
them leads, or no other replica is in sync, the in-sync ones are removed like any replica: when
others are in sync and lead. So, unlike in Kafka, cancelling is always possible and loses no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .decision import Decision, Refusal
from .image import MetadataImage, TopicImage
from .partition_change import Assignment, BrokerAvailability, PartitionChanges, RequestedChange
from .placement import check_replicas
from .records import PartitionRecord
from .replication_rules import ReplicationRules

__all__ = [
    "PartitionReassignment",
    "Reassignment",
    "list_reassignments",
    "reassign_partitions",
]


class Reassignment(NamedTuple):
    """The target replicas of a partition; ``replicas`` None cancels a reassignment."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


class PartitionReassignment(NamedTuple):
    """A reassignment in progress; see `PartitionRecord` for the fields."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


def reassign_partitions(
    image: MetadataImage,
    reassignments: Iterable[Reassignment],
    defaults: ReplicationRules,
    *,
    may_change_factor: bool = True,
) -> Decision[list[tuple[str, int, Refusal | None]]]:
    """Begin, replace or cancel reassignments, each on its own.

    Args:
        image: before the decision.
        reassignments: of several for one partition the last counts.
        defaults: see `rules_of_topic`.
        may_change_factor: False refuses another number of replicas (KIP-860).

    Returns:
        For each topic and partition a refusal, or None: UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.
    """
    wanted = {(one.topic, one.partition): one.replicas for one in reassignments}
    changes = PartitionChanges(image.settings, BrokerAvailability.of(image), defaults)
    results: list[tuple[str, int, Refusal | None]] = []
    for (name, number), replicas in wanted.items():
        topic = image.topics.get(name)
        refusal: Refusal | None
        if topic is None or not 0 <= number < len(topic.partitions):
            message = f"There is no partition {number} of a topic '{name[:249]}'."
            refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        elif replicas is None:
            refusal = _cancel(topic, topic.partitions[number], changes)
        else:
            partition = topic.partitions[number]
            refusal = _target_refusal(image, partition, replicas, may_change_factor)
            if refusal is None:
                _assign(topic, partition, tuple(replicas), changes)
        results.append((name, number, refusal))
    return Decision([*changes.records], results)


def _target_refusal(
    image: MetadataImage, partition: PartitionRecord, wanted: Sequence[int], may_change_factor: bool
) -> Refusal | None:
    factor = len(_final_replicas(partition))
    if not may_change_factor and len(wanted) != factor:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {factor} replica(s), and {len(wanted)} are wanted; allow the "
            "replication factor to change, or name as many.",
        )
    return check_replicas([wanted], tuple(image.brokers))


def _final_replicas(partition: PartitionRecord) -> tuple[int, ...]:
    """The replicas when the reassignment in progress (if any) is complete."""
    return tuple(one for one in partition.replicas if one not in partition.removing_replicas)


def _cancel(
    topic: TopicImage, partition: PartitionRecord, changes: PartitionChanges
) -> Refusal | None:
    adding, removing = partition.adding_replicas, partition.removing_replicas
    if not adding and not removing:
        message = f"{topic.name}-{partition.partition} is not being reassigned."
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
    before = tuple(one for one in partition.replicas if one not in adding)
    _assign(topic, partition, before, changes)
    return None


def _assign(
    topic: TopicImage,
    partition: PartitionRecord,
    wanted: tuple[int, ...],
    changes: PartitionChanges,
) -> None:
    """Start to move a partition to the target replicas, unless it has them already."""
    adding_before = set(partition.adding_replicas)
    removing = tuple(one for one in partition.replicas if one not in wanted)
    unneeded = adding_before.intersection(removing)
    if partition.leader in unneeded or unneeded.issuperset(partition.in_sync_replicas):
        unneeded = unneeded.difference(partition.in_sync_replicas)
    removing = tuple(one for one in removing if one not in unneeded)
    original = set(partition.replicas) - adding_before
    adding = tuple(one for one in wanted if one not in original)
    changes.change(
        topic,
        partition,
        RequestedChange(assignment=Assignment((*wanted, *removing), adding, removing)),
    )


def list_reassignments(
    image: MetadataImage, partitions: Iterable[tuple[str, int]] | None
) -> list[PartitionReassignment]:
    """The reassignments in progress, of some partitions (unknown ones are skipped) or all."""
    if partitions is None:
        found = [(topic, one) for topic in image.topics.values() for one in topic.partitions]
    else:
        found = [
            (topic, topic.partitions[number])
            for name, number in dict.fromkeys(partitions)
            if (topic := image.topics.get(name)) is not None and 0 <= number < len(topic.partitions)
        ]
    return [
        PartitionReassignment(
            topic.name, one.partition, one.replicas, one.adding_replicas, one.removing_replicas
        )
        for topic, one in found
        if one.adding_replicas or one.removing_replicas
    ]
