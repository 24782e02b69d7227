"""DescribeConfigs (API 32): settings of topics, brokers and other resources (KIP-133).

Null ``configuration_keys`` request all settings.

- 1: the source of each value, and its synonyms (KIP-226).
- 3: types and documentation of settings (KIP-569).
- 4: flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, int8, int16, int32, string


class Resource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string(), nullable="0+", default_factory=list)


class Request(schema.Request, api_key=32, versions="1-4", flexible="4+"):
    resources: list[Resource] = array(Resource)
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean(versions="3+", default=False)


class Synonym(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


class ResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[Synonym] = array(Synonym)
    config_type: int = int8(versions="3+", default=0)
    documentation: str | None = string(versions="3+", nullable="3+", default="")


class Result(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[ResourceResult] = array(ResourceResult)


class Response(schema.Response, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32(default=0)
    results: list[Result] = array(Result)
