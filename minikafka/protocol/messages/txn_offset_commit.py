"""TxnOffsetCommit (API 28): commit offsets as part of a transaction (KIP-98).

- 2: the leader epoch of the last record read (KIP-320).
- 3: flexible; member and generation, so that a zombie member is fenced (KIP-447).
- 4: may answer TRANSACTION_ABORTABLE (KIP-890).
- 5: AddOffsetsToTxn is no longer needed first (KIP-890).
- 6: topic ids in place of names (KIP-1319).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import ZERO_UUID, Struct, array, int16, int32, int64, string, uuid


class RequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class RequestTopic(Struct):
    name: str = string(versions="0-5", default="")
    topic_id: bytes = uuid(versions="6+", default=ZERO_UUID)
    partitions: list[RequestPartition] = array(RequestPartition)


class Request(schema.Request, api_key=28, versions="0-6", flexible="3+"):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(versions="3+", default=-1)
    member_id: str = string(versions="3+", default="")
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    topics: list[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class ResponseTopic(Struct):
    name: str = string(versions="0-5", default="")
    topic_id: bytes = uuid(versions="6+", default=ZERO_UUID)
    partitions: list[ResponsePartition] = array(ResponsePartition)


class Response(schema.Response, api_key=28, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[ResponseTopic] = array(ResponseTopic)
