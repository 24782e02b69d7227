"""LeaveGroup (API 13): members leave a classic group at once, without a session timeout.

- 3: several members at a time, also by their instance id (KIP-345).
- 4: flexible.
- 5: why (KIP-800).
"""

from minikafka.protocol.schema import Request, Response, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string(versions="5+", nullable="5+", default=None)


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+", default_factory=list)
    member_id: str = string(versions="0-2", default="")


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, versions="3+", default_factory=list)
