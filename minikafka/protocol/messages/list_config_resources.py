"""ListConfigResources (API 74): the names of resources that have settings.

- 0: client metrics subscriptions only (KIP-714).
- 1: any types of resource; an empty list requests all (KIP-1142).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, string


class Request(schema.Request, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8(), versions="1+", default_factory=list)


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8(versions="1+", default=16)


class Response(schema.Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
