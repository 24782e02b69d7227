"""AlterClientQuotas (API 49): set or remove quotas of users, clients and addresses (KIP-546).

A null name is the default entity of its type. Version 1 is flexible.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, boolean, float64, int16, int32, string


class EntityDataRequest(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryDataRequest(Struct):
    entity: list[EntityDataRequest] = array(EntityDataRequest)
    ops: list[OpData] = array(OpData)


class Request(schema.Request, api_key=49, versions="0-1", flexible="1+"):
    entries: list[EntryDataRequest] = array(EntryDataRequest)
    validate_only: bool = boolean()


class EntityDataResponse(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class EntryDataResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityDataResponse] = array(EntityDataResponse)


class Response(schema.Response, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32(default=0)
    entries: list[EntryDataResponse] = array(EntryDataResponse)
