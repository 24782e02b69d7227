"""AddRaftVoter (API 80): let a controller vote in the metadata quorum (KIP-853).

- 1: the answer need not wait until the change is committed (KIP-1186).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class Request(schema.Request, api_key=80, versions="0-1", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(versions="1+", default=True)


class Response(schema.Response, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
