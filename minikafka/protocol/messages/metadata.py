"""Metadata (API 3): brokers, topics, and who leads which partition.

- 0: an empty list of topics asks for all of them.
- 1: null asks for all, an empty list for none; the controller, racks, internal topics.
- 2: the cluster id (KIP-78).
- 4: asking creates a missing topic only where ``allow_auto_topic_creation`` says so.
- 5: offline replicas (KIP-112).
- 7: leader epochs (KIP-320).
- 8: what the asker may do with the cluster and its topics (KIP-430).
- 9: flexible.
- 10: topic ids in the response (KIP-516).
- 11: no more operations on the cluster, DescribeCluster has them (KIP-700).
- 12: topics can be asked for by id; the name of an unknown id is null.
- 13: an error for the whole response, such as REBOOTSTRAP_REQUIRED (KIP-1102).
"""

from minikafka.protocol.schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
    uuid,
)


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    name: str | None = string(nullable="10+")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10", default=False)
    include_topic_authorized_operations: bool = boolean(versions="8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(versions="1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(versions="7+", default=-1)
    replica_nodes: list[int] = array(int32(), default_factory=list)
    isr_nodes: list[int] = array(int32(), default_factory=list)
    offline_replicas: list[int] = array(int32(), versions="5+", default_factory=list)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid(versions="10+", default=ZERO_UUID)
    is_internal: bool = boolean(versions="1+", default=False)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(versions="8+", default=-2147483648)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32(versions="3+", default=0)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(versions="2+", nullable="2+", default=None)
    controller_id: int = int32(versions="1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    error_code: int = int16(versions="13+", default=0)
    cluster_authorized_operations: int = int32(versions="8-10", default=-2147483648)
