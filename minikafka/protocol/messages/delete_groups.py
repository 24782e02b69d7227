"""DeleteGroups (API 42): delete groups without members, and their offsets (KIP-229).

- 2: flexible.
- 3: why a group was not deleted, in words.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int16, int32, string


class Request(schema.Request, api_key=42, versions="0-3", flexible="2+"):
    groups_names: list[str] = array(string(), default_factory=list)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(versions="3+", nullable="3+", default=None)


class Response(schema.Response, api_key=42, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
