"""Fetch (API 1): a consumer or a follower reads record batches from partitions.

- 4: the isolation level; aborted transactions in the response (KIP-98).
- 5: the log start offset, in requests and responses (KIP-107).
- 7: incremental sessions; ``forgotten_topics_data`` are removed from the session (KIP-227).
- 9: the reader's leader epoch, to fence it if it is stale (KIP-320).
- 10: batches may be compressed with zstd (KIP-110).
- 11: the reader's rack, and the replica that it should read from (KIP-392).
- 12: flexible; the epoch of the last fetched record, and where the logs diverge (KIP-595).
- 13: topic ids replace topic names (KIP-516).
- 14: may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
- 15: a follower sends its broker epoch too, in ``replica_state`` (KIP-903).
- 16: the address of the new leader, when the request reaches another broker (KIP-951).
- 17: the directory of a follower's replica (KIP-853).
- 18: the high watermark that a follower knows (KIP-1166).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import (
    ZERO_UUID,
    Payload,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    payload,
    string,
    uuid,
)


class ReplicaState(Struct):
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class Partition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(versions="9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(versions="12+", default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(versions="17+", default=ZERO_UUID, tag=0)
    high_watermark: int = int64(versions="18+", default=9223372036854775807, tag=1)


class Topic(Struct):
    topic_id: bytes = uuid(versions="13+", default=ZERO_UUID)
    topic: str = string(versions="4-12", default="")
    partitions: list[Partition] = array(Partition)


class ForgottenTopic(Struct):
    topic_id: bytes = uuid(versions="13+", default=ZERO_UUID)
    topic: str = string(versions="7-12", default="")
    partitions: list[int] = array(int32(), default_factory=list)


class Request(schema.Request, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string(versions="12+", nullable="12+", default=None, tag=0)
    replica_state: ReplicaState = nested(
        ReplicaState, versions="15+", default_factory=ReplicaState, tag=1
    )
    replica_id: int = int32(versions="4-14", default=-1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    isolation_level: int = int8(default=0)
    session_id: int = int32(versions="7+", default=0)
    session_epoch: int = int32(versions="7+", default=-1)
    topics: list[Topic] = array(Topic)
    forgotten_topics_data: list[ForgottenTopic] = array(
        ForgottenTopic, versions="7+", default_factory=list
    )
    rack_id: str = string(versions="11+", default="")


class EpochEndOffset(Struct):
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    diverging_epoch: EpochEndOffset = nested(
        EpochEndOffset, versions="12+", default_factory=EpochEndOffset, tag=0
    )
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, versions="12+", default_factory=LeaderIdAndEpoch, tag=1
    )
    snapshot_id: SnapshotId = nested(SnapshotId, versions="12+", default_factory=SnapshotId, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32(versions="11+", default=-1)
    records: Payload | None = payload(nullable="0+")


class TopicResponse(Struct):
    topic_id: bytes = uuid(versions="13+", default=ZERO_UUID)
    topic: str = string(versions="4-12", default="")
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="7+", default=0)
    session_id: int = int32(versions="7+", default=0)
    responses: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(
        NodeEndpoint, versions="16+", default_factory=list, tag=0
    )
