"""OffsetCommit (API 8): commit the offsets of a group.

A consumer that assigns partitions itself sends generation -1 and an empty member id.

- 2 to 4: a retention time, which a broker setting has replaced.
- 5: no more retention time (KIP-211).
- 6: the leader epoch of the last record read (KIP-320).
- 7: static members (KIP-345).
- 8: flexible.
- 9: the generation may be a member epoch; STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND (KIP-848).
- 10: topic ids replace topic names (KIP-848).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import ZERO_UUID, Struct, array, int16, int32, int64, string, uuid


class RequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class RequestTopic(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str = string(versions="2-9", default="")
    partitions: list[RequestPartition] = array(RequestPartition)


class Request(schema.Request, api_key=8, versions="2-10", flexible="8+"):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(versions="7+", nullable="7+", default=None)
    retention_time_ms: int = int64(versions="2-4", default=-1)
    topics: list[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class ResponseTopic(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str = string(versions="2-9", default="")
    partitions: list[ResponsePartition] = array(ResponsePartition)


class Response(schema.Response, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32(versions="3+", default=0)
    topics: list[ResponseTopic] = array(ResponseTopic)
