"""ShareGroupDescribe (API 77): the members of share groups and what they read (KIP-932).

- 1: the first stable version; 0 was an early access of Kafka 4.0.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, nested, string, uuid


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32())


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, default_factory=list)


class Member(Struct):
    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    assignment: Assignment = nested(Assignment)


class DescribedGroup(Struct):
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string(default="")
    group_epoch: int = int32(default=0)
    assignment_epoch: int = int32(default=0)
    assignor_name: str = string(default="")
    members: list[Member] = array(Member, default_factory=list)
    authorized_operations: int = int32(default=-2147483648)


class Request(schema.Request, api_key=77, versions="1", flexible="0+"):
    group_ids: list[str] = array(string())
    include_authorized_operations: bool = boolean(default=False)


class Response(schema.Response, api_key=77, versions="1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup)
