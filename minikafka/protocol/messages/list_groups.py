"""ListGroups (API 16): the groups that one broker coordinates.

- 3: flexible.
- 4: only groups in certain states; the state of each (KIP-518).
- 5: only certain types; the type of each (KIP-848).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string


class Request(schema.Request, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string(), versions="4+", default_factory=list)
    types_filter: list[str] = array(string(), versions="5+", default_factory=list)


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+", default="")
    group_type: str = string(versions="5+", default="")


class Response(schema.Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32(versions="1+", default=0)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
