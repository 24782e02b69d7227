"""RemoveRaftVoter (API 81): take the vote in the metadata quorum from a controller (KIP-853)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import int16, int32, string, uuid


class Request(schema.Request, api_key=81, versions="0", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class Response(schema.Response, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
