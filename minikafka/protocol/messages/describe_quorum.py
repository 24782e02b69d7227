"""DescribeQuorum (API 55): the replicas of the metadata log, and their progress (KIP-595).

- 1: when each replica last fetched, and when it was last caught up (KIP-836).
- 2: error messages, the directories of replicas, the addresses of nodes (KIP-853).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import (
    ZERO_UUID,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class PartitionDataRequest(Struct):
    partition_index: int = int32()


class TopicDataRequest(Struct):
    topic_name: str = string()
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


class Request(schema.Request, api_key=55, versions="0-2", flexible="0+"):
    topics: list[TopicDataRequest] = array(TopicDataRequest)


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(versions="2+", default=ZERO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(versions="1+", default=-1)
    last_caught_up_timestamp: int = int64(versions="1+", default=-1)


class PartitionDataResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(versions="2+", nullable="2+", default="")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class TopicDataResponse(Struct):
    topic_name: str = string()
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Struct):
    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class Response(schema.Response, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string(versions="2+", nullable="2+", default="")
    topics: list[TopicDataResponse] = array(TopicDataResponse)
    nodes: list[Node] = array(Node, versions="2+", default_factory=list)
