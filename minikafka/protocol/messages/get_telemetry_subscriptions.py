"""GetTelemetrySubscriptions (API 71): which metrics a client is to push, and how (KIP-714)."""

from minikafka.protocol import schema
from minikafka.protocol.fields import array, boolean, int8, int16, int32, string, uuid


class Request(schema.Request, api_key=71, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()


class Response(schema.Response, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8(), default_factory=list)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string(), default_factory=list)
