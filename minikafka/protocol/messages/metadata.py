"""Metadata (API 3): brokers, topics, and the leaders of partitions.

- 0: an empty list of topics requests all.
- 1: null requests all topics, an empty list none; the controller, racks, internal topics.
- 2: the cluster id (KIP-78).
- 4: missing topics are created only if ``allow_auto_topic_creation`` is true.
- 5: offline replicas (KIP-112).
- 7: leader epochs (KIP-320).
- 8: the operations that the client is authorized for (KIP-430).
- 9: flexible.
- 10: topic ids in the response (KIP-516).
- 11: no authorized operations on the cluster; DescribeCluster has them (KIP-700).
- 12: topics can be requested by id; the name of an unknown id is null.
- 13: an error for the whole response, such as REBOOTSTRAP_REQUIRED (KIP-1102).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import ZERO_UUID, Struct, array, boolean, int16, int32, string, uuid


class RequestTopic(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str | None = string(nullable="10+")


class Request(schema.Request, api_key=3, versions="0-13", flexible="9+"):
    topics: list[RequestTopic] | None = array(RequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10", default=False)
    include_topic_authorized_operations: bool = boolean(versions="8+", default=False)


class Broker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(versions="1+", nullable="1+", default=None)


class Partition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(versions="7+", default=-1)
    replica_nodes: list[int] = array(int32(), default_factory=list)
    isr_nodes: list[int] = array(int32(), default_factory=list)
    offline_replicas: list[int] = array(int32(), versions="5+", default_factory=list)


class ResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    is_internal: bool = boolean(versions="1+", default=False)
    partitions: list[Partition] = array(Partition)
    topic_authorized_operations: int = int32(versions="8+", default=-2147483648)


class Response(schema.Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32(versions="3+", default=0)
    brokers: list[Broker] = array(Broker)
    cluster_id: str | None = string(versions="2+", nullable="2+", default=None)
    controller_id: int = int32(versions="1+", default=-1)
    topics: list[ResponseTopic] = array(ResponseTopic)
    error_code: int = int16(versions="13+", default=0)
    cluster_authorized_operations: int = int32(versions="8-10", default=-2147483648)
