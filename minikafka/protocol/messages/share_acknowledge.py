"""ShareAcknowledge (API 79): say what became of acquired records (KIP-932).

- 1: the first stable version; 0 was an early access of Kafka 4.0.
- 2: renewing the lock of records (KIP-1222).
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
    uuid,
)


class AcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8())


class Partition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class Topic(Struct):
    topic_id: bytes = uuid()
    partitions: list[Partition] = array(Partition)


class Request(schema.Request, api_key=79, versions="1-2", flexible="0+"):
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean(versions="2+", default=False)
    topics: list[Topic] = array(Topic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, default_factory=LeaderIdAndEpoch)


class TopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32(versions="2+", default=0)
    responses: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, default_factory=list)
