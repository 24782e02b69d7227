"""Decisions about topics and their partitions: create, grow, delete.

Each decision has one result per topic of the request. (Settings are decided in `setting_changes`;
leaders and in-sync replicas in `brokers`, `elections`, `alter_partition` and `reassignments`.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from ..protocol.fields import ZERO_UUID
from ..protocol.messages import create_topics as create_topics_api
from .decision import Decision, Permits, Refusal, no_quota
from .image import RESOURCE_TOPIC, MetadataImage, TopicImage, metric_name
from .placement import (
    PARTITIONS_PER_TOPIC_MAX,
    Placement,
    Replicas,
    check_numbering,
    check_replicas,
    place,
    spread,
)
from .records import (
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    SettingRecord,
    TopicRecord,
)
from .settings import InvalidSettingError
from .topic_settings import check_topic_settings

__all__ = [
    "INTERNAL_TOPICS",
    "PARTITIONS_PER_REQUEST_MAX",
    "TOPIC_NAME_LENGTH_MAX",
    "Growth",
    "TopicDeletion",
    "TopicReference",
    "create_topic",
    "create_topics",
    "delete_topics",
    "grow_topics",
    "partitions_wanted",
    "topic_name_problem",
]

TOPIC_NAME_LENGTH_MAX = 249
PARTITIONS_PER_REQUEST_MAX = 20_000
"""The most partitions that one request may create (Kafka's limit is 10,000 records)."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__client_telemetry"})
METADATA_TOPIC = "__cluster_metadata"

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_DUPLICATE_NAME = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
_MEANT_TWICE = Refusal(
    ErrorCode.INVALID_REQUEST, "The topic is given by its name and by its id; use one of them."
)
_TOO_MANY_PARTITIONS = Refusal(
    ErrorCode.POLICY_VIOLATION,
    f"One request may create {PARTITIONS_PER_REQUEST_MAX} partitions; use several requests.",
)


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic name, or None if it is legal."""
    if not name:
        return "Topic name is empty"
    if name in (".", ".."):
        return f"Topic name {name!r} is reserved"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"Topic name has {len(name)} characters; at most {TOPIC_NAME_LENGTH_MAX} are allowed"
    if not _NAME_CHARACTERS.issuperset(name):
        return f"Topic name {name!r} has characters other than ASCII letters, digits, '.', '_', '-'"
    return None


# --- create ------------------------------------------------------------------------------------


def create_topics(
    image: MetadataImage,
    topics: Sequence[create_topics_api.CreatableTopic],
    placement: Placement,
    new_topic_id: Callable[[], bytes],
    *,
    partitions_max: int = PARTITIONS_PER_REQUEST_MAX,
    permits: Permits = no_quota,
) -> Decision[list[tuple[str, TopicImage | Refusal]]]:
    """Create topics, each on its own: an invalid one does not stop the others (CreateTopics).

    Args:
        image: before the decision.
        topics: what is wanted.
        placement: where replicas may be.
        new_topic_id: makes an id.
        partitions_max: fewer than a request may create, if this is only a part of it.
        permits: the client's quota.

    Returns:
        For each name the topic as it will be, or a refusal; a name that was given more than once
        has one result.
    """
    times = Counter(topic.name for topic in topics)
    records: list[MetadataRecord] = []
    results: dict[str, TopicImage | Refusal] = {}
    metrics: dict[str, str] = {}
    partitions = 0
    for topic in topics:
        name = topic.name
        if name in results:
            continue
        # Topics that turn out to be invalid count, too, for the time that it takes to find out.
        partitions += max(1, partitions_wanted(topic, placement))
        other = metrics.get(metric_name(name))
        if times[name] > 1:
            results[name] = _DUPLICATE_NAME
        elif partitions > partitions_max:
            results[name] = _TOO_MANY_PARTITIONS
        elif other is not None:
            results[name] = _collision(name, other)
        else:
            decision = create_topic(image, topic, placement, new_topic_id, permits)
            results[name] = decision.result
            if decision.records:
                records += decision.records
                metrics[metric_name(name)] = name
    return Decision(records, list(results.items()))


def partitions_wanted(topic: create_topics_api.CreatableTopic, placement: Placement) -> int:
    """How many partitions a topic is to have, whether it may or not."""
    if topic.assignments:
        return len(topic.assignments)
    return placement.partitions_default if topic.num_partitions == -1 else topic.num_partitions


def create_topic(
    image: MetadataImage,
    topic: create_topics_api.CreatableTopic,
    placement: Placement,
    new_topic_id: Callable[[], bytes],
    permits: Permits = no_quota,
) -> Decision[TopicImage | Refusal]:
    """Create one topic, with counts or with an explicit assignment.

    Returns:
        The topic as it will be, or a refusal.
    """
    refusal = _name_refusal(image, topic.name)
    if refusal is not None:
        return Decision([], refusal)
    overrides = {config.name: config.value for config in topic.configs}
    try:
        check_topic_settings(overrides)
    except InvalidSettingError as error:
        return Decision([], Refusal(ErrorCode.INVALID_CONFIG, str(error)))
    replicas = _place_new(topic, placement)
    if isinstance(replicas, Refusal):
        return Decision([], replicas)
    refusal = permits(len(replicas))
    if refusal is not None:
        return Decision([], refusal)
    topic_id = new_topic_id()
    partitions = [
        _new_partition(topic_id, number, nodes, placement) for number, nodes in enumerate(replicas)
    ]
    records: list[MetadataRecord] = [TopicRecord(topic.name, topic_id), *partitions]
    records += [
        SettingRecord(RESOURCE_TOPIC, topic.name, name, value) for name, value in overrides.items()
    ]
    return Decision(records, TopicImage(topic.name, topic_id, partitions))


def _new_partition(
    topic_id: bytes, number: int, replicas: Replicas, placement: Placement
) -> PartitionRecord:
    """A partition that has no records yet: every replica that is active is in sync."""
    in_sync = placement.active(replicas)
    return PartitionRecord(topic_id, number, replicas, in_sync, in_sync[0], 0, 0)


def _name_refusal(image: MetadataImage, name: str) -> Refusal | None:
    problem = topic_name_problem(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name == METADATA_TOPIC:
        return Refusal(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Topic '{name}' is the cluster's own."
        )
    if name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = image.names_by_metric.get(metric_name(name))
    return None if other is None else _collision(name, other)


def _collision(name: str, other: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}' collides with topic '{other}': metrics do not tell '.' from '_'.",
    )


def _place_new(
    topic: create_topics_api.CreatableTopic, placement: Placement
) -> list[Replicas] | Refusal:
    if not topic.assignments:
        return place(topic.num_partitions, topic.replication_factor, placement)
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "Give either an explicit assignment or counts: with an assignment, num_partitions and "
            "replication_factor must be -1.",
        )
    by_number = {one.partition_index: tuple(one.broker_ids) for one in topic.assignments}
    refusal = check_numbering(by_number, len(topic.assignments))
    if refusal is not None:
        return refusal
    replicas = [by_number[number] for number in range(len(by_number))]
    return _assignment_refusal(replicas, placement) or replicas


def _assignment_refusal(
    assignments: Sequence[Sequence[int]], placement: Placement, factor: int | None = None
) -> Refusal | None:
    refusal = check_replicas(assignments, placement.brokers, factor)
    if refusal is not None:
        return refusal
    for number, nodes in enumerate(assignments):
        if placement.inactive.issuperset(nodes):
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Assignment number {number}: all of its brokers {list(nodes)} are fenced or "
                "shutting down.",
            )
    return None


# --- grow --------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """A topic that is to have ``partitions`` partitions.

    ``assignments`` are the replicas of each added partition; None lets the controller place them.
    """

    name: str
    partitions: int
    assignments: Sequence[Sequence[int]] | None


def grow_topics(
    image: MetadataImage,
    growths: Sequence[Growth],
    placement: Placement,
    permits: Permits = no_quota,
) -> Decision[list[tuple[str, Refusal | None]]]:
    """Add partitions to topics, to each on its own (CreatePartitions).

    Returns:
        For each name a refusal, or None; a name that was given more than once has one result.
    """
    times = Counter(growth.name for growth in growths)
    records: list[MetadataRecord] = []
    results: dict[str, Refusal | None] = {}
    for growth in growths:
        if growth.name in results:
            continue
        if times[growth.name] > 1:
            results[growth.name] = _DUPLICATE_NAME
            continue
        grown = _grow(image, growth, placement)
        if isinstance(grown, Refusal):
            results[growth.name] = grown
        elif len(records) + len(grown) > PARTITIONS_PER_REQUEST_MAX:
            results[growth.name] = _TOO_MANY_PARTITIONS
        else:
            results[growth.name] = refusal = permits(len(grown))
            records += grown if refusal is None else []
    return Decision(records, list(results.items()))


def _grow(
    image: MetadataImage, growth: Growth, placement: Placement
) -> list[PartitionRecord] | Refusal:
    topic = image.topics.get(growth.name)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{growth.name}' does not exist."
        )
    present = len(topic.partitions)
    problem = _count_problem(growth.name, present, growth.partitions)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_PARTITIONS, problem)
    added = growth.partitions - present
    first = topic.partitions[0]
    factor = len(first.replicas) - len(first.removing_replicas)
    placed: list[Replicas] | Refusal
    if growth.assignments is None:
        placed = spread(added, factor, placement, first=present, first_leader=first.replicas[0])
    elif len(growth.assignments) != added:
        placed = Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partition(s) would be added, but {len(growth.assignments)} assignment(s) "
            "were given.",
        )
    else:
        placed = _assignment_refusal(growth.assignments, placement, factor) or [
            tuple(nodes) for nodes in growth.assignments
        ]
    if isinstance(placed, Refusal):
        return placed
    return [
        _new_partition(topic.topic_id, present + number, nodes, placement)
        for number, nodes in enumerate(placed)
    ]


def _count_problem(name: str, present: int, count: int) -> str | None:
    if count == present:
        return f"Topic '{name}' already has {present} partition(s)."
    if count < present:
        return (
            f"Topic '{name}' has {present} partition(s); {count} would not be an increase, and "
            "partitions cannot be removed."
        )
    if count > PARTITIONS_PER_TOPIC_MAX:
        return f"{count} partitions are more than the {PARTITIONS_PER_TOPIC_MAX} a topic may have."
    return None


# --- delete ------------------------------------------------------------------------------------


class TopicReference(NamedTuple):
    """A topic in a request: by name, or by id if the name is None."""

    name: str | None
    topic_id: bytes = ZERO_UUID


class TopicDeletion(NamedTuple):
    """The result for one reference; ``refusal`` None is success."""

    name: str | None
    topic_id: bytes
    refusal: Refusal | None


def delete_topics(
    image: MetadataImage, references: Sequence[TopicReference], permits: Permits = no_quota
) -> Decision[list[TopicDeletion]]:
    """Delete topics by name or by id, each on its own (DeleteTopics, KIP-516).

    Returns:
        One result for each different reference; one error for a topic that was named twice.
    """
    times = Counter(references)
    records: list[MetadataRecord] = []
    results: list[TopicDeletion] = []
    for reference, count in times.items():
        refusal: Refusal | None
        topic, refusal = _find_deletable(image, reference, count)
        if topic is None:
            results.append(TopicDeletion(*reference, refusal))
            continue
        # A topic that is given by its name and by its id is not deleted, as in Kafka, and has one
        # result.
        by_name = times[TopicReference(topic.name)] == 1
        if by_name and times[TopicReference(None, topic.topic_id)]:
            if reference.name is None:
                continue
            refusal = _MEANT_TWICE
        if refusal is None:
            refusal = permits(len(topic.partitions))
        if refusal is None:
            records.append(RemoveTopicRecord(topic.topic_id))
        results.append(TopicDeletion(topic.name, topic.topic_id, refusal))
    return Decision(records, results)


def _find_deletable(
    image: MetadataImage, reference: TopicReference, count: int
) -> tuple[TopicImage | None, Refusal | None]:
    name, topic_id = reference
    if name is None:
        if topic_id == ZERO_UUID:
            message = "Neither a topic's name nor its id was given."
            return None, Refusal(ErrorCode.INVALID_REQUEST, message)
        if count > 1:
            return None, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            message = f"No topic has the id {topic_id.hex()}."
            return None, Refusal(ErrorCode.UNKNOWN_TOPIC_ID, message)
        return topic, None
    if topic_id != ZERO_UUID:
        message = "A topic is given by its name or by its id, not by both."
        return None, Refusal(ErrorCode.INVALID_REQUEST, message)
    if count > 1:
        return None, _DUPLICATE_NAME
    topic = image.topics.get(name)
    if topic is None:
        message = f"The topic '{name}' does not exist."
        return None, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return topic, None
