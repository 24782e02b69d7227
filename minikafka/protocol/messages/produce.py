"""Produce (API 0): a producer appends record batches to partitions.

A request with ``acks=0`` gets no response.

- 3: record batches of format 2, the transactional id.
- 5: the log start offset, in the response.
- 7: batches may be compressed with zstd (KIP-110).
- 8: which records made a batch fail, and an error message (KIP-467).
- 9: flexible.
- 10: the current leader, when the request reaches another broker (KIP-951).
- 11: may answer TRANSACTION_ABORTABLE (KIP-890).
- 12: writing to a partition adds it to the transaction (KIP-890).
- 13: topic ids replace topic names (KIP-516).

Versions 0 to 2 carried older formats. Apache Kafka 4 has none of them, but still announces them,
because librdkafka looks at the lowest version to decide what the broker can do (KAFKA-18659).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import (
    ZERO_UUID,
    Payload,
    Struct,
    array,
    int16,
    int32,
    int64,
    nested,
    payload,
    string,
    uuid,
)


class PartitionData(Struct):
    index: int = int32()
    records: Payload | None = payload(nullable="0+")


class TopicData(Struct):
    topic_id: bytes = uuid(versions="13+", default=ZERO_UUID)
    name: str = string(versions="3-12", default="")
    partition_data: list[PartitionData] = array(PartitionData)


class Request(schema.Request, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicData] = array(TopicData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, versions="8+", default_factory=list
    )
    error_message: str | None = string(versions="8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, versions="10+", default_factory=LeaderIdAndEpoch, tag=0
    )


class TopicResponse(Struct):
    topic_id: bytes = uuid(versions="13+", default=ZERO_UUID)
    name: str = string(versions="3-12", default="")
    partition_responses: list[PartitionResponse] = array(PartitionResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicResponse] = array(TopicResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="10+", default_factory=list, tag=0
    )
