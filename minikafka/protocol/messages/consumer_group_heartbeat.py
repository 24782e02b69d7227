"""ConsumerGroupHeartbeat (API 68): join, stay in, and leave a consumer group (KIP-848).

The only request of the newer group protocol: a member sends what changed since its last heartbeat
and receives its assignment. ``member_epoch`` 0 joins, -1 leaves; a static member that will come
back leaves with -2.

- 1: subscription by regular expression; the client generates its member id (KIP-1082).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, nested, string, uuid


class TopicPartitionsRequest(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32(), default_factory=list)


class Request(schema.Request, api_key=68, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string(), nullable="0+", default=None)
    subscribed_topic_regex: str | None = string(versions="1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitionsRequest] | None = array(
        TopicPartitionsRequest, nullable="0+"
    )


class TopicPartitionsResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32(), default_factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitionsResponse] = array(TopicPartitionsResponse)


class Response(schema.Response, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
