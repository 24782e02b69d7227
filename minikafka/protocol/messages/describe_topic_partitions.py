"""DescribeTopicPartitions (API 75): partitions of topics, page by page (KIP-966).

``next_cursor`` of one response is the ``cursor`` of the next request; null after the last page.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, nested, string, uuid


class TopicRequest(Struct):
    name: str = string()


class CursorRequest(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class Request(schema.Request, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: CursorRequest | None = nested(CursorRequest, nullable="0+", default=None)


class Partition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32(), default_factory=list)
    isr_nodes: list[int] = array(int32(), default_factory=list)
    eligible_leader_replicas: list[int] | None = array(int32(), nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32(), nullable="0+", default=None)
    offline_replicas: list[int] = array(int32(), default_factory=list)


class Topic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean(default=False)
    partitions: list[Partition] = array(Partition)
    topic_authorized_operations: int = int32(default=-2147483648)


class CursorResponse(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class Response(schema.Response, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[Topic] = array(Topic)
    next_cursor: CursorResponse | None = nested(CursorResponse, nullable="0+", default=None)
