"""UnregisterBroker (API 64): remove a broker that will not come back (KIP-631)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import int16, int32, string


class Request(schema.Request, api_key=64, versions="0", flexible="0+"):
    broker_id: int = int32()


class Response(schema.Response, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
