"""OffsetForLeaderEpoch (API 23): where a leader epoch ended (KIP-101, KIP-279).

Followers use it to truncate, consumers to detect that records they read were lost (KIP-320).

- 2: the client's leader epoch, to fence it if it is stale.
- 3: the replica id of the sender; -2 may see beyond the high watermark.
- 4: flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, int64, string


class Partition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


class Topic(Struct):
    topic: str = string()
    partitions: list[Partition] = array(Partition)


class Request(schema.Request, api_key=23, versions="2-4", flexible="4+"):
    replica_id: int = int32(versions="3+", default=-2)
    topics: list[Topic] = array(Topic)


class EpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class TopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class Response(schema.Response, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[TopicResult] = array(TopicResult)
