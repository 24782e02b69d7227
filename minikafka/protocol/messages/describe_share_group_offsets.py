"""DescribeShareGroupOffsets (API 90): where the share-partitions of groups start (KIP-932).

- 1: how far a share-partition lags behind (KIP-1226).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, int64, string, uuid


class RequestTopic(Struct):
    topic_name: str = string()
    partitions: list[int] = array(int32())


class RequestGroup(Struct):
    group_id: str = string()
    topics: list[RequestTopic] | None = array(RequestTopic, nullable="0+", default=None)


class Request(schema.Request, api_key=90, versions="0-1", flexible="0+"):
    groups: list[RequestGroup] = array(RequestGroup)


class ResponsePartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64(default=-1)
    leader_epoch: int = int32(default=0)
    lag: int = int64(versions="1+", default=-1)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


class ResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class ResponseGroup(Struct):
    group_id: str = string()
    topics: list[ResponseTopic] = array(ResponseTopic, default_factory=list)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[ResponseGroup] = array(ResponseGroup)
