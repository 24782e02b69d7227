"""ListPartitionReassignments (API 46): ongoing reassignments (KIP-455).

Null topics request all.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string


class Topic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32(), default_factory=list)


class Request(schema.Request, api_key=46, versions="0", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    topics: list[Topic] | None = array(Topic, nullable="0+")


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32()
    replicas: list[int] = array(int32(), default_factory=list)
    adding_replicas: list[int] = array(int32(), default_factory=list)
    removing_replicas: list[int] = array(int32(), default_factory=list)


class OngoingTopicReassignment(Struct):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class Response(schema.Response, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
