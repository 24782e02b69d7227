"""DeleteTopics (API 20): delete topics and everything in them.

- 3: may answer TOPIC_DELETION_DISABLED.
- 4: flexible.
- 5: an error message; may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- 6: topics are named or given by id, in ``topics`` (KIP-516).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import ZERO_UUID, Struct, array, int16, int32, string, uuid


class TopicState(Struct):
    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


class Request(schema.Request, api_key=20, versions="1-6", flexible="4+"):
    topics: list[TopicState] = array(TopicState, versions="6+", default_factory=list)
    topic_names: list[str] = array(string(), versions="1-5", default_factory=list)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid(versions="6+", default=ZERO_UUID)
    error_code: int = int16()
    error_message: str | None = string(versions="5+", nullable="5+", default=None)


class Response(schema.Response, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32(default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
