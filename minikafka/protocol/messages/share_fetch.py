"""ShareFetch (API 78): acquire records of share-partitions, and acknowledge earlier ones (KIP-932).

- 1: the first stable version; 0 was an early access of Kafka 4.0.
- 2: an exact limit of records (KIP-1206), and renewing the lock of records (KIP-1222).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import (
    Payload,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nested,
    payload,
    string,
    uuid,
)


class AcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8())


class Partition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(
        AcknowledgementBatch, default_factory=list
    )


class Topic(Struct):
    topic_id: bytes = uuid()
    partitions: list[Partition] = array(Partition)


class ForgottenTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class Request(schema.Request, api_key=78, versions="1-2", flexible="0+"):
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(versions="2+", default=0)
    is_renew_ack: bool = boolean(versions="2+", default=False)
    topics: list[Topic] = array(Topic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, default_factory=list)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


class AcquiredRecords(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16(default=0)
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, default_factory=LeaderIdAndEpoch)
    records: Payload | None = payload(nullable="0", default=b"")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords, default_factory=list)


class TopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32(default=0)
    responses: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, default_factory=list)
