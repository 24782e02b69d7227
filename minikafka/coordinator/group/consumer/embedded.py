"""What members of the classic protocol send inside its messages: the consumer protocol.

A subscription comes in JoinGroup, an assignment goes out in SyncGroup; both start with a version of
their own, and later versions only append fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Struct, array, int32, octets, string
from minikafka.protocol.schema import Message

from ..topics import Topics
from .partitions import Partitions

_SUBSCRIPTION_VERSION_MAX = 3
_ASSIGNMENT_VERSION_MAX = 3
_version = struct.Struct(">h")


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class EmbeddedSubscription(Message, versions="0-3"):
    topics: list[str] = array(string())
    user_data: bytes | None = octets(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(
        TopicPartitions, versions="1+", default_factory=list
    )
    generation_id: int = int32(versions="2+", default=-1)
    rack_id: str | None = string(versions="3+", nullable="3+", default=None)


class EmbeddedAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = octets(nullable="0+", default=None)


def decode_subscription(metadata: bytes) -> EmbeddedSubscription:
    """What a member subscribes to.

    Raises:
        MalformedMessageError: it is not a subscription of a consumer.
    """
    version = min(_version_of(metadata), _SUBSCRIPTION_VERSION_MAX)
    return EmbeddedSubscription.decode(version, metadata, _version.size)


def decode_assignment(assignment: bytes, topics: Topics) -> Partitions:
    """What a member was assigned, without topics that are deleted.

    Raises:
        MalformedMessageError: it is not an assignment of a consumer.
    """
    if not assignment:
        return {}
    version = min(_version_of(assignment), _ASSIGNMENT_VERSION_MAX)
    decoded = EmbeddedAssignment.decode(version, assignment, _version.size)
    return by_topic_id(decoded.assigned_partitions, topics)


def encode_assignment(partitions: Partitions, topics: Topics, version: int) -> bytes:
    """An assignment in the version of the subscription that it answers."""
    message = EmbeddedAssignment(
        assigned_partitions=[
            TopicPartitions(topic=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )
    version = min(version, _ASSIGNMENT_VERSION_MAX)
    return message.encode_to_bytes(version, _version.pack(version))


def version_of_subscription(metadata: bytes) -> int:
    return _version_of(metadata)


def by_topic_id(named: Iterable[TopicPartitions], topics: Topics) -> Partitions:
    found: dict[bytes, frozenset[int]] = {}
    for one in named:
        topic = topics.by_name(one.topic)
        if topic is not None and one.partitions:
            found[topic.topic_id] = frozenset(one.partitions)
    return found


def _version_of(data: bytes) -> int:
    if len(data) < _version.size:
        raise MalformedMessageError(f"{data!r} is too short to be of the consumer protocol")
    version: int = _version.unpack_from(data)[0]
    if version < 0:
        raise MalformedMessageError(f"the consumer protocol has no version {version}")
    return version
