"""IncrementalAlterConfigs (API 44): change individual settings of a resource (KIP-339).

``config_operation`` is 0 to set, 1 to delete, 2 to append to a list, 3 to subtract from it.
Version 1 is flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class Resource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class Request(schema.Request, api_key=44, versions="0-1", flexible="1+"):
    resources: list[Resource] = array(Resource)
    validate_only: bool = boolean()


class ResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class Response(schema.Response, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32(default=0)
    responses: list[ResourceResponse] = array(ResourceResponse)
