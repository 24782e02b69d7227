"""The records of share groups, in Kafka's formats.

A group is stored in parts, so that a change writes no more than what changed: each member's
subscription (10), the group epoch (11), the epoch of the target assignment (12) and each member's
part of it (13), what each member has now (14), and the partitions whose share state is initialised
(15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from minikafka.data_class import DataClass
from minikafka.protocol.fields import Struct, array, int8, int32, int64, string, uuid
from minikafka.protocol.schema import Message

from ..effects import Record
from ..records import VERSION_SIZE_BYTES, Entry, decode_value, encode_versioned

_MEMBER, _GROUP, _TARGET, _TARGET_MEMBER, _CURRENT, _STATE = 10, 11, 12, 13, 14, 15
_VALUE_VERSION = 0

Partitions = Mapping[bytes, frozenset[int]]
"""Partition indexes by topic id; no topic has an empty set, and nobody changes one in place."""


class GroupKey(Message, versions="11-15"):
    """The key of records of a whole group: 11, 12 and 15."""

    group_id: str = string()


class MemberKey(Message, versions="10-14"):
    """The key of records of one member: 10, 13 and 14."""

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class MemberValue(Message, versions="0", flexible="0+"):
    """A member's subscription."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())


class GroupValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


class TargetValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, tagged="0+", default=0)


class TargetMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class CurrentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8(default=0)
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class NamedPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32())


class NamedTopic(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


class StateValue(Message, versions="0", flexible="0+"):
    """The partitions whose share state exists; the other two lists are Kafka's and stay empty."""

    initializing_topics: list[NamedPartitions] = array(NamedPartitions, default_factory=list)
    initialized_topics: list[NamedPartitions] = array(NamedPartitions)
    deleting_topics: list[NamedTopic] = array(NamedTopic, default_factory=list)


def to_structs(partitions: Partitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]


def from_structs(structs: Iterable[TopicPartitions]) -> Partitions:
    return {one.topic_id: frozenset(one.partitions) for one in structs if one.partitions}


def _group_record(group_id: str, kind: int, value: Message | None) -> Record:
    stored = None if value is None else encode_versioned(value, _VALUE_VERSION)
    return encode_versioned(GroupKey(group_id=group_id), kind), stored


def _member_record(group_id: str, member_id: str, kind: int, value: Message | None) -> Record:
    stored = None if value is None else encode_versioned(value, _VALUE_VERSION)
    return encode_versioned(MemberKey(group_id=group_id, member_id=member_id), kind), stored


class MemberEntry(DataClass):
    """A member's subscription; a value of None is a tombstone, here and below."""

    group_id: str
    member_id: str
    value: MemberValue | None

    def encode(self) -> Record:
        return _member_record(self.group_id, self.member_id, _MEMBER, self.value)


class GroupEpochEntry(DataClass):
    """The group epoch."""

    group_id: str
    value: GroupValue | None

    def encode(self) -> Record:
        return _group_record(self.group_id, _GROUP, self.value)


class TargetEntry(DataClass):
    """The epoch of the target assignment."""

    group_id: str
    value: TargetValue | None

    def encode(self) -> Record:
        return _group_record(self.group_id, _TARGET, self.value)


class TargetMemberEntry(DataClass):
    """What a member is to have."""

    group_id: str
    member_id: str
    value: TargetMemberValue | None

    def encode(self) -> Record:
        return _member_record(self.group_id, self.member_id, _TARGET_MEMBER, self.value)


class CurrentEntry(DataClass):
    """What a member has."""

    group_id: str
    member_id: str
    value: CurrentValue | None

    def encode(self) -> Record:
        return _member_record(self.group_id, self.member_id, _CURRENT, self.value)


class StateEntry(DataClass):
    """The partitions whose share state exists."""

    group_id: str
    value: StateValue | None

    def encode(self) -> Record:
        return _group_record(self.group_id, _STATE, self.value)


def _decode(key_version: int, key: bytes, value: bytes | None) -> Entry:
    if key_version in (_MEMBER, _TARGET_MEMBER, _CURRENT):
        member = MemberKey.decode(key_version, key, VERSION_SIZE_BYTES)
        return _decode_member(key_version, member.group_id, member.member_id, value)
    group_id = GroupKey.decode(key_version, key, VERSION_SIZE_BYTES).group_id
    match key_version:
        case 11:
            return GroupEpochEntry(
                group_id, None if value is None else decode_value(GroupValue, value)
            )
        case 12:
            return TargetEntry(
                group_id, None if value is None else decode_value(TargetValue, value)
            )
        case _:
            return StateEntry(group_id, None if value is None else decode_value(StateValue, value))


def _decode_member(kind: int, group_id: str, member_id: str, value: bytes | None) -> Entry:
    match kind:
        case 10:
            member = None if value is None else decode_value(MemberValue, value)
            return MemberEntry(group_id, member_id, member)
        case 13:
            target = None if value is None else decode_value(TargetMemberValue, value)
            return TargetMemberEntry(group_id, member_id, target)
        case _:
            current = None if value is None else decode_value(CurrentValue, value)
            return CurrentEntry(group_id, member_id, current)


SHARE_GROUP_DECODERS: dict[int, Callable[[int, bytes, bytes | None], Entry]] = dict.fromkeys(
    (_MEMBER, _GROUP, _TARGET, _TARGET_MEMBER, _CURRENT, _STATE), _decode
)
"""By the version of the key."""
