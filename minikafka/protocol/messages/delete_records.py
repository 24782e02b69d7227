"""DeleteRecords (API 21): move the start of partitions forward (KIP-107).

Offset -1 is the high watermark. Version 2 is flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, int64, string


class Partition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class Topic(Struct):
    name: str = string()
    partitions: list[Partition] = array(Partition)


class Request(schema.Request, api_key=21, versions="0-2", flexible="2+"):
    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32()


class PartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class TopicResult(Struct):
    name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


class Response(schema.Response, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[TopicResult] = array(TopicResult)
