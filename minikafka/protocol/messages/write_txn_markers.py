"""WriteTxnMarkers (API 27): write commit and abort markers to partitions (KIP-98).

Sent by coordinators, and by admin clients to end a hanging transaction (KIP-664).

- 1: flexible.
- 2: the transaction version, which decides how the marker's epoch is checked (KIP-1228).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int8, int16, int32, int64, string


class Topic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32(), default_factory=list)


class Marker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[Topic] = array(Topic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(versions="2+", default=0)


class Request(schema.Request, api_key=27, versions="1-2", flexible="1+"):
    markers: list[Marker] = array(Marker)


class PartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TopicResult(Struct):
    name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


class MarkerResult(Struct):
    producer_id: int = int64()
    topics: list[TopicResult] = array(TopicResult)


class Response(schema.Response, api_key=27, versions="1-2", flexible="1+"):
    markers: list[MarkerResult] = array(MarkerResult)
