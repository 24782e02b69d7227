"""AlterConfigs (API 33): replace all settings of a resource (KIP-133).

Settings that the request does not name are reset to their defaults, which is why clients prefer
IncrementalAlterConfigs. Version 2 is flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class Resource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class Request(schema.Request, api_key=33, versions="0-2", flexible="2+"):
    resources: list[Resource] = array(Resource)
    validate_only: bool = boolean()


class ResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class Response(schema.Response, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    responses: list[ResourceResponse] = array(ResourceResponse)
