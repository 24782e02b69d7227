"""SyncGroup (API 14): the leader sends the assignments, every member receives its own.

- 3: static members (KIP-345).
- 4: flexible.
- 5: protocol type and name, which must match the group's (KIP-559).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, octets, string


class Assignment(Struct):
    member_id: str = string()
    assignment: bytes = octets()


class Request(schema.Request, api_key=14, versions="0-5", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None)
    assignments: list[Assignment] = array(Assignment)


class Response(schema.Response, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: int = int16()
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None)
    assignment: bytes = octets()
