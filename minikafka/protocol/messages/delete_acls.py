"""DeleteAcls (API 31): remove the access rules that match filters (KIP-140).

- 1: prefixed resource names (KIP-290).
- 2: flexible.
- 3: resources of type user (KIP-373).
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, string


class Filter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class Request(schema.Request, api_key=31, versions="1-3", flexible="2+"):
    filters: list[Filter] = array(Filter)


class MatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class FilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[MatchingAcl] = array(MatchingAcl)


class Response(schema.Response, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    filter_results: list[FilterResult] = array(FilterResult)
