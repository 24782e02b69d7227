"""DeleteShareGroupOffsets (API 92): forget what an empty share group read of topics (KIP-932)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string, uuid


class RequestTopic(Struct):
    topic_name: str = string()


class Request(schema.Request, api_key=92, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[RequestTopic] = array(RequestTopic)


class ResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


class Response(schema.Response, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[ResponseTopic] = array(ResponseTopic, default_factory=list)
