"""AlterReplicaLogDirs (API 34): move replicas to other data directories of a broker (KIP-113).

- 2: flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string


class Topic(Struct):
    name: str = string()
    partitions: list[int] = array(int32(), default_factory=list)


class Directory(Struct):
    path: str = string()
    topics: list[Topic] = array(Topic)


class Request(schema.Request, api_key=34, versions="1-2", flexible="2+"):
    dirs: list[Directory] = array(Directory)


class PartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TopicResult(Struct):
    topic_name: str = string()
    partitions: list[PartitionResult] = array(PartitionResult)


class Response(schema.Response, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[TopicResult] = array(TopicResult)
