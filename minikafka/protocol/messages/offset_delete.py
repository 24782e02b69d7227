"""OffsetDelete (API 47): delete a group's offsets for topics that it no longer reads (KIP-496)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string


class RequestPartition(Struct):
    partition_index: int = int32()


class RequestTopic(Struct):
    name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class Request(schema.Request, api_key=47, versions="0"):
    group_id: str = string()
    topics: list[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class ResponseTopic(Struct):
    name: str = string()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class Response(schema.Response, api_key=47, versions="0"):
    error_code: int = int16()
    throttle_time_ms: int = int32(default=0)
    topics: list[ResponseTopic] = array(ResponseTopic)
