"""CreatePartitions (API 37): give topics more partitions (KIP-195).

- 2: flexible.
- 3: may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, string


class Assignment(Struct):
    broker_ids: list[int] = array(int32(), default_factory=list)


class Topic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[Assignment] | None = array(Assignment, nullable="0+")


class Request(schema.Request, api_key=37, versions="0-3", flexible="2+"):
    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class TopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[TopicResult] = array(TopicResult)
