"""StreamsGroupDescribe (API 89): state, topology, members and tasks of streams groups (KIP-1071).

Version 1 adds the assignor and, if it is asked for and stored, a description of the topology
(KIP-1331).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import (
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nested,
    string,
    uint16,
)


class Request(schema.Request, api_key=89, versions="0-1", flexible="0+"):
    group_ids: list[str] = array(string(), default_factory=list)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean(versions="1+", default=False)


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue, default_factory=list)


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(int32())


class Assignment(Struct):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string())
    repartition_sink_topics: list[str] = array(string())
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(Subtopology, nullable="0+", default=None)


class Member(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, default_factory=list)
    task_offsets: list[TaskOffset] = array(TaskOffset, default_factory=list)
    task_end_offsets: list[TaskOffset] = array(TaskOffset, default_factory=list)
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    is_classic: bool = boolean(default=False)


class TopologyDescriptionNode(Struct):
    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string())
    sink_topic: str | None = string(nullable="0+", default=None)
    stores: list[str] = array(string())
    successors: list[str] = array(string())


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = nested(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = nested(TopologyDescriptionNode)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class DescribedGroup(Struct):
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string(default="")
    group_epoch: int = int32(default=0)
    assignment_epoch: int = int32(default=0)
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    members: list[Member] = array(Member, default_factory=list)
    authorized_operations: int = int32(default=-2147483648)
    topology_description: TopologyDescription | None = nested(
        TopologyDescription, versions="1+", nullable="1+", default=None
    )
    topology_description_status: int = int8(versions="1+", default=0)
    assignor_name: str | None = string(versions="1+", nullable="1+", default=None)


class Response(schema.Response, api_key=89, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup)
