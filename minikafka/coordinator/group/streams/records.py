"""The records of streams groups, in Kafka's formats.

A group is stored in parts, so that a change writes no more than what changed: the group epoch (17),
what each member is (19), the epoch of the target assignment (20) and each member's part of it (21),
what each member has now (22), and the topology (23).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from minikafka.data_class import DataClass
from minikafka.protocol.fields import (
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    string,
    uint16,
)
from minikafka.protocol.schema import Message

from ..effects import Record
from ..records import VERSION_SIZE_BYTES, Entry, decode_value, encode_versioned
from .tasks import TaskId, Tasks, grouped

_GROUP, _MEMBER, _TARGET, _TARGET_MEMBER, _CURRENT, _TOPOLOGY = 17, 19, 20, 21, 22, 23
_VALUE_VERSION = 0


class GroupKey(Message, versions="17-23"):
    """The key of records of a whole group: 17, 20 and 23."""

    group_id: str = string()


class MemberKey(Message, versions="19-22"):
    """The key of records of one member: 19, 21 and 22."""

    group_id: str = string()
    member_id: str = string()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class GroupValue(Message, versions="0", flexible="0+"):
    """The group epoch, and what the target assignment of that epoch depends on.

    Attributes:
        validated_topology_epoch: the epoch of the topology if all of its topics exist as they have
            to be; else -1.
        last_assignment_configs: the settings of the group that assignors use.
        stored_description_topology_epoch: as below, of Kafka's plug-ins; -1.
        failed_description_topology_epoch: the same.
    """

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, tagged="0+", default=-1)
    last_assignment_configs: list[KeyValue] | None = array(
        KeyValue, tag=1, tagged="0+", nullable="0+", default=None
    )
    stored_description_topology_epoch: int = int32(tag=2, tagged="0+", default=-1)
    failed_description_topology_epoch: int = int32(tag=3, tagged="0+", default=-1)


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class MemberValue(Message, versions="0", flexible="0+"):
    """Who a member is, and which topology it runs."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class TargetValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp_ms: int = int64(tag=0, tagged="0+", default=0)


class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32())


class TargetMemberValue(Message, versions="0", flexible="0+"):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class CurrentTaskIds(Struct):
    """Tasks of one subtopology; active ones with the epoch in which the member got each."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32())
    assignment_epochs: list[int] | None = array(
        int32(), tag=0, tagged="0+", nullable="0+", default=None
    )


class CurrentValue(Message, versions="0", flexible="0+"):
    """What a member has now, and what it still has to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):
    """Indexes into the lists of the subtopology."""

    source_topics: list[int] = array(int16())
    source_topic_regex: list[int] = array(int16())
    repartition_source_topics: list[int] = array(int16())


class SubtopologyValue(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string())
    source_topic_regex: list[str] = array(string())
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string())
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class TopologyValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    subtopologies: list[SubtopologyValue] = array(SubtopologyValue)


def to_structs(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=indexes) for one, indexes in grouped(tasks)]


def from_structs(structs: Iterable[TaskIds | CurrentTaskIds]) -> Tasks:
    return frozenset(
        TaskId(one.subtopology_id, index) for one in structs for index in one.partitions
    )


def to_current_structs(
    tasks: Tasks, epochs: Mapping[TaskId, int] | None = None
) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=one,
            partitions=indexes,
            assignment_epochs=None
            if epochs is None
            else [epochs.get(TaskId(one, index), 0) for index in indexes],
        )
        for one, indexes in grouped(tasks)
    ]


def assignment_epochs(structs: Iterable[CurrentTaskIds]) -> dict[TaskId, int]:
    """The epoch in which a member got each task; 0 where an older broker has stored none."""
    found: dict[TaskId, int] = {}
    for one in structs:
        epochs = one.assignment_epochs or [0] * len(one.partitions)
        for index, epoch in zip(one.partitions, epochs, strict=False):
            found[TaskId(one.subtopology_id, index)] = epoch
    return found


# --- records ---------------------------------------------------------------------------------


def _group_record(group_id: str, kind: int, value: Message | None) -> Record:
    stored = None if value is None else encode_versioned(value, _VALUE_VERSION)
    return encode_versioned(GroupKey(group_id=group_id), kind), stored


def _member_record(group_id: str, member_id: str, kind: int, value: Message | None) -> Record:
    stored = None if value is None else encode_versioned(value, _VALUE_VERSION)
    return encode_versioned(MemberKey(group_id=group_id, member_id=member_id), kind), stored


class GroupEpochEntry(DataClass):
    """The group epoch; a value of None is a tombstone, here and below."""

    group_id: str
    value: GroupValue | None

    def encode(self) -> Record:
        return _group_record(self.group_id, _GROUP, self.value)


class MemberEntry(DataClass):
    group_id: str
    member_id: str
    value: MemberValue | None

    def encode(self) -> Record:
        return _member_record(self.group_id, self.member_id, _MEMBER, self.value)


class TargetEpochEntry(DataClass):
    group_id: str
    value: TargetValue | None

    def encode(self) -> Record:
        return _group_record(self.group_id, _TARGET, self.value)


class TargetEntry(DataClass):
    """One member's part of the target assignment."""

    group_id: str
    member_id: str
    value: TargetMemberValue | None

    def encode(self) -> Record:
        return _member_record(self.group_id, self.member_id, _TARGET_MEMBER, self.value)


class CurrentEntry(DataClass):
    group_id: str
    member_id: str
    value: CurrentValue | None

    def encode(self) -> Record:
        return _member_record(self.group_id, self.member_id, _CURRENT, self.value)


class TopologyEntry(DataClass):
    group_id: str
    value: TopologyValue | None

    def encode(self) -> Record:
        return _group_record(self.group_id, _TOPOLOGY, self.value)


def _decode_of_group(version: int, key: bytes, value: bytes | None) -> Entry:
    group_id = GroupKey.decode(version, key, VERSION_SIZE_BYTES).group_id
    if version == _GROUP:
        return GroupEpochEntry(group_id, None if value is None else decode_value(GroupValue, value))
    if version == _TARGET:
        found = None if value is None else decode_value(TargetValue, value)
        return TargetEpochEntry(group_id, found)
    return TopologyEntry(group_id, None if value is None else decode_value(TopologyValue, value))


def _decode_of_member(version: int, key: bytes, value: bytes | None) -> Entry:
    decoded = MemberKey.decode(version, key, VERSION_SIZE_BYTES)
    ids = decoded.group_id, decoded.member_id
    if version == _MEMBER:
        return MemberEntry(*ids, None if value is None else decode_value(MemberValue, value))
    if version == _TARGET_MEMBER:
        return TargetEntry(*ids, None if value is None else decode_value(TargetMemberValue, value))
    return CurrentEntry(*ids, None if value is None else decode_value(CurrentValue, value))


STREAMS_GROUP_DECODERS: dict[int, Callable[[int, bytes, bytes | None], Entry]] = {
    **dict.fromkeys((_GROUP, _TARGET, _TOPOLOGY), _decode_of_group),
    **dict.fromkeys((_MEMBER, _TARGET_MEMBER, _CURRENT), _decode_of_member),
}
"""By the version of the key."""
