"""ElectLeaders (API 43): elect the preferred, or any live, replica as leader.

- 0: the preferred replica (KIP-183).
- 1: ``election_type``: 0 preferred, 1 unclean (KIP-460).
- 2: flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32(), default_factory=list)


class Request(schema.Request, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = int8(versions="1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class Response(schema.Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
