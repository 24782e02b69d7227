"""FindCoordinator (API 10): which broker coordinates a group or a transactional id.

``key_type`` is 0 for a group, 1 for a transactional id, 2 for a share group's partition.

- 1: key types; an error message (KIP-98).
- 3: flexible.
- 4: several keys at a time, in ``coordinator_keys`` and ``coordinators`` (KIP-699).
- 5: may answer TRANSACTION_ABORTABLE (KIP-890).
- 6: share groups (KIP-932).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, string


class Request(schema.Request, api_key=10, versions="0-6", flexible="3+"):
    key: str = string(versions="0-3", default="")
    key_type: int = int8(versions="1+", default=0)
    coordinator_keys: list[str] = array(string(), versions="4+", default_factory=list)


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class Response(schema.Response, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    coordinators: list[Coordinator] = array(Coordinator, versions="4+", default_factory=list)
    error_code: int = int16(versions="0-3", default=0)
    error_message: str | None = string(versions="1-3", nullable="1-3", default="")
    node_id: int = int32(versions="0-3", default=0)
    host: str = string(versions="0-3", default="")
    port: int = int32(versions="0-3", default=0)
