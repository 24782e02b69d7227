"""What members of a consumer group send each other through the coordinator, in Java's formats.

A subscription travels in JoinGroup, an assignment in SyncGroup; both are opaque to the broker and
begin with a 16-bit version. A newer version only adds fields at the end, so one that is newer than
ours is read as our newest (KIP-429 owned partitions, KIP-792 generation, KIP-881 rack).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - struct's own name is lower case
from typing import Final

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Struct, array, int32, octets, string
from minikafka.protocol.schema import Message
from minikafka_client.types import TopicPartition

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1

_VERSION = Layout(">h")
_NEWEST = 3


class _Partitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class _Subscription(Message, versions="0-3"):
    topics: list[str] = array(string())
    user_data: bytes | None = octets(nullable="0+", default=None)
    owned_partitions: list[_Partitions] = array(_Partitions, versions="1+", default_factory=list)
    generation_id: int = int32(versions="2+", default=NO_GENERATION)
    rack_id: str | None = string(versions="3+", nullable="3+", default=None)


class _Assignment(Message, versions="0-3"):
    assigned_partitions: list[_Partitions] = array(_Partitions)
    user_data: bytes | None = octets(nullable="0+", default=None)


class Subscription:
    """What a member wants and has.

    Attributes:
        owned_partitions: what it holds while it joins (cooperative and sticky assignors).
        generation_id: the generation it got these in; -1 when it does not say.
        user_data: for the assignor (the sticky one keeps its own record here).
        group_instance_id: set by the leader from the JoinGroup response.
    """

    def __init__(
        self,
        topics: Iterable[str],
        *,
        owned_partitions: Iterable[TopicPartition] = (),
        generation_id: int = NO_GENERATION,
        user_data: bytes | None = None,
        rack_id: str | None = None,
        group_instance_id: str | None = None,
    ) -> None:
        self.topics = tuple(topics)
        self.owned_partitions = tuple(owned_partitions)
        self.generation_id = generation_id
        self.user_data = user_data
        self.rack_id = rack_id
        self.group_instance_id = group_instance_id

    def encode(self) -> bytes:
        message = _Subscription(
            topics=sorted(self.topics),
            user_data=self.user_data,
            owned_partitions=_grouped(self.owned_partitions),
            generation_id=self.generation_id,
            rack_id=self.rack_id,
        )
        return message.encode_to_bytes(_NEWEST, _VERSION.pack(_NEWEST))

    @classmethod
    def decode(cls, metadata: bytes, *, group_instance_id: str | None = None) -> Subscription:
        """Read what a member sent, or raise `MalformedMessageError`."""
        message = _Subscription.decode(_version_of(metadata), metadata, _VERSION.size)
        return cls(
            message.topics,
            owned_partitions=_flat(message.owned_partitions),
            generation_id=message.generation_id,
            user_data=message.user_data,
            rack_id=message.rack_id,
            group_instance_id=group_instance_id,
        )


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None
) -> bytes:
    message = _Assignment(assigned_partitions=_grouped(partitions), user_data=user_data)
    return message.encode_to_bytes(_NEWEST, _VERSION.pack(_NEWEST))


def decode_assignment(assignment: bytes) -> tuple[tuple[TopicPartition, ...], bytes | None]:
    """Read (partitions, user data) or raise `MalformedMessageError`; no bytes: none."""
    if not assignment:
        return (), None
    message = _Assignment.decode(_version_of(assignment), assignment, _VERSION.size)
    return _flat(message.assigned_partitions), message.user_data


def _version_of(octets_: bytes) -> int:
    try:
        (version,) = _VERSION.unpack_from(octets_)
    except LayoutError:
        raise MalformedMessageError(
            f"{len(octets_)} bytes are too few for a consumer protocol version"
        ) from None
    if version < 0:
        raise MalformedMessageError(f"consumer protocol version {version} is negative")
    return min(int(version), _NEWEST)


def _grouped(partitions: Iterable[TopicPartition]) -> list[_Partitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [_Partitions(topic=topic, partitions=indexes) for topic, indexes in topics.items()]


def _flat(topics: Iterable[_Partitions]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions
    )
