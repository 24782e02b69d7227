"""AlterShareGroupOffsets (API 91): let an empty share group start elsewhere (KIP-932)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, int64, string, uuid


class RequestPartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()


class RequestTopic(Struct):
    topic_name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class Request(schema.Request, api_key=91, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


class ResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class Response(schema.Response, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[ResponseTopic] = array(ResponseTopic, default_factory=list)
