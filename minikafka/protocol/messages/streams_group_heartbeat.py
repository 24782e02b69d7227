"""StreamsGroupHeartbeat (API 88): join, stay in, and leave a streams group (KIP-1071).

The request of Kafka Streams with ``group.protocol=streams``. A member sends what changed since its
last heartbeat and receives its tasks. ``member_epoch`` 0 joins (with the topology), -1 leaves; a
static member that will come back leaves with -2.

- 1: the acceptable lag of a warm-up task has 64 bits; the broker may ask for a description of the
  topology (KIP-1331).
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


class CopartitionGroup(Struct):
    source_topics: list[int] = array(int16(), default_factory=list)
    source_topic_regex: list[int] = array(int16(), default_factory=list)
    repartition_source_topics: list[int] = array(int16(), default_factory=list)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(string(), default_factory=list)
    source_topic_regex: list[str] = array(string(), default_factory=list)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)
    repartition_sink_topics: list[str] = array(string(), default_factory=list)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, default_factory=list)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


class Request(schema.Request, api_key=88, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32(default=0)
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean(default=False)


class Status(Struct):
    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = nested(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


class Response(schema.Response, api_key=88, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string(default="")
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    acceptable_recovery_lag: int = int32(versions="0", default=0)
    task_offset_interval_ms: int = int32(default=0)
    acceptable_recovery_lag_v1: int = int64(versions="1+", default=-1)
    status: list[Status] | None = array(Status, nullable="0+", default_factory=list)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean(versions="1+", default=False)
    endpoint_information_epoch: int = int32(default=0)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )
