"""ShareGroupHeartbeat (API 76): a member of a share group joins, lives, or leaves (KIP-932).

- 1: the first stable version; 0 was an early access of Kafka 4.0.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, nested, string, uuid


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Request(schema.Request, api_key=76, versions="1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string(), nullable="0+", default=None)


class Response(schema.Response, api_key=76, versions="1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
