"""The records of consumer groups, in Kafka's formats.

A group is stored in parts, so that a change writes no more than what changed: the group epoch (3),
each member's subscription (5), the epoch of the target assignment (6) and each member's part of it
(7), what each member has now (8), and the topics that a regular expression matches (16). Type 4
was Kafka's before 4.1; it is read as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from minikafka.data_class import DataClass
from minikafka.protocol.fields import (
    Struct,
    array,
    int8,
    int32,
    int64,
    nested,
    octets,
    string,
    uuid,
)
from minikafka.protocol.schema import Message

from ..effects import Record
from ..records import VERSION_SIZE_BYTES, Entry, decode_value, encode_versioned
from .partitions import Partitions

_GROUP, _TOPICS, _MEMBER, _TARGET, _TARGET_MEMBER, _CURRENT, _REGEX = 3, 4, 5, 6, 7, 8, 16
_VALUE_VERSION = 0


class GroupKey(Message, versions="3-6"):
    """The key of records of a whole group: 3, 4 and 6."""

    group_id: str = string()


class MemberKey(Message, versions="5-8"):
    """The key of records of one member: 5, 7 and 8."""

    group_id: str = string()
    member_id: str = string()


class RegexKey(Message, versions="16"):
    group_id: str = string()
    regular_expression: str = string()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class GroupValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = octets()


class ClassicMetadata(Struct):
    """What is known about a member that speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class MemberValue(Message, versions="0", flexible="0+"):
    """A member's subscription."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMetadata | None = nested(
        ClassicMetadata, nullable="0+", default=None, tag=0
    )


class TargetValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()


class TargetMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class CurrentValue(Message, versions="0", flexible="0+"):
    """What a member has now, and what it still has to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class RegexValue(Message, versions="0", flexible="0+"):
    """The topics that a regular expression matches, as of a time."""

    topics: list[str] = array(string())
    version: int = int64()
    timestamp_ms: int = int64()


def to_structs(partitions: Partitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]


def from_structs(structs: Iterable[TopicPartitions]) -> Partitions:
    return {one.topic_id: frozenset(one.partitions) for one in structs if one.partitions}


def _record(key: Message, key_version: int, value: Message | None) -> Record:
    stored = None if value is None else encode_versioned(value, _VALUE_VERSION)
    return encode_versioned(key, key_version), stored


class GroupEpochEntry(DataClass):
    """The group epoch; a value of None is a tombstone, here and below."""

    group_id: str
    value: GroupValue | None

    def encode(self) -> Record:
        return _record(GroupKey(group_id=self.group_id), _GROUP, self.value)


class SubscribedTopicsEntry(DataClass):
    """What Kafka stored about the subscribed topics before 4.1."""

    group_id: str

    def encode(self) -> Record:
        return _record(GroupKey(group_id=self.group_id), _TOPICS, None)


class MemberEntry(DataClass):
    group_id: str
    member_id: str
    value: MemberValue | None

    def encode(self) -> Record:
        key = MemberKey(group_id=self.group_id, member_id=self.member_id)
        return _record(key, _MEMBER, self.value)


class TargetEpochEntry(DataClass):
    group_id: str
    value: TargetValue | None

    def encode(self) -> Record:
        return _record(GroupKey(group_id=self.group_id), _TARGET, self.value)


class TargetEntry(DataClass):
    """One member's part of the target assignment."""

    group_id: str
    member_id: str
    value: TargetMemberValue | None

    def encode(self) -> Record:
        key = MemberKey(group_id=self.group_id, member_id=self.member_id)
        return _record(key, _TARGET_MEMBER, self.value)


class CurrentEntry(DataClass):
    group_id: str
    member_id: str
    value: CurrentValue | None

    def encode(self) -> Record:
        key = MemberKey(group_id=self.group_id, member_id=self.member_id)
        return _record(key, _CURRENT, self.value)


class RegexEntry(DataClass):
    group_id: str
    regex: str
    value: RegexValue | None

    def encode(self) -> Record:
        key = RegexKey(group_id=self.group_id, regular_expression=self.regex)
        return _record(key, _REGEX, self.value)


def _decode_of_group(version: int, key: bytes, value: bytes | None) -> Entry:
    group_id = GroupKey.decode(version, key, VERSION_SIZE_BYTES).group_id
    if version == _GROUP:
        return GroupEpochEntry(group_id, None if value is None else decode_value(GroupValue, value))
    if version == _TARGET:
        found = None if value is None else decode_value(TargetValue, value)
        return TargetEpochEntry(group_id, found)
    return SubscribedTopicsEntry(group_id)


def _decode_of_member(version: int, key: bytes, value: bytes | None) -> Entry:
    decoded = MemberKey.decode(version, key, VERSION_SIZE_BYTES)
    ids = decoded.group_id, decoded.member_id
    if version == _MEMBER:
        return MemberEntry(*ids, None if value is None else decode_value(MemberValue, value))
    if version == _TARGET_MEMBER:
        return TargetEntry(*ids, None if value is None else decode_value(TargetMemberValue, value))
    return CurrentEntry(*ids, None if value is None else decode_value(CurrentValue, value))


def _decode_of_regex(version: int, key: bytes, value: bytes | None) -> Entry:
    decoded = RegexKey.decode(version, key, VERSION_SIZE_BYTES)
    found = None if value is None else decode_value(RegexValue, value)
    return RegexEntry(decoded.group_id, decoded.regular_expression, found)


CONSUMER_GROUP_DECODERS: dict[int, Callable[[int, bytes, bytes | None], Entry]] = {
    **dict.fromkeys((_GROUP, _TOPICS, _TARGET), _decode_of_group),
    **dict.fromkeys((_MEMBER, _TARGET_MEMBER, _CURRENT), _decode_of_member),
    _REGEX: _decode_of_regex,
}
"""By the version of the key."""
