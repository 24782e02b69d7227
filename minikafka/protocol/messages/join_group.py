"""JoinGroup (API 11): join a classic consumer group, or rejoin it in a rebalance.

The response is sent when the group is complete or the rebalance timeout has expired; only the
leader's lists the members.

- 1: a separate rebalance timeout; earlier versions use the session timeout (KIP-62).
- 4: a new member is sent back with MEMBER_ID_REQUIRED and the id to use (KIP-394).
- 5: static members (KIP-345).
- 6: flexible.
- 7: the response names the protocol type (KIP-559).
- 8: the reason for rejoining (KIP-800).
- 9: a static leader may be told to skip the assignment (KIP-814).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, octets, string


class Protocol(Struct):
    name: str = string()
    metadata: bytes = octets()


class Request(schema.Request, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[Protocol] = array(Protocol)
    reason: str | None = string(versions="8+", nullable="8+", default=None)


class Member(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None)
    metadata: bytes = octets()


class Response(schema.Response, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32(versions="2+", default=0)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(versions="7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+", default=False)
    member_id: str = string()
    members: list[Member] = array(Member)
