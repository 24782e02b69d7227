"""LeaveGroup (API 13): members leave a classic group without waiting for the session timeout.

- 3: several members at a time, also by instance id (KIP-345).
- 4: flexible.
- 5: the reason (KIP-800).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string(versions="5+", nullable="5+", default=None)


class Request(schema.Request, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+", default_factory=list)
    member_id: str = string(versions="0-2", default="")


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


class Response(schema.Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, versions="3+", default_factory=list)
