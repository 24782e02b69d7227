"""DescribeGroups (API 15): state, members and assignments of classic groups.

Before version 6, a group that does not exist is described as Dead.

- 3: the operations that the client is authorized for (KIP-430).
- 4: static members (KIP-345).
- 5: flexible.
- 6: GROUP_ID_NOT_FOUND, with a message, for a group that does not exist (KIP-1043).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int16, int32, octets, string


class Request(schema.Request, api_key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array(string(), default_factory=list)
    include_authorized_operations: bool = boolean(versions="3+", default=False)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(versions="4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = octets()
    member_assignment: bytes = octets()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(versions="6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(versions="3+", default=-2147483648)


class Response(schema.Response, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup)
