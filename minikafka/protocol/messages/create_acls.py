"""CreateAcls (API 30): add access rules (KIP-140).

- 1: prefixed resource names (KIP-290).
- 2: flexible.
- 3: resources of type user (KIP-373).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class Request(schema.Request, api_key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class Response(schema.Response, api_key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult)
